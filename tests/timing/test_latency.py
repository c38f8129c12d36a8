import fcntl
import json
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import InputError, MeasurementError
from headtune.timing import Lane, LatencyProfile, LatencyProtocol, measure, resolve
from headtune.timing.protocol import Mode

QUICK = LatencyProtocol(device="cpu", threads=1, max_seconds=0.5, batch_size=2)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


class Spin(nn.Module):
    """Busy for a planted time: ``units`` of 0.2 ms."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.seconds = units * 2e-4

    def forward(self, x: Tensor) -> Tensor:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return x


class Notes:
    """What a model noted; lists that it holds itself are put back after timing."""

    def __init__(self) -> None:
        self.found: list[object] = []


class Watching(nn.Module):
    """Notes under what it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.notes = Notes()

    @property
    def seen(self) -> set[object]:
        return set(self.notes.found)

    def forward(self, x: Tensor) -> Tensor:
        torch.rand(1)
        self.notes.found.append(
            (torch.get_num_threads(), self.training, torch.is_grad_enabled(), x.dtype, tuple(x.shape))
        )
        return self.layer(x)


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    return (torch.zeros(batch_size, 3),)


def test_a_model_beside_itself_is_neither_faster_nor_slower() -> None:
    # The order within a pair is drawn, so each of the two is the slower one with even chance whatever the machine does:
    # an interval contains 1 in at least 95 % of runs, and fewer than 2 of 6 do so by a chance of 2 in a million.
    model = nn.Sequential(nn.Linear(3, 64), nn.Linear(64, 64))
    profiles = [measure(model, inputs, QUICK, reference=model) for _ in range(6)]
    assert sum(low <= 1 <= high for low, high in (profile.interval for profile in profiles)) >= 2
    assert all(profile.interval[0] <= profile.ratio <= profile.interval[1] for profile in profiles)


def test_a_planted_cost_is_recovered_within_its_interval() -> None:
    # The call around the spinning costs under 0.02 ms, which takes 0.2 -> 0.4 ms from a ratio of 2 to 1.9 at most.
    profile = measure(Spin(2), inputs, QUICK, reference=Spin(1))
    low, high = profile.interval
    assert low <= 2.0
    assert high >= 1.9
    assert profile.median_ms >= 0.4
    assert profile.reference_median_ms is not None
    assert profile.reference_median_ms >= 0.2
    assert profile.interval_ms[0] <= profile.median_ms <= profile.interval_ms[1]
    assert profile.median_ms <= profile.p90_ms


def test_the_planted_cost_is_recovered_the_other_way_round() -> None:
    low, high = measure(Spin(1), inputs, QUICK, reference=Spin(2)).interval
    assert low <= 1 / 1.9
    assert high >= 1 / 2


def test_without_a_reference_the_ratio_is_one() -> None:
    profile = measure(Spin(1), inputs, QUICK)
    assert (profile.ratio, profile.ratio_interval, profile.reference_median_ms) == (1.0, (1.0, 1.0), None)
    assert profile.median_ms >= 0.2


def test_it_runs_under_the_protocol_and_puts_everything_back() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    state = torch.get_rng_state()
    model, other = Watching().train(), Watching().train()
    torch.set_rng_state(state)
    measure(model, inputs, LatencyProtocol(device="cpu", threads=2, max_seconds=0.2, batch_size=5), reference=other)
    assert model.seen == other.seen == {(2, False, False, torch.float32, (5, 3))}
    assert model.training
    assert other.training
    assert torch.get_num_threads() == 1
    assert torch.is_grad_enabled()
    assert torch.equal(torch.get_rng_state(), state)


def test_model_and_reference_may_differ_in_dtype_and_get_the_protocols() -> None:
    model, reference = Watching(), Watching().to(torch.float64)
    protocol = LatencyProtocol(device="cpu", threads=1, max_seconds=0.2, batch_size=2, dtype="bfloat16")
    profile = measure(model, inputs, protocol, reference=reference)
    assert profile.protocol.dtype == "bfloat16"
    assert (model.seen, reference.seen) == (set(), set())  # copies ran
    assert model.layer.weight.dtype == torch.float32
    assert reference.layer.weight.dtype == torch.float64


def test_the_profile_says_under_what_it_was_measured() -> None:
    profile = measure(nn.Linear(3, 3), inputs, LatencyProtocol(device="cpu", max_seconds=0.2))
    assert profile.protocol == resolve(LatencyProtocol(device="cpu", max_seconds=0.2), torch.get_num_threads())
    assert profile.versions["torch"] == torch.__version__
    assert profile.device_name == profile.versions["cpu"]
    assert profile.calls_per_sample > 1
    assert not profile.contended
    assert LatencyProfile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


def test_ready_inputs_give_their_sizes_to_the_profile() -> None:
    profile = measure(nn.Linear(3, 3), {"input": torch.zeros(7, 11, 3)}, QUICK)
    assert (profile.protocol.batch_size, profile.protocol.seq_len) == (7, 11)


def test_an_unreached_precision_is_said() -> None:
    protocol = LatencyProtocol(device="cpu", threads=1, max_seconds=0.1, precision=1e-12)
    profile = measure(Watching(), inputs, protocol, reference=Watching())
    assert not profile.settled
    assert any("wider than the ± 0.0% that the protocol wants" in doubt for doubt in profile.doubts)


