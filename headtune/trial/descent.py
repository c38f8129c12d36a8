"""Steps of gradient descent: AdamW, a learning rate that rises and falls, clipped gradients, autocast."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from headtune.errors import TaskError
from headtune.trial.params import ParamValue


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


class Descent:
    """A descent under way.

    Args:
        model: what is trained.
        loss: ``(model, batch) -> scalar tensor``.
        options: the numbers.
        device: where the model is.
        autocast: the type that the loss is computed in, or ``None``.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[nn.Module, Any], Tensor],
        options: FitOptions,
        *,
        device: torch.device,
        autocast: torch.dtype | None,
    ) -> None:
        self._loss, self._options, self._device, self._autocast = loss, options, device, autocast
        self._parameters = list(model.parameters())
        self._optimizer = adamw(model, weight_decay=options.weight_decay)
        self._scaler = torch.amp.GradScaler(device.type, enabled=autocast is torch.float16)
        self._step = 0

    def step(self, batch: object, total: int, views: Iterable[AbstractContextManager[nn.Module]]) -> Tensor:
        """One step on one batch, by the sum of the gradients through each view of the model.

        Args:
            batch: on the device.
            total: steps of the whole training.
            views: each gives the model, in some state, while its gradients are computed.

        Returns:
            The mean of the losses, 0-d, without gradients.
        """
        share = warmup_cosine(self._step, total, self._options.warmup)
        for group in self._optimizer.param_groups:
            group["lr"] = self._options.lr * share
        self._step += 1
        self._optimizer.zero_grad()
        losses = [self._backward(batch, view) for view in views]
        self._scaler.unscale_(self._optimizer)
        nn.utils.clip_grad_norm_(self._parameters, self._options.clip)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return torch.stack(losses).mean()

    def _backward(self, batch: object, view: AbstractContextManager[nn.Module]) -> Tensor:
        with view as model:
            with torch.autocast(self._device.type, dtype=self._autocast, enabled=self._autocast is not None):
                loss = self._loss(model, batch)
            self._scaler.scale(loss).backward()
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """What :meth:`resume` needs to go on from here, beside the weights."""
        return {"optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict(), "step": self._step}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state` was asked."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])
        self._step = state["step"]


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
