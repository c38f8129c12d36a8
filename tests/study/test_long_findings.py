from headtune.study.long_findings import long_findings
from headtune.timing import LongVariant

AGAIN = LongVariant(
    name="checkpointing",
    mode="train_step",
    ratio=1.05,
    ratio_interval=(0.9, 1.2),
    median_ms=21.0,
    median_without_ms=20.0,
)


def test_time_and_memory_are_told_beside_those_without(window_variant: LongVariant) -> None:
    assert list(long_findings({"largest": (window_variant, AGAIN)})) == [
        "attention within a window of 128 positions, which computes something else, largest: takes 0.25 × the time "
        "[0.20, 0.30] and 0.25 × the memory",
        "checkpointing, which computes activations again, largest: takes as long within the noise ([0.90, 1.20] ×)",
    ]


def test_what_was_refused_is_no_finding() -> None:
    refused = LongVariant(name="window", mode="forward", window=128, refused="no site can be switched")
    assert list(long_findings({"present": (refused,)})) == []
    assert list(long_findings({})) == []
