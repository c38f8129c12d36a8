"""The recorded tasks: real ones, small enough to train every plan of on several seeds."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import headtune
from headtune import HeadPlan, Objective, SearchSpace, SpaceOptions, Task
from headtune.heads import Hold

sys.path.append(str(Path(__file__).parents[2] / "examples"))


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What one table records.

    Attributes:
        task: makes the task.
        hold: what stays the same when the counts change.
        heads: the counts that each site may have; the table has every combination of them.
        epochs: reports of a training.
        quality: the metric that a training reports.
        batch_size: what latency is measured at.
        seeds: trainings of a plan; more where seeds make as much of a difference as plans do.
    """

    task: Callable[[], Task]
    hold: Hold
    heads: tuple[int, ...]
    epochs: int
    quality: Objective
    batch_size: int
    seeds: int = 5

    @property
    def options(self) -> SpaceOptions:
        """What its space holds."""
        return SpaceOptions(hold=self.hold, heads=self.heads)

    def space(self, task: Task) -> SearchSpace:
        """Every plan of the table."""
        return SearchSpace.of(headtune.sites(task.model(), task.inputs(2, None)), self.options)

    def plans(self, task: Task) -> Mapping[str, HeadPlan]:
        """Every plan of the table, by how it prints."""
        return {plan.label: plan for plan in self.space(task)}


def _task(module: str) -> Task:
    found: Task = import_module(module).task
    return found


def _text_task(lr: float) -> Task:
    from attention_text import task

    return task(lr)


def _text(lr: float, hold: Hold, heads: tuple[int, ...]) -> Recording:
    """The language model under a hold, at the learning rate that suits its present counts."""
    return Recording(
        task=partial(_text_task, lr),
        hold=hold,
        heads=heads,
        epochs=9,
        quality=Objective(metric="val_bits_per_byte", direction="minimize"),
        batch_size=8,
        seeds=8,
    )


RECORDINGS = {
    "digits": Recording(
        task=partial(_task, "moved_digits"),
        hold="width",
        heads=(1, 2, 4, 8, 16),
        epochs=12,
        quality=Objective(metric="val_loss", direction="minimize"),
        batch_size=32,
    ),
    "digits_vit": Recording(  # the task of studies/digits_vit.yaml, of which same_epochs.py records what it needs
        task=partial(_task, "digits_vit"),
        hold="width",
        heads=(1, 2, 4, 8, 16),
        epochs=10,
        quality=Objective(metric="val_accuracy", direction="maximize"),
        batch_size=32,
    ),
    "text_head_dim": _text(4e-3, "head_dim", (1, 2, 4, 6, 8)),
    "text_width": _text(2e-3, "width", (1, 2, 4, 8, 16)),
}
"""By name."""
