"""Attention blocks whose wiring is planted: each class says beside it which rows and columns are whose."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

E, H, K, D = 24, 4, 2, 6
W, KW = H * D, K * D


def span(head: int, start: int = 0, stride: int = D) -> frozenset[int]:
    """The features of a head that lie side by side, *stride* apart from those of the next head."""
    first = start + head * stride
    return frozenset(range(first, first + D))


def split(x: Tensor, heads: int = H) -> Tensor:
    return x.unflatten(-1, (heads, D)).transpose(1, 2)


def merged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


class Separate(nn.Module):
    """Four projections, and places to put something in between."""

    def __init__(self, kv_heads: int = H, bias: bool = True) -> None:
        super().__init__()
        self.kv_heads = kv_heads
        self.q, self.out = nn.Linear(E, W, bias), nn.Linear(W, E, bias)
        self.k, self.v = (nn.Linear(E, kv_heads * D, bias) for _ in range(2))

    def queries(self, x: Tensor) -> Tensor:
        return split(self.q(x))

    def keys(self, x: Tensor) -> Tensor:
        return split(self.k(x), self.kv_heads)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(merged(y))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.finish(self.attend(self.queries(x), self.keys(x), split(self.v(x), self.kv_heads)), x)


class Manual(Separate):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-2, -1) / math.sqrt(D)).softmax(-1) @ v


class Rotary(Separate):
    def rotated(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[-2])[:, None] * 10.0 ** -torch.arange(D // 2)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], -1)

    def queries(self, x: Tensor) -> Tensor:
        return self.rotated(super().queries(x))

    def keys(self, x: Tensor) -> Tensor:
        return self.rotated(super().keys(x))


class NormedHeads(Separate):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def queries(self, x: Tensor) -> Tensor:
        return self.norm(super().queries(x))


class NormedWidth(Separate):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(W)

    def queries(self, x: Tensor) -> Tensor:
        return split(self.norm(self.q(x)))


class NormedKeys(NormedWidth):
    def queries(self, x: Tensor) -> Tensor:
        return split(self.q(x))

    def keys(self, x: Tensor) -> Tensor:
        return split(self.norm(self.k(x)))


class GroupedSDPA(Separate):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


class GroupedRepeat(Manual):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().attend(q, *(t.repeat_interleave(H // self.kv_heads, 1) for t in (k, v)))


class GroupedTile(Manual):
    """Query head h shares key/value head h % K."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return super().attend(q, *(t.repeat(1, H // self.kv_heads, 1, 1) for t in (k, v)))


class GroupedAxis(Separate):
    """Queries as ``(B, K, group, T, D)``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q.unflatten(1, (self.kv_heads, -1))
        weights = (q @ k[:, :, None].transpose(-2, -1) / math.sqrt(D)).softmax(-1)
        return (weights @ v[:, :, None]).flatten(1, 2)


class Fused(nn.Module):
    """One projection; *order* says how its features are laid out, outermost first."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.order = order
        self.qkv, self.out = nn.Linear(E, 3 * W), nn.Linear(W, E)

    def forward(self, x: Tensor) -> Tensor:
        made = self.qkv(x)
        if self.order == "3 h d":
            q, k, v = (split(part) for part in made.chunk(3, -1))
        elif self.order == "h 3 d":
            q, k, v = (t.transpose(1, 2) for t in made.unflatten(-1, (H, 3, D)).unbind(-2))
        else:
            q, k, v = made.unflatten(-1, (H, D, 3)).transpose(1, 2).unbind(-1)
        return x + self.out(merged(F.scaled_dot_product_attention(q, k, v)))


