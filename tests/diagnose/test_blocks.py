"""Which blocks are diagnosed, and in which mode."""

from collections.abc import Callable

import pytest
from torch import Tensor, nn

from headtune.diagnose.blocks import blocks, wired
from headtune.errors import SurgeryError

Make = Callable[[str], nn.Module]


def test_all_blocks_or_some_in_the_models_order(make: Make, batches: list[Tensor]) -> None:
    model, inputs = make("fused"), (batches[0],)
    assert [site.path for site in blocks(model, inputs, None)] == ["layers.0", "layers.1"]
    assert [site.path for site in blocks(model, inputs, ["layers.1", "layers.0"])] == ["layers.0", "layers.1"]


def test_pytorchs_own_blocks_need_no_wiring(make: Make, batches: list[Tensor]) -> None:
    model, inputs = make("encoder"), (batches[0],)
    sites = blocks(model, inputs, None)
    assert len(sites) == 2
    assert wired(model, inputs, sites) == {}


def test_heads_that_cannot_be_told_apart_are_refused_by_block(make: Make, batches: list[Tensor]) -> None:
    class Mixing(nn.Module):
        """Mixes its heads before the output projection reads them."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (one(x).unflatten(-1, (4, 4)).transpose(1, 2) for one in (self.q, self.k, self.v))
            heads = nn.functional.scaled_dot_product_attention(q, k, v)
            out: Tensor = self.out((heads + heads.flip(1)).transpose(1, 2).flatten(2))
            return out

    model, inputs = make("fused"), (batches[0],)
    model.layers[1] = Mixing().double()  # type: ignore[index, operator]
    sites = blocks(model, inputs, None)
    with pytest.raises(SurgeryError) as caught:
        wired(model, inputs, sites)
    (problem,) = caught.value.problems
    assert problem.startswith("layers.1: ")
    assert problem.endswith("; name the other blocks in paths=… to score them without it")
    assert list(wired(model, inputs, sites[:1])) == ["layers.0"]
