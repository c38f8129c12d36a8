import random

import pytest

from headtune.timing.audit import drifting, hogged, unsettled, unsynchronised
from headtune.timing.contention import Contention


def quiet(**changed: float) -> Contention:
    return Contention(**{"seconds": 1.0, "beside": 0.0, "waited": 0.0, "stolen": 0.0, **changed})


def test_a_quiet_machine_raises_no_doubt() -> None:
    assert hogged(quiet(waited=0.09, stolen=0.09)) == []
    assert unsynchronised(quiet(), clocked_s=0.98, threads=1, left_ms=0.01, pass_ms=1.0) == []


def test_cores_that_others_took_are_told_by_who_took_them() -> None:
    (processes,) = hogged(quiet(waited=0.4))
    assert processes.startswith("other processes took the cores: this one waited for a core 40% of the time")
    (machines,) = hogged(quiet(stolen=0.2))
    assert machines.startswith("the hypervisor gave 20% of a core to other machines")


def test_a_device_that_still_works_when_the_clock_has_stopped() -> None:
    (said,) = unsynchronised(quiet(), clocked_s=1.0, threads=1, left_ms=5.0, pass_ms=0.2)
    assert said.startswith(
        "the clock does not wait for the device: 5 ms of work were left when the last pass of 0.2 ms"
    )


@pytest.mark.parametrize(
    ("beside", "clocked", "threads", "doubted"),
    [
        (0.1, 1.0, 1, False),
        (1.0, 1.0, 2, False),  # one thread helps
        (0.5, 1.0, 1, True),
        (0.9, 0.1, 1, True),
        (2.0, 1.0, 2, True),
    ],
)
def test_more_computed_than_the_clock_saw(beside: float, clocked: float, threads: int, doubted: bool) -> None:
    said = unsynchronised(quiet(beside=beside), clocked_s=clocked, threads=threads, left_ms=0.0, pass_ms=1.0)
    assert bool(said) is doubted
    assert all("forward returns before its work is done" in one for one in said)


def test_a_warm_up_that_goes_on_is_told_from_a_device_that_slows_down() -> None:
    noise = random.Random(0)
    falling = [(1.5 if i < 12 else 1.0) * noise.lognormvariate(0, 0.02) for i in range(36)]
    (faster,) = drifting(falling)
    assert faster.startswith("the passes got faster: it was still warming up (from first to last third × 0.6")
    (slower,) = drifting(falling[::-1])
    assert slower.startswith("the passes got slower: caches fill, or the device is throttled")


def test_noise_is_no_drift() -> None:
    # 5 % is the least change that is told of, and it must be significant besides.
    generator = random.Random(1)
    assert not any(drifting([generator.lognormvariate(0, 0.1) for _ in range(60)]) for _ in range(100))
    assert drifting([1.0] * 20 + [1.04] * 20) == []
    assert drifting([1.0, 2.0] * 5) == []


def test_a_time_too_short_is_told_by_what_it_was_too_short_for() -> None:
    assert unsettled(warm=True, warm_up_s=0.5, half_width=0.02, precision=0.02) == []
    (warming,) = unsettled(warm=False, warm_up_s=0.5, half_width=0.01, precision=0.02)
    assert warming.startswith("passes still got faster when the time to warm up was over (0.5 s)")
    (wide,) = unsettled(warm=True, warm_up_s=0.5, half_width=0.05, precision=0.02)
    assert wide.startswith("the interval is ± 5.0%, wider than the ± 2.0% that the protocol wants")
