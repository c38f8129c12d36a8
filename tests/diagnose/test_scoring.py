"""Importance against finite differences, and on models whose heads' worth is planted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import headtune
from headtune.diagnose import importance
from headtune.errors import InputError, SurgeryError, TaskError
from headtune.surgery import find_sites, gated
from headtune.surgery.wiring import wirings

Make = Callable[[str], nn.Module]
NAMES = ["fused", "interleaved", "grouped", "encoder"]
STEP = 1e-5


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    value: Tensor = model(batch).pow(3).mean()
    return value


def paths_of(model: nn.Module, batches: list[Tensor]) -> list[str]:
    return [site.path for site in find_sites(model, (batches[0],))]


@torch.no_grad()
def difference(model: nn.Module, batch: Tensor, path: str, head: int) -> float:
    """How fast the loss changes with one gate, from both sides."""
    model.eval()
    found, values = wirings(model, (batch,)), []
    for sign in (1, -1):
        gate = torch.ones(4, dtype=torch.float64)
        gate[head] += sign * STEP
        with gated(model, found, {path: gate}):
            values.append(float(loss(model, batch)))
    return (values[0] - values[1]) / (2 * STEP)


@pytest.mark.parametrize("name", NAMES)
def test_a_score_is_the_mean_of_absolute_finite_differences(make: Make, batches: list[Tensor], name: str) -> None:
    model = make(name)
    scores = importance(model, batches, loss)
    assert list(scores) == paths_of(model, batches)
    for path, found_H in scores.items():
        expected = [
            sum(abs(difference(model, batch, path, head)) for batch in batches) / len(batches) for head in range(4)
        ]
        # A central difference of step 1e-5 is off by the third derivative × 1e-10, and by rounding / 1e-5.
        torch.testing.assert_close(found_H, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-9)


def test_gradients_of_opposite_sign_do_not_cancel(make: Make, batches: list[Tensor]) -> None:
    model, batch = make("fused"), batches[0]
    signs = iter([1.0, -1.0])
    model.eval()
    scores = importance(model, [batch, batch], lambda model, x: next(signs) * loss(model, x), inputs=(batch,))
    alone = importance(model, [batch], loss)
    for path in scores:
        torch.testing.assert_close(scores[path], alone[path])


def columns(model: nn.Module, name: str, layer: int, head: int) -> Tensor:
    """The weights that read a head."""
    path = f"layers.{layer}.self_attn.out_proj" if name == "encoder" else f"layers.{layer}.out"
    weight: Tensor = model.get_submodule(path).weight  # type: ignore[assignment]
    return weight[:, 4 * head : 4 * head + 4]


@pytest.mark.parametrize("name", NAMES)
def test_a_useless_head_scores_lowest_and_the_only_useful_one_highest(
    make: Make, batches: list[Tensor], name: str
) -> None:
    model = make(name)
    with torch.no_grad():
        columns(model, name, 0, 2).zero_()
        for head in (0, 2, 3):
            columns(model, name, 1, head).mul_(1e-6)
    first_H, second_H = importance(model, batches, loss).values()
    assert first_H[2] == 0
    assert first_H.argsort()[0] == 2
    assert second_H.argmax() == 1
    assert second_H[1] > 1e4 * second_H[[0, 2, 3]].max()


def test_the_model_its_modes_and_gradients_are_left_as_they_were(make: Make, batches: list[Tensor]) -> None:
    model = make("encoder").train()
    model.layers[1].eval()  # type: ignore[index, union-attr]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    classes = [type(module) for module in model.modules()]
    scores = importance(model, batches, loss)
    assert [module.training for module in model.modules()] == modes
    assert [type(module) for module in model.modules()] == classes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    again = importance(model, batches, loss)  # dropout would differ from one time to the next
    assert all(torch.equal(scores[path], again[path]) for path in scores)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_it_works_whatever_the_caller_switched_off(make: Make, batches: list[Tensor], context: Any) -> None:
    model = make("fused")
    expected = importance(model, batches, loss)
    model.requires_grad_(False)
    with context():
        found = importance(model, batches, loss)
    assert all(torch.equal(found[path], expected[path]) for path in expected)


def test_batches_may_come_once_or_from_a_function(make: Make, batches: list[Tensor]) -> None:
    model = make("fused")
    expected = importance(model, batches, loss)
    for given in (iter(batches), lambda: batches, tuple(batches)):
        found = importance(model, given, loss)
        assert all(torch.equal(found[path], expected[path]) for path in expected)


def test_some_blocks_only(make: Make, batches: list[Tensor]) -> None:
    model = make("grouped")
    expected = importance(model, batches, loss)
    found = importance(model, batches, loss, paths=["layers.1"])
    assert list(found) == ["layers.1"]
    assert torch.equal(found["layers.1"], expected["layers.1"])


def test_a_block_that_the_loss_does_not_use_scores_nothing(make: Make, batches: list[Tensor]) -> None:
    model = make("fused")
    first = model.layers[0]  # type: ignore[index]
    scores = importance(model, batches, lambda model, x: first(x).pow(2).mean(), inputs=(batches[0],))
    assert scores["layers.0"].gt(0).all()
    assert scores["layers.1"].tolist() == [0, 0, 0, 0]


def test_it_is_a_name_of_the_root(make: Make, batches: list[Tensor]) -> None:
    assert headtune.importance is importance


WRONG: list[tuple[Any, str]] = [
    (
        lambda model, x: model(x),
        "importance: loss returned a tensor of shape (3, 5, 16); it must return a scalar tensor",
    ),
    (lambda model, x: loss(model, x).item(), "importance: loss returned float; it must return a scalar tensor"),
    (lambda model, x: loss(model, x) * float("nan"), "importance: loss returned nan, of which there is no gradient"),
    (
        lambda model, x: loss(model, x).detach(),
        "importance: what loss returned does not depend on the model's heads; "
        "compute it with gradients, without .item() or torch.no_grad()",
    ),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_loss_without_a_gradient_is_refused(make: Make, batches: list[Tensor], wrong: Any, message: str) -> None:
    model = make("fused").train()
    with pytest.raises(TaskError) as caught:
        importance(model, batches, wrong)
    assert str(caught.value) == message
    assert model.training


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_that_let_no_gradient_through_are_refused(
    make: Make, batches: list[Tensor], reentrant: bool
) -> None:
    def checkpointed(model: nn.Module, x: Tensor) -> Tensor:
        value: Tensor = checkpoint(model, x.clone().requires_grad_(), use_reentrant=reentrant).pow(3).mean()
        return value

    model = make("fused")
    if not reentrant:
        scores = importance(model, batches, checkpointed, inputs=(batches[0],))
        expected = importance(model, batches, loss)
        assert all(torch.equal(scores[path], expected[path]) for path in expected)
        return
    with pytest.raises(TaskError) as caught:
        importance(model, batches, checkpointed, inputs=(batches[0],))
    assert str(caught.value) == (
        "importance: the model checkpoints activations with use_reentrant=True, through which gates get no gradient; "
        "give it use_reentrant=False, or turn checkpointing off"
    )


def test_no_batch_is_refused(make: Make) -> None:
    with pytest.raises(TaskError) as caught:
        importance(make("fused"), [], loss)
    assert str(caught.value) == "importance: there is no batch; give at least one"


def test_blocks_that_are_none_are_all_named(make: Make, batches: list[Tensor]) -> None:
    with pytest.raises(SurgeryError) as caught:
        importance(make("fused"), batches, loss, paths=["layers.0", "layers.7", "head"])
    assert caught.value.problems == (
        "layers.7: is no attention block; these are: layers.0, layers.1",
        "head: is no attention block; these are: layers.0, layers.1",
    )


@pytest.mark.parametrize("wrong", [None, 5])
def test_arguments_of_the_wrong_type_are_named_at_once(make: Make, batches: list[Tensor], wrong: Any) -> None:
    with pytest.raises(InputError) as caught:
        importance(make("fused"), wrong, "loss", paths="layers.0")  # type: ignore[arg-type]
    assert caught.value.problems == (
        f"importance: batches: must be an iterable of batches, or a function that returns one (got {wrong})",
        "importance: loss: must be a function: (model, batch) -> scalar tensor (got 'loss')",
        "importance: paths: must be a list of paths, such as ['layers.0.attn'] (got 'layers.0')",
    )
    with pytest.raises(InputError, match="batches must return an iterable of batches"):
        importance(make("fused"), lambda: wrong, loss)
    with pytest.raises(SurgeryError, match="the model came as"):
        importance(wrong, batches, loss)
