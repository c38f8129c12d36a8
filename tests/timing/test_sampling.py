import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import repeat

import pytest
import torch
from torch import nn

from headtune.timing import LatencyProtocol
from headtune.timing.forward import Forward
from headtune.timing.inputs import Given
from headtune.timing.interval import FEWEST, median_interval
from headtune.timing.sampling import SAMPLE_MS, STEADY_PASSES, Samples, take_samples
from headtune.timing.step import Step
from headtune.timing.workload import Workload


def named(name: str) -> Workload:
    forward = Forward(name=name, model=nn.Identity(), given=Given((torch.zeros(1),)))
    return Workload(forward=forward, step=Step(call=forward))


MODEL, REFERENCE = named("model"), named("reference")


class Script:
    """A clock that reads its times off a script, and keeps what it was asked."""

    def __init__(self, times: dict[str, Iterator[float]]) -> None:
        self.times = times
        self.asked: list[tuple[str, int]] = []

    def __call__(self, call: Callable[[], object], calls: int) -> float:
        assert isinstance(call, Forward)
        self.asked.append((call.name, calls))
        return next(self.times[call.name]) * calls


def protocol(**settings: float) -> LatencyProtocol:
    return LatencyProtocol(device="cpu", threads=1, **{"max_seconds": 60.0, **settings})  # type: ignore[arg-type]


def noisy(mean: float, sd: float, seed: int) -> Iterator[float]:
    generator = random.Random(seed)
    while True:
        yield mean * generator.lognormvariate(0, sd)


def busy_machine(times_slower: float, sd: float, seed: int) -> Script:
    """A reference of 1 ms and a model *times_slower*, on a machine that gets slower and slower for both alike."""

    def drifting(mean: float, seed: int) -> Iterator[float]:
        for i, ms in enumerate(noisy(mean, sd, seed)):
            yield ms * (1 + i / 20)

    return Script({"model": drifting(times_slower, seed), "reference": drifting(1.0, seed + 10_000)})


def test_the_planted_ratio_is_found_on_a_drifting_machine() -> None:
    # The intervals cover 95 %: of 40 seeded runs 38 are expected, and under 33 would be a chance of 1 in 1000.
    # Milliseconds alone would be lost: within a run they triple.
    covered = 0
    for seed in range(40):
        samples = take_samples(MODEL, REFERENCE, busy_machine(1.5, 0.05, seed), protocol(precision=0.02))
        low, high = median_interval(samples.ratios)
        assert (high - low) / 2 <= 0.02 * 1.6
        covered += low <= 1.5 <= high
    assert covered >= 33


def test_the_number_of_samples_follows_from_the_precision() -> None:
    # The width of an interval falls with the square root of the number of samples: half of it takes four times as many.
    # One count has a relative spread of about a third; over 15 seeds the mean ratio stays within 30 % of 4.
    growth = []
    for seed in range(15):
        counts = [
            len(take_samples(MODEL, REFERENCE, busy_machine(1.0, 0.1, seed), protocol(precision=p)).model_ms)
            for p in (0.02, 0.01)
        ]
        growth.append(counts[1] / counts[0])
    assert sum(growth) / len(growth) == pytest.approx(4, rel=0.3)


def test_min_samples_are_taken_of_a_noiseless_model() -> None:
    clock = Script({"model": repeat(1.0)})
    samples = take_samples(MODEL, None, clock, protocol(min_samples=23))
    assert (len(samples.model_ms), samples.reference_ms, samples.settled) == (23, (), True)


def test_never_fewer_than_an_interval_needs() -> None:
    samples = take_samples(MODEL, None, Script({"model": repeat(1.0)}), protocol(min_samples=1))
    assert len(samples.model_ms) == FEWEST
    assert samples.settled


def test_time_ends_it_and_it_says_so() -> None:
    began = time.perf_counter()
    clock = Script({"model": noisy(1.0, 0.5, 0)})
    samples = take_samples(MODEL, None, clock, protocol(max_seconds=0.2, precision=1e-9))
    assert time.perf_counter() - began >= 0.2
    assert not samples.settled
    assert len(samples.model_ms) > 30


