"""Wiring that is found against wiring that was planted."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headtune.surgery.probe.recorder import Recorder
from headtune.surgery.probe.watching import observe
from headtune.surgery.wiring import Wiring, follow
from headtune.surgery.wiring.tracing import Tracer

SHARE = (
    "the {} of its heads share features of {}: a norm over all heads, one map for every head or the like, "
    "so that no head can go alone; keep all its heads"
)
CHANGED = (
    "its heads are gated, normalised or mixed before {} reads them, so that they cannot be followed; keep all its heads"
)
NOWHERE = (
    "its {} come from no projection that could be followed (a quantised layer, detach() or an autograd "
    "function of its own may stand between); let an nn.Linear make them, or keep all its heads"
)
BLIND = (
    "its values are the same at every position of these inputs, which shows nothing of its queries and keys; "
    "give inputs of two or more different tokens"
)


def traced(model: nn.Module, inputs: tuple[Tensor, ...]) -> Wiring | str:
    found = follow(model, inputs)
    return next(iter([*found.wirings.values(), *found.reasons.values()]))


def test_what_was_planted_is_found(planted: SimpleNamespace, layout: str) -> None:
    build, truth = planted.wired[layout]
    assert traced(build(), planted.inputs()) == Wiring(**truth)


@pytest.mark.parametrize(("batch", "length"), [(1, 2), (1, 5), (2, 2), (4, 4), (5, 3)])
def test_neither_batch_nor_length_matters(planted: SimpleNamespace, layout: str, batch: int, length: int) -> None:
    build, truth = planted.wired[layout]
    assert traced(build(), planted.inputs(batch, length)) == Wiring(**truth)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_neither_does_the_type(planted: SimpleNamespace, dtype: torch.dtype) -> None:
    for name in ("manual", "fused per head", "grouped, sdpa", "norm over heads"):
        build, truth = planted.wired[name]
        (x,) = planted.inputs()
        assert traced(build().to(dtype), (x.to(dtype),)) == Wiring(**truth)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("NormedWidth", SHARE.format("queries", "q.weight")),
        ("NormedKeys", SHARE.format("keys", "k.weight")),
        ("OneMapForAll", SHARE.format("queries", "q.weight")),
        ("Gated", CHANGED.format("out.weight")),
        ("NormedOutput", CHANGED.format("out.weight")),
        ("Unread", "its output is read by no projection; let an nn.Linear read it, or keep all its heads"),
        ("Detached", NOWHERE.format("queries")),
    ],
)
def test_what_cannot_be_followed_has_a_reason(planted: SimpleNamespace, name: str, reason: str) -> None:
    assert traced(getattr(planted, name)(), planted.inputs()) == reason


@pytest.mark.parametrize("name", ["MixedOutput", "TalkingHeads"])
def test_mixed_heads_have_no_wiring(planted: SimpleNamespace, name: str) -> None:
    found = follow(getattr(planted, name)(), planted.inputs())
    assert found.wirings == {}


def test_norm_weights_are_found_whatever_their_values(planted: SimpleNamespace) -> None:
    """A norm over heads with equal weights has gradients that cancel in a plain sum."""
    build, truth = planted.wired["norm over heads"]
    model = build()
    nn.init.ones_(model.norm.weight)
    assert traced(model, planted.inputs()) == Wiring(**truth)


@pytest.mark.parametrize("x", [torch.randn(2, 1, 24), torch.ones(2, 5, 24), torch.zeros(1, 1, 24)])
def test_inputs_that_show_nothing_are_refused(planted: SimpleNamespace, x: Tensor) -> None:
    assert traced(planted.Separate(), (x,)) == BLIND
    assert traced(planted.Manual(), (x,)) == BLIND


def test_the_meta_device_is_refused(planted: SimpleNamespace) -> None:
    reason = traced(planted.Separate().to("meta"), (torch.empty(2, 5, 24, device="meta"),))
    assert reason == "it is on the meta device, where heads have no values to follow; load the weights first"


@pytest.mark.parametrize("name", ["Separate", "Manual"])
@pytest.mark.parametrize("dead", ["q", "k", "v", "qkv", "one feature"])
def test_dead_heads_and_features_are_found(planted: SimpleNamespace, name: str, dead: str) -> None:
    class Dead(getattr(planted, name)):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (f(x).unflatten(-1, (planted.H, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
            return x + self.finish(self.attend(q, k, torch.relu(v)), x)

    model, head = Dead(), slice(planted.D, 2 * planted.D)
    with torch.no_grad():
        model.v.bias[planted.D] = -100
        for linear in (getattr(model, letter) for letter in dead if len(dead) < 4):
            linear.weight[head], linear.bias[head] = 0, 0
    rows = tuple(frozenset(range(h * planted.D, (h + 1) * planted.D)) for h in range(planted.H))
    q, k, v, out = (tuple({f"{letter}.weight": span} for span in rows) for letter in ("q", "k", "v", "out"))
    for shape in (2, 9), (1, 2):
        assert traced(model, planted.inputs(*shape)) == Wiring(q=q, k=k, v=v, out=out)


def without_gradients(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return torch.no_grad()(forward)


def in_inference_mode(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return torch.inference_mode()(forward)


def in_bfloat16(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return torch.autocast("cpu", torch.bfloat16)(forward)


def checkpointed(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda self, x: checkpoint(forward, self, x, use_reentrant=False)


def checkpointed_twice(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[nn.Module, Tensor], Tensor]:
    return lambda self, x: checkpoint(forward, self, x, use_reentrant=True)


@pytest.mark.parametrize(
    "around", [without_gradients, in_inference_mode, in_bfloat16, checkpointed, checkpointed_twice]
)
def test_what_stands_around_forward_does_not_matter(
    planted: SimpleNamespace,
    around: Callable[[Callable[[nn.Module, Tensor], Tensor]], Callable[[nn.Module, Tensor], Tensor]],
) -> None:
    for name in ("separate", "manual", "grouped, repeated"):
        build, truth = planted.wired[name]
        kind = type(build())
        model = type("Around", (kind,), {"forward": around(kind.forward)})(*([2] if name.startswith("grouped") else []))
        assert traced(model, planted.inputs()) == Wiring(**truth)


@pytest.mark.parametrize("outside", [torch.no_grad, torch.inference_mode])
def test_it_does_not_matter_how_it_is_called(planted: SimpleNamespace, outside: Callable[[], object]) -> None:
    build, truth = planted.wired["manual"]
    with outside():
        assert traced(build(), planted.inputs()) == Wiring(**truth)


def test_layers_after_the_first_are_followed_too_without_a_residual_stream() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return self.out(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2))

    found = follow(nn.Sequential(Layer(), Layer(), Layer()), (torch.randn(2, 5, 8),))
    assert list(found.wirings) == ["0", "1", "2"]
    assert found.wirings["2"].out == ({"2.out.weight": frozenset(range(4))}, {"2.out.weight": frozenset(range(4, 8))})


def test_few_backward_passes_do_for_any_batch(planted: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    grad = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args, **kwargs: counted.append(1) or grad(*args, **kwargs))
    for name in ("separate", "(B*H)"):
        counted.clear()
        follow(planted.wired[name][0](), planted.inputs(batch=32))
        assert len(counted) == 3 * planted.H + 1  # queries, keys, values; and one to see that the next item is alike


def test_the_model_may_write_into_what_projections_put_out() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in self.qkv(x).mul_(0.5).chunk(3, -1))
            scores = torch.zeros(4, 5, 5).baddbmm_(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
            y = torch.bmm(scores.add_(1).softmax(-1), v.flatten(0, 1)).unflatten(0, (2, 2))
            return self.out(y.transpose(1, 2).flatten(2)).add_(x)

    wiring = traced(InPlace(), (torch.randn(2, 5, 8),))
    assert isinstance(wiring, Wiring)
    assert wiring.q[1] == {"qkv.weight": frozenset(range(4, 8))}


def test_a_weight_that_is_computed_is_named_as_such(planted: SimpleNamespace) -> None:
    computed = "a weight that is computed in the forward pass; remove weight_norm, quantisation or the like first"
    for name, words in (
        ("q", "its queries come from"),
        ("v", "its values come from"),
        ("out", "its output is read by"),
    ):
        model = planted.Separate()
        torch.nn.utils.parametrizations.weight_norm(model.get_submodule(name))
        assert traced(model, planted.inputs()) == f"{words} {computed}"


def test_convolutions_are_followed_along_their_channels() -> None:
    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = (nn.Conv1d(8, 8, 1) for _ in range(3))
            self.out = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (f(x.mT).unflatten(1, (2, 4)).mT for f in (self.q, self.k, self.v))
            return self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))

    wiring = traced(Conv(), (torch.randn(2, 5, 8),))
    assert isinstance(wiring, Wiring)
    assert wiring.k[1] == {"k.weight": frozenset(range(4, 8))}


def test_a_call_that_was_not_made_has_no_outcome_but_a_reason(planted: SimpleNamespace) -> None:
    recorder = Recorder(model := planted.Separate())
    tracer = Tracer(recorder)
    with torch.no_grad():
        observe(model, planted.inputs(), recorder, tracer)
    assert isinstance(tracer.outcome(0), Wiring)
    assert tracer.outcome(1) == (
        "its scores and its output are not computed head by head in a layout that can be followed; keep all its heads"
    )


def test_keys_that_are_put_together_in_place_are_followed() -> None:
    class Together(nn.Module):  # as in DeepSeek-V3
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.rotary, self.v, self.out = (nn.Linear(8, 8) for _ in range(5))

        def forward(self, x: Tensor) -> Tensor:
            q, first, second, v = (
                one(x).unflatten(-1, (2, 4)).transpose(1, 2) for one in (self.q, self.k, self.rotary, self.v)
            )
            k = torch.empty(2, 2, 5, 8)
            k[..., :4].copy_(first)
            k[..., 4:].copy_(second)
            y = nn.functional.scaled_dot_product_attention(torch.cat([q, q], -1), k, v)
            return self.out(y.transpose(1, 2).flatten(2))

    wiring = traced(Together(), (torch.randn(2, 5, 8),))
    assert isinstance(wiring, Wiring)
    assert wiring.k[1] == {"k.weight": frozenset(range(4, 8)), "rotary.weight": frozenset(range(4, 8))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_near_values_are_told_from_equal_ones_in_every_type(planted: SimpleNamespace, dtype: torch.dtype) -> None:
    model, inputs = planted.Separate().to(dtype), planted.inputs()
    same = inputs[0][:, :1].expand(inputs[0].shape)
    near = same + 0.3 * inputs[0]
    assert isinstance(traced(model, (near.to(dtype),)), Wiring)
    assert "the same at every position" in str(traced(model, (same.to(dtype),)))
