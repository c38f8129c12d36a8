import copy
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.changes import changes
from headtune.surgery.original import Original
from headtune.surgery.perform import perform


class NoOp(nn.Module):
    """Has the attribute, and computes with a number that it keeps elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.shape = 4, (4, 6)
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(*x.shape[:2], *self.shape).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class StaleScale(nn.Module):
    """Stores its scale under a name that says nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.c = 4, 6**-0.5
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(((q * self.c @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """Reads its width off its input, and uses that input for a gate too."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 4
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.num_heads, C // self.num_heads).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C)
        return self.out(y) * x.mean(-1, keepdim=True).sigmoid()


FAILING = [
    (
        NoOp,
        (2, 2, 12),
        "width",
        "0.attn: the plan asks for 2x12, but after the change it computes 4x6; let forward take",
    ),
    (NoOp, (3, 3, 6), "head_dim", "1.attn with 3x6: forward raises RuntimeError: shape '[2, 7, 4, 6]' is invalid"),
    (
        StaleScale,
        (2, 2, 12),
        "width",
        "1.attn: its scores are still scaled by 0.4082, where 12 features per head need 0.2887",
    ),
    (
        Gated,
        (3, 3, 6),
        "head_dim",
        "1.attn with 3x6: forward raises RuntimeError: shape '[2, 7, 3, 8]' is invalid for input",
    ),
]


@pytest.mark.parametrize(("block", "wanted", "hold", "message"), FAILING, ids=lambda value: str(value)[:30])
def test_a_change_that_does_not_take_effect_is_undone(
    zoo: SimpleNamespace, block: type[nn.Module], wanted: tuple[int, int, int], hold: str, message: str
) -> None:
    """The first layer changes well, the second does not: both are as before, and nothing else has moved."""
    blocks = iter([zoo.LucidAttention(4, 6), block()])
    model = zoo.Stack(lambda: next(blocks)).train()
    model.layers[0].eval()
    model.layers[1]["attn"].register_forward_hook(lambda *_: None)
    inputs = zoo.inputs()
    plan = HeadPlan.of({s.path: HeadCount(*wanted) for s in find_sites(model, inputs)})
    state = copy.deepcopy(model.state_dict())
    parameters = dict(model.named_parameters())
    attributes = {name: _plain(module) for name, module in model.named_modules()}
    rng, expected = torch.get_rng_state(), model(*inputs)

    for in_place in (True, False):
        with pytest.raises(SurgeryError) as caught:
            apply_plan(model, plan, inputs, hold=hold, copy=not in_place)
        assert message.removeprefix("0.").removeprefix("1.") in str(caught.value)
        assert "layers.1" in str(caught.value)
        assert "layers.0" not in str(caught.value)
        assert list(model.state_dict()) == list(state)
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
        assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
        assert {name: _plain(module) for name, module in model.named_modules()} == attributes
        assert torch.equal(torch.get_rng_state(), rng)
        assert torch.equal(model(*inputs), expected)


def _plain(module: nn.Module) -> dict[str, object]:
    """Attributes that compare by value, and the sizes of the others."""
    return {
        name: len(value) if isinstance(value, dict) else value
        for name, value in vars(module).items()
        if isinstance(value, bool | int | float | str | tuple | dict)
    }


def test_an_interruption_is_undone_too(zoo: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    original = Original(model, inputs)
    plan = HeadPlan.of({s.path: HeadCount(3, 3, 6) for s in original.sites})
    made = changes(original, plan, original.sites)

    def interrupted(self: nn.Module, x: Tensor) -> Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr(zoo.LucidAttention, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        perform(model, plan, made, original, seed=0)
    monkeypatch.undo()
    assert [tuple(s.present) for s in find_sites(model, inputs)] == [(4, 4, 6)] * 2


def test_the_reason_given_is_the_blocks_own_where_a_later_way_gets_there(zoo: SimpleNamespace) -> None:
    """A Swin-like block reads its width off its input, which can be met, and has a bias per head, which cannot."""

    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.qkv, self.out = 4, nn.Linear(24, 72), nn.Linear(24, 24)
            self.table = nn.Parameter(torch.zeros(4, 7, 7))

        def forward(self, x: Tensor) -> Tensor:
            B, T, C = x.shape
            q, k, v = self.qkv(x).reshape(B, T, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
            weights = (q @ k.mT * q.shape[-1] ** -0.5 + self.table).softmax(-1)
            return self.out((weights @ v).transpose(1, 2).reshape(B, T, C))

    with pytest.raises(SurgeryError) as caught:
        apply_plan(Biased(), HeadPlan.of({"": HeadCount(3, 3, 6)}), zoo.inputs(), hold="head_dim")
    assert str(caught.value).startswith(
        "the model with 3x6: forward raises RuntimeError: The size of tensor a (3) must"
    )


def test_fresh_parameters_can_be_trained_even_when_made_in_inference_mode(zoo: SimpleNamespace) -> None:
    model, inputs = zoo.build("lucid"), zoo.inputs()
    plan = HeadPlan.of({s.path: HeadCount(3, 3, 6) for s in find_sites(model, inputs)})
    with torch.inference_mode():
        edited = apply_plan(model, plan, inputs, hold="head_dim")
    edited(*inputs).sum().backward()
    assert edited.layers[0]["attn"].to_qkv.weight.grad is not None


def test_blocks_of_several_kinds_each_find_their_way(zoo: SimpleNamespace) -> None:
    """One reads its width off its input, one off its attributes: only the first needs the second way."""
    nano = zoo.build("nano fused sdpa").layers[0]["attn"]
    blocks = iter([zoo.LucidAttention(4, 6), nano])
    model, inputs = zoo.Stack(lambda: next(blocks)), zoo.inputs()
    plan = HeadPlan.of({"layers.0.attn": HeadCount(3, 3, 6), "layers.1.attn": HeadCount(2, 2, 6)})
    edited = apply_plan(model, plan, inputs, hold="head_dim")
    assert [tuple(s.present) for s in find_sites(edited, inputs)] == [(3, 3, 6), (2, 2, 6)]
    assert not edited.layers[0]["attn"]._forward_pre_hooks
    assert len(edited.layers[1]["attn"]._forward_pre_hooks) == 1
