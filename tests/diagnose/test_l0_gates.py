"""A fit of gates on a model whose heads' worth is planted."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headtune.diagnose import importance
from headtune.diagnose.gated_loss import gated_loss
from headtune.diagnose.l0_gates import l0_gates

Make = Callable[[str], nn.Module]
STEPS = 120  # instead of 300, for the time's sake


@pytest.mark.parametrize("name", ["fused", "encoder"])
def test_heads_close_in_the_order_of_what_they_are_worth(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name).eval()
    out = [
        layer.self_attn.out_proj if name == "encoder" else layer.out  # type: ignore[union-attr]
        for layer in model.layers  # type: ignore[union-attr]
    ]
    with torch.no_grad():
        for projection in out:
            for head, loudness in enumerate([4.0, 1.0, 0.0, 0.2]):
                projection.weight[:, 4 * head : 4 * head + 4] *= loudness  # type: ignore[index, operator, union-attr]
    target = copy.deepcopy(model)

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        value: Tensor = (model(batch) - target(batch)).square().mean()
        return value

    with gated_loss(model, batches, loss, None, None) as (function, given):
        found = l0_gates(function, list(given), STEPS)
        again = l0_gates(function, batches, STEPS)
    assert all(torch.equal(found[path], again[path]) for path in found)
    alone = importance(model, batches, loss, by="leave_one_out")
    for path, kept_H in found.items():
        assert kept_H.argsort().tolist()[0] == 2, "it says nothing"
        assert int(kept_H.argmax()) == int(alone[path].argmax()) == 0, "the loudest"
        assert kept_H.min() >= 0
        assert kept_H.max() <= 1
        assert kept_H[0] > kept_H[2] + 0.3
