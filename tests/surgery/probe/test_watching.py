from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.surgery.probe import ForwardFailed, Frame, watch

X = torch.randn(2, 7, 24)


def test_frames_are_the_running_modules_with_what_they_were_given() -> None:
    layer = nn.TransformerDecoderLayer(24, 4, 32, batch_first=True)
    first, second = watch(nn.Sequential(nn.Identity(), Decoding(layer)), (X,)).calls
    assert first.frames == (
        Frame(path="", width=24, sequences=1),
        Frame(path="1", width=24, sequences=1),
        Frame(path="1.layer", width=24, sequences=2),
        Frame(path="1.layer.self_attn", width=24, sequences=1),
    )
    assert second.frames[-1] == Frame(path="1.layer.multihead_attn", width=24, sequences=2)


class Decoding(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(tgt=x, memory=x + 1)


def test_modules_run_in_eval_mode_without_gradients_and_are_put_back() -> None:
    class Noting(nn.Module):
        notes: list[tuple[bool, bool]] = []  # noqa: RUF012

        def forward(self, x: Tensor) -> Tensor:
            self.notes.append((self.training, torch.is_grad_enabled()))
            return x

    model = nn.Sequential(Noting(), nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)).train()
    watch(model, (X,))
    assert Noting.notes == [(False, False)]
    assert all(module.training for module in model.modules())


def test_the_fused_encoder_layer_cannot_hide_attention() -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.zeros(2, 7, dtype=torch.bool)
    padding[0, 4:] = True
    with torch.no_grad():
        watched = watch(encoder, {"src": X, "src_key_padding_mask": padding})
    assert [call.num_heads for call in watched.calls] == [4, 4]


def test_the_module_that_raised_is_named() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise ValueError("no")

    model = nn.Sequential(nn.Linear(24, 24), nn.Sequential(nn.Identity(), Fails()))
    with pytest.raises(ForwardFailed) as caught:
        watch(model, (X,))
    assert caught.value.path == "1.1"
    assert isinstance(caught.value.error, ValueError)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_an_error_that_the_model_catches_does_not_lose_the_place(zoo: SimpleNamespace) -> None:
    class Tries(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bad, self.good = nn.Sequential(nn.Linear(3, 3)), zoo.LucidAttention(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            try:
                return self.bad(x)
            except RuntimeError:
                return self.good(x)

    outer = nn.Sequential(Tries(), zoo.LucidAttention(4, 6))
    watched = watch(outer, (X,))
    assert [call.frames[-2].path for call in watched.calls][1] == ""
    assert [call.frames[-1].path for call in watched.calls] == ["0.good", "1"]


def test_nan_is_found_in_nested_outputs() -> None:
    class Nested(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, x: Tensor) -> dict[str, object]:
            return {"a": [x, (x * self.value,)], "b": "text"}

    assert watch(Nested(float("nan")), (X,)).nan is True
    assert watch(Nested(float("inf")), (X,)).nan is False
    assert watch(nn.Linear(24, 2, device="meta"), (X.to("meta"),)).nan is False


def test_compiled_parts_are_watched_as_python(zoo: SimpleNamespace) -> None:
    inner = zoo.LucidAttention(4, 6)
    in_place = zoo.LucidAttention(4, 6)
    in_place.compile(backend="eager")
    model = nn.Sequential(torch.compile(inner, backend="eager"), in_place)
    assert [call.num_heads for call in watch(model, (X,)).calls] == [4, 4]


def test_a_watched_model_computes_what_it_always_computes(zoo: SimpleNamespace) -> None:
    """The watching mode may not change a result: the outputs of every block are the same to the last bit."""
    outputs: list[Tensor] = []
    model = zoo.build("grouped repeat", 4, 2, 6).eval()
    for layer in model.layers:
        layer["attn"].register_forward_hook(lambda _m, _a, out: outputs.append(out.detach().clone()))
    with torch.no_grad():
        model(X)
    watch(model, (X,))
    assert len(outputs) == 4
    assert torch.equal(outputs[0], outputs[2])
    assert torch.equal(outputs[1], outputs[3])


class Leaving(nn.Module):
    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), BaseException("odd")])
def test_a_model_that_leaves_by_any_way_has_failed(error: BaseException) -> None:
    with pytest.raises(ForwardFailed) as caught:
        watch(nn.Sequential(Leaving(error)), (torch.zeros(1, 2),))
    assert (caught.value.path, caught.value.error) == ("0", error)


def test_ctrl_c_passes_through_a_watched_model_and_leaves_it_as_it_was() -> None:
    model = Leaving(KeyboardInterrupt()).train()
    with pytest.raises(KeyboardInterrupt):
        watch(model, (torch.zeros(1, 2),))
    assert model.training
    assert not model._forward_pre_hooks


def test_a_watched_pass_leaves_parameters_and_inputs_as_they_were() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.passes = nn.Parameter(torch.zeros(1), requires_grad=False)
            self.norm = nn.Linear(24, 24)

        def forward(self, x: Tensor) -> Tensor:
            self.passes.data += 1
            self.norm.weight.data = self.norm.weight.data.clamp(max=0)
            return self.norm(x.add_(1))

    model, x = Counting(), X.clone()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    watch(model, (x,))
    assert torch.equal(x, X)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
