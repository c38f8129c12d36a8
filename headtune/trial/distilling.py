"""A person's loss together with a teacher's answers to the same calls."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headtune.diagnose.arguments import Loss
from headtune.errors import TaskError
from headtune.nn import hidden_state_loss, soft_target_loss
from headtune.trial.prune_options import Match


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation:
    """How a student learns from a teacher beside its own loss.

    Attributes:
        alpha: share of the teacher in the loss, 0 to 1.
        temperature: at which logits are compared, above 0.
        match: what the answers are; ``auto`` takes ``.logits`` and ``.last_hidden_state`` for what they say, and a
            plain tensor for logits.
    """

    alpha: float = 0.5
    temperature: float = 2.0
    match: Match = "auto"

    def loss(self, own: Loss, teacher: nn.Module) -> Loss:
        """``(1 - alpha) · own + alpha ·`` how far the student's answers are from the teacher's (Hinton et al. 2015).

        The teacher is called as *own* calls the student, in eval mode and without gradients.

        Raises:
            TaskError: *own* never calls the model, or its answers cannot be compared.
        """

        def both(model: nn.Module, batch: Any) -> Tensor:  # noqa: ANN401
            with _heard(model) as calls:
                value = own(model, batch)
            if not calls:
                raise TaskError(
                    "loss never calls model(…) itself, so that it has no answer to compare with a teacher's"
                )
            apart = torch.stack([self._apart(call, teacher) for call in calls]).mean()
            return (1 - self.alpha) * value + self.alpha * apart

        return both

    def _apart(self, call: "_Call", teacher: nn.Module) -> Tensor:
        with torch.no_grad():
            theirs, kind = self._answer(teacher(*call.args, **call.kwargs))
        mine, _ = self._answer(call.answer)
        if kind == "logits":
            return soft_target_loss(mine, theirs, self.temperature)
        return hidden_state_loss(mine, theirs)

    def _answer(self, output: object) -> tuple[Tensor, Match]:
        """The tensor to compare, and what it is."""
        for name, kind in _NAMED.items():
            value = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
            if isinstance(value, Tensor):
                return value, kind
        if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
            output = output[0]
        if isinstance(output, Tensor):
            return output, "logits" if self.match == "auto" else self.match
        raise TaskError(
            f"the model returned {type(output).__name__}; to learn from a teacher it must return a tensor, or logits "
            "or last_hidden_state by name"
        )


_NAMED: Mapping[str, Match] = {"logits": "logits", "last_hidden_state": "states"}


@dataclass(frozen=True, slots=True)
class _Call:
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    answer: Any


@contextmanager
def _heard(model: nn.Module) -> Iterator[list[_Call]]:
    """Every call of *model* inside, with what it returned."""
    calls: list[_Call] = []

    def hear(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], answer: object) -> None:
        calls.append(_Call(args, kwargs, answer))

    handle = model.register_forward_hook(hear, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()