class Einsum(Separate):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (H, D)) for layer in (self.q, self.k, self.v))
        weights = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        return x + self.out(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


class BatchMajor(Separate):
    """Heads merged into the batch as ``(B*H, T, D)``, by bmm."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch = q.shape[0]
        q, k, v = (t.flatten(0, 1) for t in (q, k, v))
        return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v).unflatten(0, (batch, H))


class HeadMajor(Separate):
    """Heads merged into the batch as ``(H*B, T, D)``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch = q.shape[0]
        q, k, v = (t.transpose(0, 1).flatten(0, 1) for t in (q, k, v))
        scores = torch.baddbmm(torch.zeros(H * batch, 1, k.shape[1]), q, k.transpose(1, 2))
        return torch.bmm(scores.softmax(-1), v).unflatten(0, (H, batch)).transpose(0, 1)


class HeadFirst(Separate):
    """Heads before the batch, ``(H, B, T, D)``."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(0, 1)


class SharedQK(Manual):
    """One projection makes queries and keys (Reformer)."""

    def __init__(self) -> None:
        super().__init__()
        del self.k

    def keys(self, x: Tensor) -> Tensor:
        return split(self.q(x))


class SameTensor(SharedQK):
    def forward(self, x: Tensor) -> Tensor:
        q = split(self.q(x))
        weights = torch.einsum("bhid,bhjd->bhij", q, q).softmax(-1)
        return x + self.out(merged(weights @ split(self.v(x))))


class Adapted(Separate):
    """Low-rank adapters beside the query and the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.q_down, self.q_up = nn.Linear(E, 2, bias=False), nn.Linear(2, W, bias=False)
        self.out_down, self.out_up = nn.Linear(W, 2, bias=False), nn.Linear(2, E, bias=False)

    def queries(self, x: Tensor) -> Tensor:
        return split(self.q(x) + self.q_up(self.q_down(x)))

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(merged(y)) + self.out_up(self.out_down(merged(y)))


class Gated(Separate):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(E, W)

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(merged(y) * self.gate(x).sigmoid())


class NormedOutput(Separate):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(W)

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(self.norm(merged(y)))


class MixedOutput(Separate):
    """Heads talk to each other after they have attended."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.rand(H, H))

    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return self.out(merged(torch.einsum("bhtd,hg->bgtd", y, self.mix)))


class TalkingHeads(Separate):
    """Attention weights are mixed between heads before they weight values."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(H, H)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return self.mix(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v


class OneMapForAll(Separate):
    """The same small projection for every head, after the split."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(D, D)

    def queries(self, x: Tensor) -> Tensor:
        return self.q(x.unflatten(-1, (H, D))).transpose(1, 2)


class Unread(Separate):
    def finish(self, y: Tensor, x: Tensor) -> Tensor:
        return merged(y)


class Detached(Separate):
    def queries(self, x: Tensor) -> Tensor:
        return super().queries(x).detach()


@pytest.fixture
def planted() -> SimpleNamespace:
    """The classes above, the wiring that is planted in them, and inputs."""
    separate = {letter: tuple({f"{letter}.weight": span(head)} for head in range(H)) for letter in ("q", "k", "v")}
    out = tuple({"out.weight": span(head)} for head in range(H))

    def truth(**sides: Callable[[int], dict[str, frozenset[int]]]) -> dict[str, object]:
        """Separate projections, except for the sides that are given as a function of the head."""
        given = {name: tuple(side(head) for head in range(H)) for name, side in sides.items()}
        return {**separate, "out": out, **given}

    def groups(pair: Callable[[int], int]) -> dict[str, object]:
        return truth(k=lambda head: {"k.weight": span(pair(head))}, v=lambda head: {"v.weight": span(pair(head))})

    def fused(start: Callable[[int], Callable[[int], frozenset[int]]]) -> dict[str, object]:
        parts = {letter: start(index) for index, letter in enumerate("qkv")}
        return truth(
            q=lambda head: {"qkv.weight": parts["q"](head)},
            k=lambda head: {"qkv.weight": parts["k"](head)},
            v=lambda head: {"qkv.weight": parts["v"](head)},
        )

    plain = truth()
    neighbours, tiles, one = groups(lambda head: head // 2), groups(lambda head: head % 2), groups(lambda head: 0)
    wired: dict[str, tuple[Callable[[], nn.Module], dict[str, object]]] = {
        "separate": (Separate, plain),
        "no bias": (lambda: Separate(bias=False), plain),
        "manual": (Manual, plain),
        "rotary": (Rotary, plain),
        "norm over heads": (NormedHeads, plain),
        "einsum": (Einsum, plain),
        "(B*H)": (BatchMajor, plain),
        "(H*B)": (HeadMajor, plain),
        "(H, B)": (HeadFirst, plain),
        "grouped, sdpa": (lambda: GroupedSDPA(K), neighbours),
        "grouped, repeated": (lambda: GroupedRepeat(K), neighbours),
        "grouped, an axis": (lambda: GroupedAxis(K), neighbours),
        "grouped, tiled": (lambda: GroupedTile(K), tiles),
        "one key/value head": (lambda: GroupedRepeat(1), one),
        "one key/value head, sdpa": (lambda: GroupedSDPA(1), one),
        "fused in blocks": (lambda: Fused("3 h d"), fused(lambda i: lambda head: span(head, start=i * W))),
        "fused per head": (lambda: Fused("h 3 d"), fused(lambda i: lambda head: span(head, i * D, 3 * D))),
        "fused per feature": (
            lambda: Fused("h d 3"),
            fused(lambda i: lambda head: frozenset(3 * feature + i for feature in span(head))),
        ),
        "queries are keys": (SharedQK, truth(k=lambda head: {"q.weight": span(head)})),
        "one tensor twice": (SameTensor, truth(k=lambda head: {"q.weight": span(head)})),
        "adapters": (
            Adapted,
            truth(
                q=lambda head: {"q.weight": span(head), "q_up.weight": span(head)},
                out=lambda head: {"out.weight": span(head), "out_down.weight": span(head)},
            ),
        ),
    }

    def inputs(batch: int = 3, length: int = 5) -> tuple[Tensor]:
        return (torch.randn(batch, length, E, generator=torch.Generator().manual_seed(0)),)

    classes = (Separate, Manual, GroupedTile, GroupedSDPA, NormedWidth, NormedKeys, Gated, NormedOutput, MixedOutput)
    more = (TalkingHeads, OneMapForAll, Unread, Detached)
    return SimpleNamespace(
        wired=wired, inputs=inputs, span=span, E=E, H=H, K=K, D=D, **{cls.__name__: cls for cls in (*classes, *more)}
    )


WIRED = (
    *("separate", "no bias", "manual", "rotary", "norm over heads", "einsum", "(B*H)", "(H*B)", "(H, B)"),
    *("grouped, sdpa", "grouped, repeated", "grouped, an axis", "grouped, tiled"),
    *("one key/value head", "one key/value head, sdpa", "fused in blocks", "fused per head", "fused per feature"),
    *("queries are keys", "one tensor twice", "adapters"),
)


@pytest.fixture(params=WIRED)
def layout(request: pytest.FixtureRequest) -> str:
    """Every planted layout in turn."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
