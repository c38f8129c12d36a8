"""The training loop behind :func:`headtune.trial.supervised.Supervised`."""

import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headtune.errors import MetricError, TaskError
from headtune.trial.descent import Descent, FitOptions
from headtune.trial.metrics import returned_metrics
from headtune.trial.run import Run

Mode = Literal["max", "min"]
"""Whether a metric is better when greater or when smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A ``train`` for ``Task``; ``Supervised`` says what each part means."""

    batches: Callable[[], Iterable[Any]]
    loss: Callable[[nn.Module, Any], Tensor]
    evaluate: Callable[[nn.Module], Mapping[str, float]]
    monitor: str
    mode: Mode
    options: FitOptions
    autocast: torch.dtype | None
    save_every_s: float

    def __call__(self, model: nn.Module, run: Run) -> None:
        """Train *model*; it ends in eval mode, with the weights of its best epoch."""
        training = _Training(self, model.to(run.device), run)
        saved = time.monotonic()
        while training.epoch < run.epochs:
            training.run_epoch()
            if time.monotonic() - saved >= self.save_every_s:
                run.save(training.state())
                saved = time.monotonic()
        if training.best_weights is not None:
            model.load_state_dict(training.best_weights)
        model.eval()


class _Training:
    """A training under way: what changes from step to step, and so what a checkpoint holds."""

    def __init__(self, fit: Fit, model: nn.Module, run: Run) -> None:
        self.fit, self.model, self.run = fit, model, run
        self.descent = Descent(
            model, fit.loss, fit.options.overridden(run.params), device=run.device, autocast=fit.autocast
        )
        self.epoch = 0
        self.best_value: float | None = None
        self.best_weights: dict[str, Any] | None = None
        kept = run.restore()
        if kept is not None:
            self._resume(kept)
        else:
            self.steps_per_epoch = count_batches(fit.batches)

    def run_epoch(self) -> None:
        """Train on every batch once, evaluate, report."""
        self.model.train()
        total = self.run.epochs * self.steps_per_epoch
        batches = (to_device(batch, self.run.device) for batch in self.fit.batches())
        losses = [self.descent.step(batch, total, [nullcontext(self.model)]) for batch in batches]
        if not losses:
            raise TaskError(f"batches() gave no batch in epoch {self.epoch + 1}; it must start anew at each call")
        metrics = self._evaluate()
        self.epoch += 1
        self.run.report(**{"train_loss": torch.stack(losses).mean().item(), **metrics})

    def state(self) -> dict[str, Any]:
        """All that a new start needs to go on from here."""
        return {
            "model": self.model.state_dict(),
            **self.descent.state(),
            "epoch": self.epoch,
            "steps_per_epoch": self.steps_per_epoch,
            "best_value": self.best_value,
            "best_weights": self.best_weights,
        }

    def _resume(self, kept: Mapping[str, Any]) -> None:
        self.model.load_state_dict(kept["model"])
        self.descent.resume(kept)
        self.epoch, self.steps_per_epoch = kept["epoch"], kept["steps_per_epoch"]
        self.best_value, self.best_weights = kept["best_value"], kept["best_weights"]

    def _evaluate(self) -> Mapping[str, float]:
        """What ``evaluate`` says of the model now; keeps the weights if they are the best so far."""
        self.model.eval()
        with torch.no_grad():
            metrics = returned_metrics("evaluate", self.fit.evaluate(self.model))
        if self.fit.monitor not in metrics:
            came = ", ".join(metrics) or "nothing"
            raise MetricError(f"evaluate gave no {self.fit.monitor}, which Supervised monitors; it gave {came}")
        value = metrics[self.fit.monitor]
        if math.isfinite(value) and (self.best_value is None or self._better(value, self.best_value)):
            self.best_value = value
            self.best_weights = copy.deepcopy(self.model.state_dict())
        return metrics

    def _better(self, value: float, than: float) -> bool:
        return value > than if self.fit.mode == "max" else value < than


def to_device(batch: object, device: torch.device) -> object:
    """The batch with its tensors on *device*: itself, or those in its tuples, lists and dicts."""
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if type(batch) is tuple:
        return tuple(to_device(part, device) for part in batch)
    if type(batch) is list:
        return [to_device(part, device) for part in batch]
    if type(batch) is dict:
        return {name: to_device(part, device) for name, part in batch.items()}
    return batch


def count_batches(batches: Callable[[], Iterable[Any]]) -> int:
    """How many batches an epoch has."""
    epoch = batches()
    return len(epoch) if isinstance(epoch, Sized) else sum(1 for _ in epoch)