def test_samples_are_taken_alone_in_the_lane_and_the_first_passes_are_not(tmp_path: Path) -> None:
    class Feeling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.notes = Notes()

        def forward(self, x: Tensor) -> Tensor:
            with (tmp_path / "cpu.floor").open("a") as floor:
                try:
                    fcntl.flock(floor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.notes.found.append(True)
                else:
                    self.notes.found.append(False)
            return x

    model, reference = Feeling(), Feeling()
    measure(model, inputs, QUICK, reference=reference, lane=Lane(tmp_path))
    for felt in (model.notes.found, reference.notes.found):
        assert felt[:2] == [False, False]
        assert all(felt[2:])


def test_the_lane_is_free_again_and_was_not_contended(tmp_path: Path) -> None:
    lane = Lane(tmp_path, "cpu")
    with lane.shared():  # a trial that measures itself
        assert not measure(nn.Linear(3, 3), inputs, QUICK, lane=lane).contended
    with Lane(tmp_path, "cpu").exclusive(0.0) as contended:
        assert not contended


def test_a_model_that_raises_is_told_apart_from_the_reference() -> None:
    with pytest.raises(MeasurementError) as caught:
        measure(nn.Linear(3, 3), inputs, QUICK, reference=nn.Linear(4, 4))
    assert str(caught.value) == (
        "the reference failed in its forward pass: RuntimeError: mat1 and mat2 shapes cannot be multiplied "
        "(2x3 and 4x4); it was given torch.float32 [2, 3] on cpu: make inputs return what its forward takes"
    )


def test_settings_come_back_after_a_model_raised() -> None:
    torch.set_num_threads(1)
    model = nn.Linear(4, 4).train()
    with pytest.raises(MeasurementError):
        measure(model, inputs, LatencyProtocol(device="cpu", threads=2))
    assert torch.get_num_threads() == 1
    assert model.training


def test_inputs_that_are_no_arguments() -> None:
    with pytest.raises(InputError, match=r"got a Tensor; wrap it as \(tensor,\)$"):
        measure(nn.Linear(3, 3), torch.zeros(2, 3), QUICK)  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_gpu_that_is_not_there_is_said_before_anything_runs() -> None:
    model = Watching()
    with pytest.raises(MeasurementError, match=r"^cuda asked, no CUDA device: "):
        measure(model, inputs, LatencyProtocol(device="cuda"))
    assert model.seen == set()


@gpu
@pytest.mark.gpu
def test_on_a_gpu_a_planted_cost_is_recovered_and_the_model_stays_where_it_was() -> None:
    class Busy(nn.Module):
        def __init__(self, cycles: int) -> None:
            super().__init__()
            self.layer, self.cycles = nn.Linear(3, 3), cycles

        def forward(self, x: Tensor) -> Tensor:
            torch.cuda._sleep(self.cycles)
            return self.layer(x)

    model = Busy(3_000_000)
    protocol = LatencyProtocol(device="cuda", threads=1, dtype="float16")
    profile = measure(model, inputs, protocol, reference=Busy(1_000_000))
    assert profile.ratio == pytest.approx(3, rel=0.1)  # a launch and a small kernel beside about a millisecond
    assert profile.protocol.device == "cuda:0"
    assert profile.device_name == torch.cuda.get_device_name(0)
    assert (model.layer.weight.device.type, model.layer.weight.dtype) == ("cpu", torch.float32)


@gpu
@pytest.mark.gpu
def test_on_a_gpu_a_lack_of_memory_passes_through() -> None:
    class Huge(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.empty(2**45, device=x.device)

    with pytest.raises(torch.OutOfMemoryError):
        measure(Huge(), inputs, LatencyProtocol(device="cuda"))


def test_arguments_of_another_kind_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        measure(None, inputs, 3, reference="big")  # type: ignore[arg-type]
    assert caught.value.problems == (
        "measure: model: must be a torch.nn.Module (got None)",
        "measure: protocol: must be a LatencyProtocol (got 3)",
        "measure: reference: must be a torch.nn.Module or None (got 'big')",
    )


class Cache:
    """What a decoder keeps of earlier positions."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []


FOUND = set[int]()
"""How full the caches were; a training step's model is a copy, which takes what the model holds along."""


class Caching(nn.Module):
    """Notes how full the cache was that it was given, and fills it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        FOUND.add(len(cache.kept))
        made: Tensor = self.linear(x)
        cache.kept.append(made)
        return made


@pytest.mark.parametrize("mode", ["forward", "train_step"])
def test_every_pass_begins_with_the_cache_that_was_given(mode: Mode) -> None:
    # In a row, of passes too short for the clock, each would find what the one before left: these are long enough.
    FOUND.clear()
    cache = Cache()
    cache.kept.append(torch.zeros(1))
    protocol = LatencyProtocol(device="cpu", threads=1, max_seconds=0.05, mode=mode)
    measure(Caching(), {"x": torch.zeros(50_000, 3), "cache": cache}, protocol)
    assert (FOUND, len(cache.kept)) == ({1}, 1)
