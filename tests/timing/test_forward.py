import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import InputError, MeasurementError
from headtune.timing import LatencyProtocol, measure
from headtune.timing.forward import prepared

FLOAT32 = LatencyProtocol(device="cpu", threads=1)
BFLOAT16 = LatencyProtocol(device="cpu", threads=1, dtype="bfloat16")


class Rotary(nn.Module):
    """A complex buffer, as rotary embeddings have one, a tied weight and an integer buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.outer.weight = self.inner.weight
        self.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.register_buffer("steps", torch.arange(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.inner(x))


class CachedMask(nn.Module):
    """Makes a mask at the first pass and keeps it, in an object that other models may share."""

    def __init__(self, kept: SimpleNamespace) -> None:
        super().__init__()
        self.scale, self.kept = nn.Linear(4, 4), kept

    def forward(self, x: Tensor) -> Tensor:
        if self.kept.mask is None:
            self.kept.mask = torch.arange(4.0)
        return self.scale(x * self.kept.mask) * self.kept.mask


class Uncopyable(nn.Linear):
    def __deepcopy__(self, memo: object) -> "Uncopyable":
        raise TypeError("cannot pickle a socket")


class Failing(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error


def test_positional_and_keyword_arguments_reach_forward() -> None:
    model = nn.Bilinear(2, 3, 1)
    x, y = torch.rand(5, 2), torch.rand(5, 3)
    for inputs in ((x, y), {"input2": y, "input1": x}):
        with prepared(model, inputs, FLOAT32) as forward:
            assert torch.equal(forward(), model(x, y))  # type: ignore[arg-type]


def test_eval_mode_inside_and_each_modules_own_mode_afterwards() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4))).train()
    model[1][1].eval()  # frozen statistics, as in fine-tuning
    before = [module.training for module in model.modules()]
    with prepared(model, (torch.rand(2, 4),), FLOAT32) as forward:
        assert forward.model is model
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before == [True, True, True, True, False]


def test_modes_come_back_after_an_error() -> None:
    model = nn.Dropout().train()
    with pytest.raises(KeyError), prepared(model, (), FLOAT32):
        raise KeyError
    assert model.training


def test_a_model_of_another_dtype_is_timed_as_a_cast_copy() -> None:
    model = Rotary()
    before = copy.deepcopy(model.state_dict())
    with prepared(model, (torch.rand(2, 4),), BFLOAT16) as forward:
        assert forward.model is not model
        output = forward()
        assert isinstance(output, Tensor)
        assert output.dtype == torch.bfloat16
        dtypes = {name: tensor.dtype for name, tensor in forward.model.state_dict().items()}
        assert (forward.model.inner.weight is forward.model.outer.weight) is True
    assert dtypes == {
        "inner.weight": torch.bfloat16,
        "outer.weight": torch.bfloat16,
        "turns": torch.complex64,
        "steps": torch.int64,
    }
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.inner.weight.dtype == torch.float32


def test_a_lower_model_under_a_float32_protocol_is_cast_up() -> None:
    model = nn.Linear(4, 4).to(torch.bfloat16)
    with prepared(model, (torch.rand(2, 4, dtype=torch.bfloat16),), FLOAT32) as forward:
        output = forward()
    assert isinstance(output, Tensor)
    assert output.dtype == torch.float32
    assert model.weight.dtype == torch.bfloat16


def test_a_model_that_must_be_copied_and_cannot() -> None:
    with pytest.raises(MeasurementError) as caught, prepared(Uncopyable(4, 4), (), BFLOAT16, "the reference"):
        pass
    assert str(caught.value) == (
        "the reference cannot be copied to cpu in torch.bfloat16 (TypeError: cannot pickle a socket); "
        "move and cast it there yourself before measuring"
    )


def test_the_copy_of_a_model_that_shares_with_it_is_not_moved() -> None:
    class Frozen(nn.Linear):
        def __deepcopy__(self, memo: object) -> "Frozen":
            return self

    model = nn.Sequential(nn.Linear(4, 4), Frozen(4, 4))
    with pytest.raises(MeasurementError) as caught, prepared(model, (), BFLOAT16):
        pass
    assert str(caught.value) == (
        "the model cannot be copied to cpu in torch.bfloat16 (ValueError: its copy shares 1 with it); "
        "move and cast it there yourself before measuring"
    )
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}


def test_what_a_pass_keeps_and_what_it_does_to_its_inputs_leaves_no_trace() -> None:
    class Appending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Tensor] = []

        def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
            self.seen.append(x)
            cache.append(x)
            return x.add_(1)

    model, x, cache = Appending(), torch.zeros(2), []
    with prepared(model, (x, cache), FLOAT32) as forward:
        forward.first_pass(FLOAT32)
        forward()
    assert (model.seen, cache, x.tolist()) == ([], [], [0, 0])


def test_what_the_first_pass_caches_can_be_trained_with() -> None:
    model = CachedMask(SimpleNamespace(mask=None))
    with prepared(model, (torch.rand(2, 4),), FLOAT32) as forward:
        forward.first_pass(FLOAT32)
        with torch.inference_mode():
            forward()
    model(torch.rand(2, 4)).sum().backward()
    assert model.scale.weight.grad is not None


def test_without_that_first_pass_what_is_cached_outside_of_modules_could_not() -> None:
    model = CachedMask(SimpleNamespace(mask=None))
    with prepared(model, (torch.rand(2, 4),), FLOAT32) as forward, torch.inference_mode():
        forward()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        model(torch.rand(2, 4)).sum().backward()


def test_a_model_that_raises_is_told_with_what_it_was_given() -> None:
    inputs = {"x": torch.zeros(2, 3), "mask": [torch.zeros(2, dtype=torch.bool)]}
    with prepared(Failing(ValueError("no")), inputs, FLOAT32) as forward, pytest.raises(MeasurementError) as caught:
        forward.first_pass(FLOAT32)
    assert str(caught.value) == (
        "the model failed in its forward pass: TypeError: Failing.forward() got an unexpected keyword argument 'mask'; "
        "it was given torch.float32 [2, 3] on cpu, torch.bool [2] on cpu: make inputs return what its forward takes"
    )
    assert isinstance(caught.value.__cause__, TypeError)


def test_a_model_that_raises_without_tensors() -> None:
    with prepared(Failing(ValueError("no")), (1,), FLOAT32, "it") as forward, pytest.raises(MeasurementError) as caught:
        forward.first_pass(FLOAT32)
    assert str(caught.value) == (
        "it failed in its forward pass: ValueError: no; "
        "it was given no tensors: make inputs return what its forward takes"
    )


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        InputError("said already"),
        KeyboardInterrupt(),
    ],
)
def test_what_the_caller_must_tell_apart_passes_through(error: BaseException) -> None:
    with prepared(Failing(error), (1,), FLOAT32) as forward, pytest.raises(type(error)) as caught:
        forward.first_pass(FLOAT32)
    assert caught.value is error


def test_a_real_lack_of_memory_on_the_cpu_passes_through() -> None:
    class Huge(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.empty(2**55)

    with (
        prepared(Huge(), (torch.zeros(1),), FLOAT32) as forward,
        pytest.raises(RuntimeError, match="can't allocate memory"),
    ):
        forward.first_pass(FLOAT32)


def test_tensors_are_parameters_buffers_and_inputs() -> None:
    x = torch.rand(2, 4)
    with prepared(Rotary(), (x,), FLOAT32) as forward:
        shapes = [tuple(tensor.shape) for tensor in forward.tensors()]
    assert shapes == [(4, 4), (4,), (4,), (2, 4)]


def test_a_model_that_takes_training_steps_is_a_copy_in_training_mode_that_can_be_trained() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval()
    with torch.inference_mode(), prepared(model, (torch.rand(2, 4),), replace(FLOAT32, mode="train_step")) as forward:
        assert forward.model is not model
        assert all(module.training for module in forward.model.modules())
        with torch.inference_mode(False), torch.enable_grad():
            output = forward()
            assert isinstance(output, Tensor)
            output.sum().backward()
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(("autocast", "seen"), [(None, torch.float32), ("bfloat16", torch.bfloat16)])
def test_a_pass_runs_under_the_protocols_autocast(autocast: str | None, seen: torch.dtype) -> None:
    protocol = replace(FLOAT32, autocast=autocast)  # type: ignore[arg-type]
    with prepared(nn.Linear(4, 4), (torch.rand(2, 4),), protocol) as forward:
        output = forward.under(protocol)()
    assert isinstance(output, Tensor)
    assert output.dtype == seen


def test_weights_cast_by_autocast_are_cast_anew_in_each_pass() -> None:
    # Weights that are kept cast would never follow a step of training, and their cast would not be timed.
    layer = nn.Linear(4, 4, bias=False)
    protocol = replace(FLOAT32, autocast="bfloat16")
    with torch.autocast("cpu", enabled=False), prepared(layer, (torch.ones(1, 4),), protocol) as forward:
        first = forward.under(protocol)()
        with torch.no_grad():
            layer.weight.mul_(2)
        second = forward.under(protocol)()
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    assert torch.equal(second, 2 * first)


class Writing(nn.Linear):
    """Writes into its own weights in each pass."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.mul_(0.5)
        return super().forward(input)


