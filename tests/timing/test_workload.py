import threading
import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import MeasurementError
from headtune.timing import LatencyProtocol, measure
from headtune.timing.clock import clock_of
from headtune.timing.forward import Forward, prepared
from headtune.timing.inputs import Given
from headtune.timing.sampling import take_samples
from headtune.timing.step import Step
from headtune.timing.workload import Workload, ready

PROTOCOL = LatencyProtocol(device="cpu", threads=1, batch_size=2, max_seconds=0.3)
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    return (torch.ones(batch_size, 64),)


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Relapsing(nn.Module):
    """Goes into training mode whenever it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout = nn.Linear(64, 64), nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        self.dropout.train()
        return self.dropout(self.layer(x))


class AlwaysOn(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(super().forward(input))


class Hasty(nn.Module):
    """Returns at once, and leaves its work to a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(600, 600))

    def forward(self, x: Tensor) -> Tensor:
        threading.Thread(target=self.work).start()
        spin(1e-3)
        return x

    def work(self) -> None:
        for _ in range(3):
            self.weight.detach() @ self.weight.detach()


class LateToWarm(nn.Module):
    """Twice as fast after so many passes, long after its warm-up seems to be over."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.passes: list[int] = [after]

    def forward(self, x: Tensor) -> Tensor:
        self.passes[0] -= 1
        spin(2e-3 if self.passes[0] > 0 else 1e-3)
        return x


def test_a_model_that_goes_into_training_mode_by_itself_is_refused() -> None:
    with pytest.raises(MeasurementError) as caught:
        measure(Relapsing(), inputs, PROTOCOL)
    assert str(caught.value) == (
        "the model goes into training mode in its forward pass (dropout), so that dropout and gradients' bookkeeping "
        "would be timed; call train() outside of forward, or measure mode: train_step"
    )
    measure(Relapsing(), inputs, replace(PROTOCOL, mode="train_step"))


def test_dropout_that_is_always_on_is_told_of() -> None:
    assert any(
        "draws random numbers in eval mode" in doubt for doubt in measure(AlwaysOn(64, 64), inputs, PROTOCOL).doubts
    )
    assert not any("draws random" in doubt for doubt in measure(nn.Linear(64, 64), inputs, PROTOCOL).doubts)


def test_work_that_goes_on_after_forward_is_told_of() -> None:
    doubts = measure(Hasty(), inputs, PROTOCOL).doubts
    assert any("more was computed than the clock saw" in doubt for doubt in doubts)


def test_a_warm_up_that_ends_too_late_is_told_of_and_is_not_settled() -> None:
    # The warm-up may take a quarter of 0.4 s, so at most 50 passes; then 300 samples, which take longer than 0.4 s: the
    # first third is slow and the last one fast, wherever the warm-up ended.
    profile = measure(LateToWarm(150), inputs, replace(PROTOCOL, min_samples=300, max_seconds=0.4))
    assert not profile.settled
    assert any("it was still warming up" in doubt for doubt in profile.doubts)


def test_a_clock_that_does_not_wait_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    # A device whose queue is a list: passes only fill it, and whoever waits for the device has it worked off.
    queue: list[float] = []

    def wait(device: str) -> None:
        spin(min(sum(queue), 0.02))  # how many passes fit into a sample, and so into the queue, is the machine's affair
        queue.clear()

    monkeypatch.setattr("headtune.timing.sampling.synchronize", wait)
    forward = Forward(name="it", model=nn.Identity(), given=Given(()))
    workload = Workload(forward=forward, step=Step(call=lambda: queue.append(1e-3)))

    def heedless(call: object, calls: int) -> float:
        return clock_of("cpu")(workload.step.call, calls)

    def waiting(call: object, calls: int) -> float:
        started = time.perf_counter()
        workload.step.call()
        wait("cpu")
        return (time.perf_counter() - started) * 1e3

    assert any("the clock does not wait" in doubt for doubt in take_samples(workload, None, heedless, PROTOCOL).doubts)
    queue.clear()
    assert not any("does not wait" in doubt for doubt in take_samples(workload, None, waiting, PROTOCOL).doubts)


@pytest.mark.slow  # inductor compiles C++
def test_compiled_models_are_timed_compiled_and_the_persons_is_not() -> None:
    class Noting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.seen = nn.Linear(64, 64), Seen()

        def forward(self, x: Tensor) -> Tensor:
            self.seen.compiling = torch.compiler.is_compiling()
            return self.layer(x).relu()

    model = Noting()
    with prepared(model, inputs(2, None), PROTOCOL) as forward:
        workload = ready(forward, replace(PROTOCOL, compile=True), clock_of("cpu"))
        assert model.seen.compiling
        with torch.inference_mode():
            output = workload.step.call()
        assert isinstance(output, Tensor)
        assert torch.allclose(output, model(inputs(2, None)[0]))
    assert not model.seen.compiling  # the pass just above was an ordinary one


class Seen:
    compiling = False


@gpu
@pytest.mark.gpu
def test_a_captured_pass_computes_the_same_and_costs_no_more() -> None:
    protocol = LatencyProtocol(device="cuda:0", threads=1, max_seconds=0.5)
    model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(20)]).cuda()
    plain = measure(model, inputs, protocol)
    captured = measure(model, inputs, replace(protocol, cuda_graphs=True))
    assert captured.interval_ms[0] < plain.interval_ms[1]  # 20 launches fewer


@gpu
@pytest.mark.gpu
def test_on_a_gpu_a_clock_that_does_not_wait_is_told_of() -> None:
    class Busy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            torch.cuda._sleep(2_000_000)
            return x

    protocol = LatencyProtocol(device="cuda:0", threads=1, max_seconds=0.5)
    with prepared(Busy(), inputs(2, None), protocol) as forward:
        workload = ready(forward, protocol, clock_of("cuda:0"))
        assert not any(
            "does not wait" in doubt for doubt in take_samples(workload, None, clock_of("cuda:0"), protocol).doubts
        )
        assert any("does not wait" in doubt for doubt in take_samples(workload, None, clock_of("cpu"), protocol).doubts)
