"""Blocks with numbers of their own for each head, which a slice would fit to fewer heads."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import apply_plan, find_sites, prune
from headtune.surgery.adapters.per_head import numbers_for_heads

E, H, D = 24, 4, 6
X = torch.randn(2, 5, E, generator=torch.Generator().manual_seed(0))


class Alibi(nn.Module):
    """Reads the slopes of as many heads as it has, so that no shape tells of stale ones."""

    def __init__(self, heads: int = H) -> None:
        super().__init__()
        self.num_heads, self.head_dim = heads, E // heads
        self.qkv, self.out = nn.Linear(E, 3 * E), nn.Linear(E, E)
        self.register_buffer("slopes", torch.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)]))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        place = torch.arange(x.shape[1])
        bias = -(place[None] - place[:, None]).abs() * self.slopes[: self.num_heads, None, None]
        return self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("hold", "count"), [("width", HeadCount(2, 2, 12)), ("head_dim", HeadCount(2, 2, D))])
def test_slopes_of_other_heads_are_not_taken(hold: str, count: HeadCount) -> None:
    model = nn.Sequential(Alibi())
    with pytest.raises(SurgeryError, match=r"^0: slopes has a number for each of 4 heads; make it in forward, or keep"):
        apply_plan(model, HeadPlan.of({"0": count}), (X,), hold=hold)


def test_pruning_sees_whether_those_that_stay_keep_their_own() -> None:
    model = nn.Sequential(Alibi()).double().eval()
    assert find_sites(prune(model, {"0": [0, 1]}, (X.double(),)), (X.double(),))[0].num_heads == 2
    with pytest.raises(SurgeryError, match="is off by"):
        prune(model, {"0": [2, 3]}, (X.double(),))


class Holder(nn.Module):
    def __init__(self, name: str, value: Tensor, is_buffer: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(H)  # of PyTorch: features, not heads
        if is_buffer:
            self.register_buffer(name, value)
        else:
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("name", "shape", "found"),
    [
        ("slopes", (H,), True),
        ("temperature", (1, H, 1, 1), True),
        ("inv_freq", (H,), False),
        ("slopes", (H, 3), False),
        ("slopes", (H + 1,), False),
    ],
)
def test_which_tensors_are_meant(name: str, shape: tuple[int, ...], found: bool) -> None:
    value = torch.ones(shape)
    for held, is_buffer in ((nn.Parameter(value), False), (value, True), (value, False)):
        block = nn.Sequential(Holder(name, held, is_buffer))
        assert numbers_for_heads(block, H) == (f"0.{name}" if found else None)
