"""The inputs of a model are those that the loss hands to it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtune.diagnose.forward_inputs import forward_inputs
from headtune.errors import TaskError

Make = Callable[[str], nn.Module]

seen_by = partial(forward_inputs, "importance", instead="give inputs=…")


def same(inputs: object, expected: object) -> bool:
    """Whether two nests hold equal tensors."""
    torch.testing.assert_close(inputs, expected, rtol=0, atol=0)
    return True


def test_a_batch_that_is_used_up_and_a_forward_that_writes_leave_both_as_they_were() -> None:
    class Adding(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.add_(1)

    batch = {"x": torch.zeros(2)}
    seen = seen_by(Adding(), batch, lambda model, batch: model(batch.pop("x")).sum())
    assert same(seen, (torch.zeros(2),))
    assert same(batch, {"x": torch.zeros(2)})


def test_positional_arguments_named_ones_and_both(make: Make, batches: list[Tensor]) -> None:
    model, x = make("fused"), batches[0]
    seen = seen_by(model, x, lambda model, x: model(x).sum())
    assert isinstance(seen, tuple)
    assert same(seen, (x,))
    assert same(seen_by(model, x, lambda model, x: model(x=x, scale=2.0).sum()), {"x": x, "scale": 2.0})
    assert same(seen_by(model, x, lambda model, x: model(x, scale=2.0).sum()), {"x": x, "scale": 2.0})


def test_the_first_call_counts_and_no_hook_stays(make: Make, batches: list[Tensor]) -> None:
    model = make("fused")
    first, second, _ = batches
    assert same(seen_by(model, first, lambda model, x: (model(x) + model(second)).sum()), (first,))
    assert not model._forward_pre_hooks


def test_no_gradient_is_kept_and_no_hook_stays_behind_a_loss_that_raises(make: Make, batches: list[Tensor]) -> None:
    model = make("fused")
    graphs: list[bool] = []

    def broken(model: nn.Module, x: Tensor) -> Tensor:
        graphs.append(model(x).requires_grad)
        raise KeyError("label")

    with pytest.raises(KeyError, match="label"):
        seen_by(model, batches[0], broken)
    assert graphs == [False]
    assert not model._forward_pre_hooks


def test_a_loss_that_never_calls_the_model(make: Make, batches: list[Tensor]) -> None:
    with pytest.raises(TaskError) as caught:
        seen_by(make("fused"), batches[0], lambda model, x: model.layers[0](x).sum())
    assert str(caught.value) == (
        "importance: loss never calls model(…) itself, so the inputs of Stack are unknown; "
        "give inputs=…, the arguments of its forward"
    )


def test_arguments_without_names_beside_named_ones() -> None:
    class Open(nn.Module):
        def forward(self, *parts: Tensor, **options: Any) -> Tensor:
            return torch.stack(parts).sum()

    x = torch.ones(2)
    assert same(seen_by(Open(), x, lambda model, x: model(x, x)), (x, x))
    with pytest.raises(TaskError) as caught:
        seen_by(Open(), x, lambda model, x: model(x, scale=1))
    assert str(caught.value) == (
        "importance: loss calls Open with arguments without names beside named ones; "
        "give inputs=…, the arguments of its forward"
    )