@pytest.mark.parametrize(("pass_s", "taken"), [(1 / 1024, 128), (1 / 64, 30), (1 / 32, 20), (1.0, FEWEST)])
def test_the_wanted_samples_are_worth_five_times_the_wanted_seconds(
    monkeypatch: pytest.MonkeyPatch, pass_s: float, taken: int
) -> None:
    now = [0.0]
    values = noisy(1.0, 0.5, 0)

    def clock(call: Callable[[], object], calls: int) -> float:
        now[0] += pass_s
        return next(values)

    monkeypatch.setattr("headtune.timing.sampling.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("headtune.timing.sampling._warm_up", lambda workload, clock, seconds: (1.0, True))
    wanted = protocol(max_seconds=1 / 8, min_samples=30, precision=1e-9)
    samples = take_samples(MODEL, None, clock, wanted)
    assert (len(samples.model_ms), samples.settled) == (taken, False)


def test_a_model_slower_than_the_time_gets_the_fewest_samples_and_is_not_settled() -> None:
    passes: list[None] = []

    def slow(call: Callable[[], object], calls: int) -> float:
        passes.append(None)
        time.sleep(0.02)
        return 20.0

    samples = take_samples(MODEL, None, slow, protocol(max_seconds=0.001))
    assert len(samples.model_ms) == FEWEST
    assert len(passes) == FEWEST + 1  # one pass to warm up
    assert not samples.settled


def test_model_and_reference_alternate_in_an_order_drawn_pair_by_pair() -> None:
    clock = Script({"model": noisy(1.0, 0.3, 0), "reference": noisy(1.0, 0.3, 1)})
    samples = take_samples(MODEL, REFERENCE, clock, protocol(min_samples=400, precision=1.0))
    names = [name for name, _ in clock.asked[-800:]]
    pairs = list(zip(names[::2], names[1::2], strict=True))
    assert {frozenset(pair) for pair in pairs} == {frozenset({"model", "reference"})}
    # 400 fair coins: five standard deviations are 50. The generator is seeded, so this does not depend on luck.
    assert 150 < sum(first == "model" for first, _ in pairs) < 250
    assert len(samples.model_ms) == len(samples.reference_ms) == 400


def test_pairs_stay_together() -> None:
    steps = [float(i) for i in range(1, 500)]
    clock = Script({"model": iter([1.0] * 6 + [2 * s for s in steps]), "reference": iter([1.0] * 6 + steps)})
    samples = take_samples(MODEL, REFERENCE, clock, protocol())
    assert samples.ratios == [2.0] * 30


def test_the_global_generator_is_not_drawn_from() -> None:
    random.seed(5)
    state = random.getstate()
    take_samples(MODEL, REFERENCE, busy_machine(1.0, 0.1, 0), protocol())
    assert random.getstate() == state


def test_warming_up_lasts_until_passes_get_no_faster() -> None:
    falling = [9.0, 7.0, 5.0, 4.0, 3.0]
    clock = Script({"model": iter([*falling, *repeat(3.0, 5 + 30)])})
    samples = take_samples(MODEL, None, clock, protocol())
    assert samples.settled
    assert samples.model_ms == [3.0] * 30
    assert len(clock.asked) == len(falling) + STEADY_PASSES + 30


def test_a_slow_decline_is_no_standstill() -> None:
    # Each pass is 0.5 % faster than the one before: 2 % in four passes.
    falling = [3.0 * 0.995**i for i in range(20)]
    clock = Script({"model": iter([*falling, *repeat(falling[-1], 40)])})
    samples = take_samples(MODEL, None, clock, protocol())
    assert set(samples.model_ms) == {falling[-1]}


def test_slow_passes_among_fast_ones_do_not_keep_it_warming_up() -> None:
    clock = Script({"model": iter([3.0, 9.0, 3.0, 8.0, 3.1, 30.0, *repeat(3.0, 30)])})
    assert take_samples(MODEL, None, clock, protocol()).settled
    assert len(clock.asked) == 1 + STEADY_PASSES + 30


def test_a_model_that_gets_faster_as_long_as_it_warms_up_is_not_settled() -> None:
    began, times = time.perf_counter(), []

    def cooling(call: Callable[[], object], calls: int) -> float:
        time.sleep(0.002)
        warming_up = time.perf_counter() - began < 2.0 / 4
        times.append(1e6 * 0.95 ** len(times) if warming_up else 1.0)
        return times[-1] * calls

    samples = take_samples(MODEL, None, cooling, protocol(max_seconds=2.0))
    assert samples.model_ms == [1.0] * 30  # precise from the start, and yet
    assert not samples.settled


@pytest.mark.parametrize(("pass_ms", "calls"), [(5.0, 1), (SAMPLE_MS, 1), (0.04, 3), (0.001, 100)])
def test_short_passes_are_timed_in_a_row(pass_ms: float, calls: int) -> None:
    clock = Script({"model": repeat(pass_ms), "reference": repeat(5.0)})
    samples = take_samples(MODEL, REFERENCE, clock, protocol())
    assert samples.calls == calls
    assert set(clock.asked[-60:]) == {("model", calls), ("reference", 1)}
    assert samples.model_ms == pytest.approx([pass_ms] * 30)


def test_no_garbage_is_collected_and_no_gradient_kept_meanwhile() -> None:
    seen: set[tuple[bool, bool]] = set()

    def watching(call: Callable[[], object], calls: int) -> float:
        seen.add((gc.isenabled(), torch.is_inference_mode_enabled()))
        return 1.0

    take_samples(MODEL, None, watching, protocol())
    assert seen == {(False, True)}
    assert gc.isenabled()
    assert not torch.is_inference_mode_enabled()


def test_garbage_collection_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        take_samples(MODEL, None, Script({"model": repeat(1.0)}), protocol())
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_garbage_collection_comes_back_after_an_error() -> None:
    def breaking(call: Callable[[], object], calls: int) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take_samples(MODEL, None, breaking, protocol())
    assert gc.isenabled()


def test_ratios_are_pair_by_pair() -> None:
    samples = Samples(model_ms=(2.0, 9.0), reference_ms=(1.0, 3.0), calls=1, settled=True)
    assert samples.ratios == [2.0, 3.0]