def test_a_model_that_writes_into_its_weights_is_refused_and_keeps_them() -> None:
    model = Writing(3, 3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(MeasurementError, match=r"writes into its parameters in forward \(weight\).*outside of forward"):
        measure(model, (torch.zeros(2, 3),), FLOAT32)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


def test_a_model_without_weights_to_time_is_told_what_times_it() -> None:
    model = nn.Linear(3, 3, device="meta")
    with pytest.raises(MeasurementError, match=r"on the meta device.*sum_blocks"):
        measure(model, (torch.zeros(2, 3),), FLOAT32)


CACHED: dict[torch.dtype, Tensor] = {}


class Tabled(nn.Module):
    """Keeps a table outside of its modules, one for each type that it computes in."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear(x)
        if y.dtype not in CACHED:
            CACHED[y.dtype] = torch.ones(4, dtype=y.dtype)
        return y * CACHED[y.dtype]


def test_what_is_cached_under_autocast_can_be_trained_with() -> None:
    CACHED.clear()
    model = Tabled()
    measure(model, (torch.rand(2, 4),), replace(FLOAT32, autocast="bfloat16", max_seconds=0.02))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.rand(2, 4)).float().sum().backward()
    assert model.linear.weight.grad is not None


def test_tensors_of_caches_among_the_inputs_count() -> None:
    cache = SimpleNamespace(keys=torch.zeros(7, 5))
    with prepared(nn.Linear(4, 4), (torch.zeros(1, 4), cache), FLOAT32) as forward:
        assert (7, 5) in [tuple(tensor.shape) for tensor in forward.tensors()]
