"""What a head is worth when it alone goes, against models that have lost it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headtune.diagnose import importance
from headtune.errors import InputError
from headtune.surgery import prune

Make = Callable[[str], nn.Module]


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    value: Tensor = model(batch).pow(3).mean()
    return value


@pytest.mark.parametrize("name", ["fused", "interleaved", "encoder"])
def test_a_score_is_what_the_loss_rises_by_in_a_model_that_lost_the_head(
    make: Make, batches: list[Tensor], name: str
) -> None:
    model = make(name).eval()
    scores = importance(model, batches, loss, by="leave_one_out")
    for path, found_H in scores.items():
        for head in range(4):
            pruned = prune(model, {path: [one for one in range(4) if one != head]}, (batches[0],))
            with torch.no_grad():
                rise = sum(float(loss(pruned, batch) - loss(model, batch)) for batch in batches) / len(batches)
            assert float(found_H[head]) == pytest.approx(rise, rel=1e-9, abs=1e-12)  # float64


def test_a_head_that_does_harm_scores_below_nothing(make: Make, batches: list[Tensor]) -> None:
    model, target = make("fused").eval(), make("fused").eval()
    with torch.no_grad():
        target.layers[1].out.weight[:, 8:12] = 0  # type: ignore[index, union-attr]

    def distance(model: nn.Module, batch: Tensor) -> Tensor:
        value: Tensor = (model(batch) - target(batch)).square().mean()
        return value

    scores = importance(model, batches, distance, by="leave_one_out")
    assert scores["layers.1"][2] < 0
    assert scores["layers.1"][[0, 1, 3]].gt(scores["layers.1"][2]).all()


def test_an_unknown_criterion_is_refused(make: Make, batches: list[Tensor]) -> None:
    with pytest.raises(InputError, match="importance: by: must be gradient, leave_one_out or l0_gates"):
        importance(make("fused"), batches, loss, by="magic")  # type: ignore[arg-type]
