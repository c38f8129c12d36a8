import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.surgery.probe import AttentionCall, watch
from headtune.surgery.probe.recorder import Recorder

EMBED, HEADS, SIZE = 24, 4, 6


class Attention(nn.Module):
    """Four projections around a product that each test writes in its own way."""

    def __init__(self, product: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.product = product
        self.q, self.k, self.v, self.out = (nn.Linear(EMBED, EMBED) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for p in (self.q, self.k, self.v))
        return self.out(self.product(q, k, v).transpose(1, 2).flatten(2))


def seen(product: Callable[[Tensor, Tensor, Tensor], Tensor]) -> list[AttentionCall]:
    return list(watch(Attention(product), (torch.randn(3, 11, EMBED),)).calls)


def baddbmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    scores = torch.baddbmm(torch.zeros(1, 11, 11), q, k.transpose(1, 2), beta=1.0, alpha=SIZE**-0.5)
    return torch.bmm(scores.softmax(-1), v).unflatten(0, (3, HEADS))


def in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1))
    scores /= math.sqrt(SIZE)
    scores[..., 0, 1] = -1.0
    scores += torch.zeros(11, 11)
    weights = torch.softmax(scores, dim=-1)
    return F.dropout(weights, 0.5, training=False) @ v


def split_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q * SIZE**-0.25) @ (k * SIZE**-0.25).transpose(-2, -1)
    return F.softmax(scores, -1, dtype=torch.float32).to(v.dtype) @ v


def masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.mT) * SIZE**-0.5
    scores = torch.where(torch.ones(11, 11).tril().bool(), scores, torch.finfo(scores.dtype).min)
    return torch.einsum("bhqk,bhkd->bhqd", nn.Softmax(dim=-1)(scores), v)


def upcast(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k).double().div(torch.sqrt(torch.tensor(float(SIZE))))
    weights = scores.clamp(-50, 50).softmax(-1).float()
    return weights.matmul(v)


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q.contiguous(), k.contiguous(), v)


