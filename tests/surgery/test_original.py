from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.surgery import find_sites
from headtune.surgery.original import Original


class Counting(nn.Module):
    passes = 0  # of the class: what a model itself holds is put back

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        Counting.passes += 1
        return self.inner(x)


def test_it_is_watched_when_asked_and_only_once(zoo: SimpleNamespace) -> None:
    model, inputs = Counting(zoo.build("lucid")), zoo.inputs()
    before = Counting.passes
    original = Original(model, inputs)
    assert Counting.passes == before
    assert original.sites == tuple(block.site for block in original.survey.blocks.values())
    assert original.scale("inner.layers.0.attn") == pytest.approx(6**-0.5)
    assert original.projections("inner.layers.1.attn").out == {"inner.layers.1.attn.to_out.0.weight"}
    assert Counting.passes == before + 1
    assert original.sites == find_sites(model, inputs)


def test_a_model_that_does_not_run_says_so_whenever_it_is_asked() -> None:
    original = Original(nn.Linear(3, 3), (torch.ones(2),))
    for _ in range(2):
        with pytest.raises(SurgeryError, match=r"^the forward pass of Linear raised RuntimeError: "):
            _ = original.sites
