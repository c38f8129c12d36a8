"""The training loop behind :func:`headtune.trial.supervised.Supervised`."""

import copy
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from headtune.errors import MetricError, TaskError
from headtune.trial.metrics import returned_metrics
from headtune.trial.params import ParamValue
from headtune.trial.run import Run

Mode = Literal["max", "min"]
"""Whether a metric is better when greater or when smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """The numbers of a training.

    Attributes:
        lr: peak learning rate.
        weight_decay: of matrices.
        warmup: share of the steps in which the learning rate rises.
        clip: greatest norm of all gradients together.

    Raises:
        TaskError: every number that is out of range.
    """

    lr: float
    weight_decay: float
    warmup: float
    clip: float

    def __post_init__(self) -> None:
        problems = [
            f"Supervised: {name} must be a number, got {value!r}"
            for name, value in asdict(self).items()
            if not isinstance(value, int | float) or isinstance(value, bool)
        ]
        if problems:
            raise TaskError(*problems)
        rules = [
            (self.lr > 0, f"lr must be above 0, got {self.lr}"),
            (self.weight_decay >= 0, f"weight_decay must be 0 or more, got {self.weight_decay}"),
            (0 <= self.warmup < 1, f"warmup is a share of the steps, from 0 to below 1; got {self.warmup}"),
            (self.clip > 0, f"clip must be above 0, got {self.clip}; math.inf clips nothing"),
        ]
        problems = [f"Supervised: {problem}" for kept, problem in rules if not kept]
        if problems:
            raise TaskError(*problems)

    def overridden(self, params: Mapping[str, ParamValue]) -> "FitOptions":
        """These options, but each one that is also a param has the param's value.

        Raises:
            TaskError: a param that is no number, or out of range.
        """
        mine = {name: value for name, value in params.items() if name in asdict(self)}
        problems = [
            f"Supervised: the param {name} must be a number, got {value!r}"
            for name, value in mine.items()
            if isinstance(value, str | bool)
        ]
        if problems:
            raise TaskError(*problems)
        return replace(self, **{name: float(value) for name, value in mine.items()})


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
            if run.pausing or time.monotonic() - saved >= self.save_every_s:
                run.save(training.state())
                saved = time.monotonic()
        if training.best_weights is not None:
            model.load_state_dict(training.best_weights)
        model.eval()


class _Training:
    """A training under way: what changes from step to step, and so what a checkpoint holds."""

    def __init__(self, fit: Fit, model: nn.Module, run: Run) -> None:
        self.fit, self.model, self.run = fit, model, run
        self.options = fit.options.overridden(run.params)
        self.optimizer = adamw(model, weight_decay=self.options.weight_decay)
        self.scaler = torch.amp.GradScaler(run.device.type, enabled=fit.autocast is torch.float16)
        self.epoch = 0
        self.step = 0
        self.best_value: float | None = None
        self.best_weights: dict[str, Any] | None = None
        kept = run.restore()
        if kept is not None:
            self._resume(kept)
        else:
            self.steps_per_epoch = _count(fit.batches)

    def run_epoch(self) -> None:
        """Train on every batch once, evaluate, report."""
        self.model.train()
        losses = [self._train_step(to_device(batch, self.run.device)) for batch in self.fit.batches()]
        if not losses:
            raise TaskError(f"batches() gave no batch in epoch {self.epoch + 1}; it must start anew at each call")
        metrics = self._evaluate()
        self.epoch += 1
        self.run.report(**{"train_loss": torch.stack(losses).mean().item(), **metrics})

    def state(self) -> dict[str, Any]:
        """All that a new start needs to go on from here."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "steps_per_epoch": self.steps_per_epoch,
            "best_value": self.best_value,
            "best_weights": self.best_weights,
        }

    def _resume(self, kept: Mapping[str, Any]) -> None:
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.scaler.load_state_dict(kept["scaler"])
        self.epoch, self.step, self.steps_per_epoch = kept["epoch"], kept["step"], kept["steps_per_epoch"]
        self.best_value, self.best_weights = kept["best_value"], kept["best_weights"]

    def _train_step(self, batch: object) -> Tensor:
        share = warmup_cosine(self.step, self.run.epochs * self.steps_per_epoch, self.options.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.lr * share
        self.step += 1
        with torch.autocast(self.run.device.type, dtype=self.fit.autocast, enabled=self.fit.autocast is not None):
            loss = self.fit.loss(self.model, batch)
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

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


def adamw(model: nn.Module, *, weight_decay: float) -> AdamW:
    """AdamW that decays matrices and leaves vectors (norms, biases) alone."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    return AdamW(groups, fused=all(parameter.device.type in ("cpu", "cuda") for parameter in trained))


def warmup_cosine(step: int, total: int, warmup: float) -> float:
    """Share of the peak learning rate at *step* (from 0) of *total*: up for *warmup* × *total*, then as a cosine to 0.

    References:
        Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017, https://arxiv.org/abs/1608.03983
    """
    rising = round(warmup * total)
    if step < rising:
        return (step + 1) / rising
    return (1 + math.cos(math.pi * min(1.0, (step - rising) / (total - rising)))) / 2


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


def _count(batches: Callable[[], Iterable[Any]]) -> int:
    """How many batches an epoch has."""
    epoch = batches()
    return len(epoch) if isinstance(epoch, Sized) else sum(1 for _ in epoch)
