"""Each comparison passes on what is right, and fails on what was planted."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.heads import HeadCount, HeadPlan
from headtune.surgery import apply
from headtune.surgery.conforming.comparing import bitwise, expect_counts, how_kept

X = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(0))
TWO = HeadPlan.of({"": HeadCount(2, 2, 12)})


class Fused(nn.Module):
    """Query, key and value of each head side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 4
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        made = self.qkv(x).unflatten(-1, (self.num_heads, 3, -1)).unbind(-2)
        q, k, v = (part.transpose(1, 2) for part in made)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return Fused().eval()


def test_counts(model: nn.Module) -> None:
    expect_counts(model, HeadPlan.of({"": HeadCount(4, 4, 6)}), (X,))
    with pytest.raises(AssertionError, match=r"computes .* where the plan says"):
        expect_counts(model, TWO, (X,))


def test_weights_that_stay(model: nn.Module) -> None:
    assert how_kept(model, copy.deepcopy(model), (X,)) == "weights untouched"


def test_rows_that_follow_their_roles(model: nn.Module) -> None:
    assert how_kept(model, apply(model, TWO, (X,)), (X,)) == "weights moved to where they keep their roles"


def test_rows_at_other_places_are_found(model: nn.Module) -> None:
    naive = copy.deepcopy(model)
    naive.qkv.weight = nn.Parameter(naive.qkv.weight.roll(1, 0))
    with pytest.raises(AssertionError, match="qkv does not make what it did before"):
        how_kept(model, naive, (X,))


def test_rows_that_stay_where_other_roles_are_read_are_found(model: nn.Module) -> None:
    """A count that was set without moving rows: no weight differs."""
    naive = copy.deepcopy(model)
    naive.num_heads = 2
    with pytest.raises(AssertionError, match="qkv does not make what it did before"):
        how_kept(model, naive, (X,))


def test_weights_that_are_no_projections_must_stay(model: nn.Module) -> None:
    other = copy.deepcopy(model)
    other.out.bias = nn.Parameter(other.out.bias + 1e-6)
    with pytest.raises(AssertionError, match=r"\['out'\] hold other values than before"):
        how_kept(model, other, (X,))


def test_bitwise(model: nn.Module) -> None:
    near = copy.deepcopy(model)
    near.out.bias = nn.Parameter(near.out.bias + 1e-6)
    assert bitwise(model, copy.deepcopy(model), (X,))
    assert not bitwise(model, near, (X,))


def test_models_that_return_nothing_cannot_be_compared(model: nn.Module) -> None:
    class Silent(Fused):
        def forward(self, x: Tensor) -> None:
            super().forward(x)

    with pytest.raises(AssertionError, match="return nothing that can be compared"):
        bitwise(Silent(), Silent(), (X,))
