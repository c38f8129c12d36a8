from dataclasses import replace

import pytest

from headtune.errors import InputError
from headtune.timing import LatencyProtocol


def test_is_a_value() -> None:
    assert LatencyProtocol(threads=2) == LatencyProtocol(threads=2)
    assert len({LatencyProtocol(), LatencyProtocol(), LatencyProtocol(dtype="bfloat16")}) == 2


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        LatencyProtocol(
            device="tpu",
            threads=0,
            dtype="float64",  # type: ignore[arg-type]
            batch_size=1.5,  # type: ignore[arg-type]
            seq_len=-1,
            mode="backward",  # type: ignore[arg-type]
            min_samples=True,
            max_seconds=0.0,
            precision="2 %",  # type: ignore[arg-type]
        )
    assert caught.value.problems == (
        "LatencyProtocol.device: must be auto, cpu, cuda, cuda:<number>, mps, xpu or xpu:<number> (got 'tpu')",
        "LatencyProtocol.threads: must be at least 1 (got 0)",
        "LatencyProtocol.dtype: must be float32, float16 or bfloat16 (got 'float64')",
        "LatencyProtocol.batch_size: must be a whole number (got 1.5)",
        "LatencyProtocol.seq_len: must be at least 1 (got -1)",
        "LatencyProtocol.mode: must be forward, train_step or decode (got 'backward')",
        "LatencyProtocol.min_samples: must be a whole number (got True)",
        "LatencyProtocol.max_seconds: must be a number above 0 (got 0.0)",
        "LatencyProtocol.precision: must be a number above 0 (got '2 %')",
    )


def test_a_time_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InputError, match=r"^LatencyProtocol\.max_seconds: must be a number above 0 \(got nan\)$"):
        LatencyProtocol(max_seconds=float("nan"))


def test_a_replaced_value_is_checked_too() -> None:
    with pytest.raises(InputError, match=r"^LatencyProtocol\.threads: must be at least 1 \(got 0\)$"):
        replace(LatencyProtocol(), threads=0)


def test_more_threads_than_any_machine_has_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        LatencyProtocol(threads=10_000)
    assert str(caught.value) == "LatencyProtocol.threads: must be at most 1024 (got 10000)"


def test_several_lengths_are_one_protocol_each() -> None:
    several = LatencyProtocol(seq_len=[8, 64])  # type: ignore[arg-type]
    assert several == LatencyProtocol(seq_len=(8, 64))
    assert several.lengths == (8, 64)
    assert several.at(8) == LatencyProtocol(seq_len=8)
    assert LatencyProtocol().lengths == (None,)
    with pytest.raises(InputError, match=r"one pass has one length, and 2 are named; write protocol\.at\(64\)$"):
        several.length  # noqa: B018


def test_what_cannot_be_asked_together() -> None:
    with pytest.raises(InputError) as caught:
        LatencyProtocol(device="mps", cuda_graphs=True, mode="decode", dtype="bfloat16", autocast="bfloat16")
    assert caught.value.problems == (
        "LatencyProtocol.cuda_graphs: must be false on mps: only CUDA replays graphs",
        "LatencyProtocol.cuda_graphs: must be false under `mode: decode`: only a forward pass is captured",
        "LatencyProtocol.autocast: must be none beside `dtype: bfloat16`: autocast starts from float32",
    )
