"""What a training function sees: device, seed, params, epochs, ``report``, ``save`` and ``restore``."""

import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from pickle import PicklingError
from typing import Any

import torch

import headtune.rules as rules
from headtune.errors import Diverged, StopTrial, TaskError, TrialError
from headtune.trial.contract import Channel
from headtune.trial.metrics import reported_metrics
from headtune.trial.params import ParamValue
from headtune.trial.seeding import rng_state, set_rng_state

_DEVICES = "must be a device that torch knows, such as cpu or cuda:0"


class Run:
    """One training, as its training function sees it.

    Alone (``Run(epochs=3, seed=0)``) it prints each report on stderr, so that a script runs without a study. In a study
    reports go to the broker, which may end the trial.

    Attributes:
        device: where to train; the first GPU if there is one, else the CPU, unless given.
        seed: the trial's seed. A study seeds all generators with it before it builds the model.
        params: the study's extra hyper-parameters; empty without any.
        epochs: how many epochs to train.
    """

    def __init__(
        self,
        *,
        epochs: int,
        seed: int = 0,
        device: torch.device | str | None = None,
        params: Mapping[str, ParamValue] | None = None,
        channel: Channel | None = None,
        folder: Path | None = None,
    ) -> None:
        """Make a run.

        Args:
            epochs: at least 1.
            seed: kept for the training function; nothing is seeded here.
            device: ``None`` picks the first GPU if there is one, else the CPU.
            params: name → value.
            channel: where reports go; ``None`` prints them.
            folder: where :meth:`save` writes; ``None`` keeps nothing.

        Raises:
            TaskError: every argument that has no meaning.
        """
        problems = rules.broken(
            {
                "epochs": (epochs, rules.count),
                "seed": (seed, rules.integer),
                "device": (device, rules.optional(_device)),
                "params": (params, rules.optional(rules.a(Mapping, "a mapping of names to values"))),
                "folder": (folder, rules.optional(rules.path)),
            }
        )
        if problems:
            raise TaskError(*(f"Run: {problem}" for problem in problems))
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device)
        self.seed = seed
        self.params: Mapping[str, ParamValue] = dict(params or {})
        self.epochs = epochs
        self._channel = channel
        self._checkpoint = None if folder is None else folder / "checkpoint.pt"
        self._history: list[Mapping[str, float]] = []
        self._process = os.getpid()
        self._stopped: StopTrial | None = None

    @property
    def history(self) -> tuple[Mapping[str, float], ...]:
        """Every report so far, the first one first; those before a :meth:`restore` included."""
        return tuple(self._history)

    @property
    def last(self) -> Mapping[str, float]:
        """The last report; empty before the first."""
        return self._history[-1] if self._history else {}

    @property
    def stopped(self) -> StopTrial | None:
        """What :meth:`report` raised to end the training, whoever caught it since."""
        return self._stopped

    def report(self, /, **metrics: float | torch.Tensor) -> None:
        """Tell how good the model is now; the n-th call is step n.

        Args:
            **metrics: name → number or 0-d tensor.

        Raises:
            MetricError: no metric, one that is not a number, or one that headtune measures itself.
            TaskError: in a study, the process is not the one that train was called in.
            Diverged: in a study, a metric is not finite.
            StopTrial: the study wants no more of this trial.
        """
        if self._channel is not None and os.getpid() != self._process:
            raise TaskError("run.report() was called in a process that train forked; report where train was called")
        values = reported_metrics(metrics)
        self._history.append(values)
        step = len(self._history)
        if self._channel is None:
            print(f"report {step}  {_as_text(values)}", file=sys.stderr, flush=True)
        else:
            self.check_finite(values)
            if self._channel.report(step, values):
                self._stopped = StopTrial(f"stopped by the study at report {step}")
                raise self._stopped

    def check_finite(self, metrics: Mapping[str, float]) -> None:
        """Let only finite values pass.

        Raises:
            Diverged: a value is NaN or infinite.
        """
        wild = {name: value for name, value in metrics.items() if not math.isfinite(value)}
        if wild:
            raise Diverged(f"{_as_text(wild)} after report {len(self._history)}: not finite")

    def save(self, state: Mapping[str, Any]) -> None:
        """Keep *state*, the reports so far and the random generators, so that a new start can go on from here.

        To be called after the report of what *state* holds: reports count on from those before the save. Whole or not
        at all: a kill in mid-write leaves the state before. Keeps nothing in a run without a folder.

        Raises:
            TaskError: *state* holds what cannot be written.
        """
        if self._checkpoint is not None:
            self._write(self._checkpoint, state)

    def _write(self, checkpoint: Path, state: Mapping[str, Any]) -> None:
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        unfinished = checkpoint.with_suffix(f".{os.getpid()}.tmp")
        try:
            with unfinished.open("wb") as file:
                torch.save({"state": dict(state), "history": self._history, "rng": rng_state()}, file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(checkpoint)
        except (AttributeError, TypeError, PicklingError) as error:
            raise TaskError(
                f"run.save cannot write the state ({type(error).__name__}: {error}); keep tensors, numbers and text "
                "in it, such as model.state_dict()"
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)
            with suppress(OSError):  # only a folder in which nothing was ever kept is empty
                checkpoint.parent.rmdir()

    def restore(self) -> dict[str, Any] | None:
        """The last state saved, its tensors on the CPU; ``None`` in a run that never saved, or without a folder.

        Later reports count on from those that were saved, and the random generators go on from where they were.

        Raises:
            TrialError: the file is there but cannot be read.
        """
        if self._checkpoint is None or not self._checkpoint.exists():
            return None
        try:
            # Our own file, in the study's own folder; a state may hold more than tensors.
            kept = torch.load(self._checkpoint, map_location="cpu", weights_only=False)
        except Exception as error:
            raise TrialError(
                f"the checkpoint {self._checkpoint} cannot be read ({type(error).__name__}: {error}); "
                "delete it, and the trial starts anew"
            ) from error
        self._history = list(kept["history"])
        set_rng_state(kept["rng"])
        state: dict[str, Any] = kept["state"]
        return state

    def clear(self) -> None:
        """Delete what :meth:`save` wrote; called when the trial has ended."""
        if self._checkpoint is None or not self._checkpoint.parent.exists():
            return
        for file in self._checkpoint.parent.glob("checkpoint.*"):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # others may keep files there
            self._checkpoint.parent.rmdir()


def _device(value: object) -> str:
    if isinstance(value, torch.device):
        return ""
    try:
        return "" if isinstance(value, str) and torch.device(value) else _DEVICES
    except RuntimeError:
        return _DEVICES


def _as_text(metrics: Mapping[str, float]) -> str:
    """``val_accuracy 0.9123  val_loss 0.31``."""
    return "  ".join(f"{name} {value:.5g}" for name, value in metrics.items())
