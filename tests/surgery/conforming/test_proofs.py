"""What a proof says of one operation alone; how each can fail is shown in test_trying."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.errors import SurgeryError
from headtune.surgery import Case, find_sites
from headtune.surgery.conforming import proofs


class Narrow(nn.Module):
    """Three heads of one feature: their width has no other divisor but one head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = heads, heads
        self.q, self.k, self.v = (nn.Linear(8, heads) for _ in range(3))
        self.out = nn.Linear(heads, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (w(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for w in (self.q, self.k, self.v))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


def of(heads: int) -> tuple[Case, nn.Module]:
    case = Case(name="narrow", build=lambda: nn.Sequential(Narrow(heads)), inputs=(X,))
    return case, case.build().eval()


def test_the_nearest_other_count_is_tried() -> None:
    case, model = of(3)
    assert proofs.rehead(case, model, find_sites(model, (X,))) == "computes 1x3, weights untouched"


def test_a_width_without_another_count_is_refused() -> None:
    case, model = of(1)
    with pytest.raises(SurgeryError) as caught:
        proofs.rehead(case, model, find_sites(model, (X,)))
    assert str(caught.value) == "0: no other count divides its width 1; take a member with another"


def test_a_prime_number_of_key_value_heads_merges_into_one() -> None:
    case, model = of(3)
    model = model.eval()
    words = proofs.merge(case, model, find_sites(model, (X,)))
    assert words == "computes 3/1x1, made once and repeated, equal to the model with each group's mean in every head"