@pytest.mark.parametrize("product", [baddbmm, in_place, split_scale, masked, upcast, sdpa])
def test_one_attention_however_it_is_written(product: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    (call,) = seen(product)
    assert (call.num_heads, call.num_kv_heads, call.head_dim) == (HEADS, HEADS, SIZE)
    assert call.scale == pytest.approx(SIZE**-0.5)
    assert call.causal is (product is masked)
    assert call.two_inputs is False
    names = {letter: getattr(call.projections, letter) for letter in ("q", "k", "v", "out")}
    assert names == {letter: {f"{letter}.weight"} for letter in names}


def test_an_output_projection_must_read_the_output_itself() -> None:
    """Without one, the next Linear of the residual stream is not taken for it."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.mlp = nn.Linear(EMBED, 3 * EMBED), nn.Linear(EMBED, EMBED)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (t.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            return self.mlp(x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    (call,) = watch(Residual(), (torch.randn(3, 11, EMBED),)).calls
    assert call.projections.out == frozenset()
    assert call.projections.q == {"qkv.weight"}


@pytest.mark.parametrize("kind", ["addmm", "conv", "matmul", "transposed view", "sum", "computed"])
def test_projections_of_every_kind_are_named(kind: str) -> None:
    class Projected(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(EMBED, EMBED))
            self.bias = nn.Parameter(torch.randn(EMBED))
            self.conv, self.second, self.kv = (
                nn.Conv1d(EMBED, EMBED, 1),
                nn.Linear(EMBED, EMBED),
                nn.Linear(EMBED, 2 * EMBED),
            )

        def project(self, x: Tensor) -> Tensor:
            if kind == "addmm":
                return torch.addmm(self.bias, x.flatten(0, 1), self.weight).view_as(x)
            if kind == "conv":
                return self.conv(x.transpose(1, 2)).transpose(1, 2)
            if kind == "matmul":
                return x @ self.weight
            if kind == "transposed view":
                return F.linear(x, self.weight.T)
            if kind == "sum":
                return F.linear(x, self.weight) + self.second(x)
            return F.linear(x, self.weight * 2)

        def forward(self, x: Tensor) -> Tensor:
            parts = (self.project(x), *self.kv(x).chunk(2, -1))
            q, k, v = (t.reshape(3, 11, HEADS, SIZE).transpose(1, 2) for t in parts)
            return F.scaled_dot_product_attention(q, k, v)

    (call,) = watch(Projected(), (torch.randn(3, 11, EMBED),)).calls
    assert (
        call.projections.q
        == {
            "addmm": {"weight"},
            "conv": {"conv.weight"},
            "matmul": {"weight"},
            "transposed view": {"weight"},
            "sum": {"weight", "second.weight"},
            "computed": {""},
        }[kind]
    )
    assert (call.num_heads, call.head_dim) == (HEADS, SIZE)


def test_distinct_sizes_cannot_be_confused() -> None:
    """Batch 3, length 11, 8 heads, 12 features, 5 keys: every number that is reported can only be the right one."""

    class Cross(nn.Module):
        def __init__(self, merged: bool) -> None:
            super().__init__()
            self.merged, self.q, self.kv = merged, nn.Linear(20, 96), nn.Linear(20, 192)

        def forward(self, x: Tensor, memory: Tensor) -> Tensor:
            parts = (self.q(x), *self.kv(memory).chunk(2, -1))
            q, k, v = (t.unflatten(-1, (8, 12)).transpose(1, 2) for t in parts)
            if self.merged:
                q, k, v = (t.flatten(0, 1) for t in (q, k, v))
            return ((q @ k.mT) / 12**0.5).softmax(-1) @ v

    for merged in (True, False):
        (call,) = watch(Cross(merged), (torch.randn(3, 11, 20), torch.randn(3, 5, 20))).calls
        assert (call.num_heads, call.num_kv_heads, call.head_dim, call.two_inputs) == (8, 8, 12, True)


def test_differential_attention_is_unplaced() -> None:
    """Pairs of maps are subtracted before they meet the values: neither is the map of a head (Ye et al., 2024)."""

    def differential(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        maps = (q @ k.mT).softmax(-1).unflatten(1, (2, 2))
        return ((maps[:, :, 0] - 0.5 * maps[:, :, 1]) @ v[:, :2]).repeat_interleave(2, dim=1)

    watched = watch(Attention(differential), (torch.randn(3, 11, EMBED),))
    assert watched.calls == ()
    assert watched.unplaced == ("",)


def test_linear_attention_is_unplaced() -> None:
    def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q.softmax(-1) @ (k.softmax(-2).mT @ v)

    watched = watch(Attention(linear), (torch.randn(3, 11, EMBED),))
    assert watched.calls == ()
    assert watched.unplaced == ("",)


def test_a_projection_is_named_by_its_weight() -> None:
    model = nn.ModuleDict({"a": nn.Linear(3, 4), "c": nn.Conv1d(3, 4, 1)})
    recorder, x, weight = Recorder(model), torch.ones(2, 3), model["a"].weight
    for function, args in (
        (F.linear, (x, weight, None)),
        (torch.addmm, (torch.ones(4), x, weight)),
        (torch.matmul, (x, weight.mT)),
        (torch.einsum, ("bi,oi->bo", x, weight)),
    ):
        source, name = recorder.projection(function, args, {})
        assert source is x
        assert name == "a.weight"
    assert recorder.projection(F.conv1d, (x[..., None], model["c"].weight), {})[1] == "c.weight"


def test_a_linear_map_by_no_parameter_is_a_projection_without_a_name() -> None:
    recorder, x = Recorder(model := nn.Linear(3, 4)), torch.ones(2, 3)
    source, name = recorder.projection(F.linear, (x, torch.ones(4, 3)), {})
    assert source is x
    assert name == ""
    assert recorder.projection(F.linear, (x, model.weight), {})[1] == "weight"
    assert recorder.projection(torch.matmul, (x, torch.ones(3, 4)), {}) is None
    assert recorder.projection(torch.add, (x, x), {}) is None


def test_attention_weights_are_known_as_such() -> None:
    recorder = Recorder(nn.Module())
    q, k = torch.randn(2, 4, 5, 3), torch.randn(2, 4, 3, 5)
    scores = q @ k
    recorder.see(torch.matmul, (q, k), {}, scores)
    weights = scores.softmax(-1)
    recorder.see(torch.softmax, (scores, -1), {}, weights)
    mean = weights.mean(1)
    recorder.see(Tensor.mean, (weights, 1), {}, mean)
    assert [recorder.holds_weights(one) for one in (q, scores, weights, mean)] == [False, False, True, True]
    assert recorder.scores_in(scores) is not None
    assert recorder.scores_in(weights) is not None
    assert recorder.scores_in(q) is None
