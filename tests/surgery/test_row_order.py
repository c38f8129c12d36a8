import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import apply, find_sites


class Fused(nn.Module):
    """One projection for queries, keys and values, either one after the other or side by side for each head."""

    def __init__(self, num_heads: int, interleaved: bool) -> None:
        super().__init__()
        self.num_heads, self.interleaved = num_heads, interleaved
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        shape = (batch, length, self.num_heads, 3, -1) if self.interleaved else (batch, length, 3, self.num_heads, -1)
        q, k, v = self.qkv(x).view(*shape).unbind(3 if self.interleaved else 2)
        mixed = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)))
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 24))


class Narrow(Fused):
    """Its heads need not have the width of its input."""

    def __init__(self) -> None:
        super().__init__(4, True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (self.num_heads, 3, 6)).unbind(3)
        mixed = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)))
        return self.out(mixed.transpose(1, 2).flatten(2))


class Mixed(Fused):
    """Its queries are normalised over all heads."""

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        shape = (batch, length, self.num_heads, 3, -1) if self.interleaved else (batch, length, 3, self.num_heads, -1)
        q, k, v = self.qkv(x).view(*shape).unbind(3 if self.interleaved else 2)
        q = F.layer_norm(q.flatten(2), (24,)).view_as(k)
        mixed = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)))
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 24))


X = torch.randn(2, 5, 24, generator=torch.Generator().manual_seed(0))


def split(model: Fused) -> tuple[Tensor, Tensor, Tensor]:
    """The rows that make queries, keys and values, by the shape of the layout alone."""
    rows = model.qkv.weight.detach()
    if not model.interleaved:
        return rows[:24], rows[24:48], rows[48:]
    q, k, v = rows.view(model.num_heads, 3, -1, 24).unbind(1)
    return q.reshape(24, 24), k.reshape(24, 24), v.reshape(24, 24)


@pytest.mark.parametrize("heads", [2, 3, 8])
@pytest.mark.parametrize("interleaved", [True, False])
def test_rows_keep_their_roles(interleaved: bool, heads: int) -> None:
    model = Fused(4, interleaved)
    plan = HeadPlan.parse(f"*={heads}", find_sites(model, (X,)), hold="width")
    changed = apply(model, plan, (X,))
    assert isinstance(changed, Fused)
    assert changed.num_heads == heads
    for now, before in zip(split(changed), split(model), strict=True):
        assert torch.equal(now, before)


def test_both_layouts_compute_the_same() -> None:
    """Side by side or one after the other, the same trained rows under another count are the same function."""
    blocked, interleaved = Fused(4, False), Fused(4, True)
    with torch.no_grad():
        for name, parameter in interleaved.named_parameters():
            other = blocked.get_parameter(name)
            moved = other.unflatten(0, (3, 4, 6)).transpose(0, 1).flatten(0, 2) if name.startswith("qkv") else other
            parameter.copy_(moved)
    assert torch.allclose(blocked(X), interleaved(X), atol=1e-6)  # float32 sums in another order
    plan = HeadPlan.parse("*=2", find_sites(blocked, (X,)), hold="width")
    assert torch.allclose(apply(blocked, plan, (X,))(X), apply(interleaved, plan, (X,))(X), atol=1e-6)


def test_the_model_in_place_keeps_its_roles_too() -> None:
    model = Fused(4, True)
    before = [one.clone() for one in split(model)]
    plan = HeadPlan.parse("*=2", find_sites(model, (X,)), hold="width")
    assert apply(model, plan, (X,), copy=False) is model
    assert all(torch.equal(now, old) for now, old in zip(split(model), before, strict=True))


def test_keys_and_values_side_by_side_keep_their_roles() -> None:
    """Queries have a projection of their own, so that only keys and values are cut at other places."""

    class Paired(Fused):
        def __init__(self) -> None:
            super().__init__(4, True)
            self.q, self.qkv = nn.Linear(24, 24), nn.Linear(24, 48)

        def forward(self, x: Tensor) -> Tensor:
            q = self.q(x).unflatten(-1, (self.num_heads, -1))
            k, v = self.qkv(x).unflatten(-1, (self.num_heads, 2, -1)).unbind(3)
            mixed = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)))
            return self.out(mixed.transpose(1, 2).flatten(2))

    model = Paired()
    changed = apply(model, HeadPlan.of({"": HeadCount(2, 2, 12)}), (X,))
    for part in (0, 1):
        now, before = (one.qkv.weight.view(heads, 2, -1, 24)[:, part] for one, heads in ((changed, 2), (model, 4)))
        assert torch.equal(now.reshape(24, 24), before.reshape(24, 24))


@pytest.mark.parametrize("interleaved", [True, False])
def test_rows_are_followed_on_inputs_that_show_nothing(interleaved: bool) -> None:
    """The same value at every position: the rows move as they do for any other inputs."""
    model, plan = Fused(4, interleaved), HeadPlan.of({"": HeadCount(2, 2, 12)})
    moved = apply(model, plan, (torch.ones(2, 5, 24),))
    assert torch.equal(moved.qkv.weight, apply(model, plan, (X,)).qkv.weight)
    assert all(torch.equal(now, old) for now, old in zip(split(moved), split(model), strict=True))


@pytest.mark.parametrize("interleaved", [True, False])
def test_rows_that_cannot_be_followed_are_not_left_to_chance(interleaved: bool) -> None:
    model, plan = Mixed(4, interleaved), HeadPlan.of({"": HeadCount(2, 2, 12)})
    for copy in (True, False):
        with pytest.raises(SurgeryError, match="must move for another count cannot be seen: "):
            apply(model, plan, (X,), copy=copy)
    assert model.num_heads == 4
    meta = apply(Mixed(4, interleaved).to("meta"), plan, (X.to("meta"),))  # no values, nothing to lose
    assert meta.num_heads == 2


def test_rows_that_are_drawn_anew_need_not_be_followed() -> None:
    plan = HeadPlan.of({"": HeadCount(3, 3, 6)})
    fewer = apply(nn.Sequential(Narrow()), HeadPlan.of({"0": plan[""]}), (torch.ones(2, 5, 24),))
    assert [site.present for site in find_sites(fewer, (X,))] == [HeadCount(3, 3, 6)]


def test_a_trained_neox_keeps_its_roles() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPTNeoXConfig(
        vocab_size=20, hidden_size=64, num_hidden_layers=2, num_attention_heads=8, intermediate_size=32
    )
    model = transformers.GPTNeoXModel(config)
    inputs = {"input_ids": torch.tensor([[1, 5, 2, 9, 4]]), "use_cache": False}
    plan = HeadPlan.parse("*=4", find_sites(model, inputs), hold="width")
    changed = apply(model, plan, inputs)
    for now, before in zip(changed.layers, model.layers, strict=True):
        rows = now.attention.query_key_value.weight.view(4, 3, 16, 64)
        assert torch.equal(
            rows.transpose(0, 1).reshape(3, 64, 64),
            before.attention.query_key_value.weight.view(8, 3, 8, 64).transpose(0, 1).reshape(3, 64, 64),
        )
