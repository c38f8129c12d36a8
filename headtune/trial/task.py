"""The person's problem, as a few plain functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from headtune.trial.run import Run

Inputs = tuple[Any, ...] | dict[str, Any]
"""Positional or keyword arguments of ``forward``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What headtune asks of a person. Only ``model``, ``inputs`` and ``train`` (or ``evaluate``) are needed.

    Attributes:
        model: ``(**params) -> nn.Module``; gets only those params that it names. The sites must not depend on them.
        inputs: ``(batch_size, seq_len) -> tuple or dict`` of arguments of ``forward``; ``seq_len`` is ``None`` where
            the study names none.
        train: ``(model, run) -> None``; calls ``run.report(val_bleu=…)`` as it goes.
        evaluate: ``(model) -> {"val_bleu": 27.3}``: quality after training, else the last report counts.
        test: ``(model) -> {"test_bleu": 26.8}``: scores finalists only, never steers the search.
        batches: ``() -> iterable of batches``.
        loss: ``(model, batch) -> scalar tensor``.
    """

    model: Callable[..., nn.Module]
    inputs: Callable[[int, int | None], Inputs]
    train: "Callable[[nn.Module, Run], None] | None" = None
    evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None
    test: Callable[[nn.Module], Mapping[str, float]] | None = None
    batches: Callable[[], Iterable[Any]] | None = None
    loss: Callable[[nn.Module, Any], Tensor] | None = None
