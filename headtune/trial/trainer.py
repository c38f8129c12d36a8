"""A trial inside transformers' ``Trainer``: its evaluations become reports."""

import sys
from typing import Any

import headtune.rules as rules
from headtune.errors import InputError, MissingExtraError, StopTrial
from headtune.trial.run import Run

_TIMINGS = ("_runtime", "_per_second", "_compilation_time", "_preparation_time")


def trainer_callback(run: Run) -> Any:  # noqa: ANN401
    """A callback for ``Trainer(callbacks=[…])`` that reports every evaluation to *run* and stops when it says so.

    A report holds what ``compute_metrics`` returns and the loss, named as Trainer names them (``eval_loss``); the
    study's objective is one of these names. When the study wants no more of the trial, training ends after that
    evaluation and ``train()`` raises :class:`headtune.StopTrial`, which a task's ``train`` lets pass.

    Example:
        >>> trainer = Trainer(model, args, …, callbacks=[headtune.trainer_callback(run)])
        >>> trainer.train()

    Raises:
        InputError: *run* is no run.
        MissingExtraError: transformers is not imported, so there can be no Trainer.
    """
    if not isinstance(run, Run):
        raise InputError(f"trainer_callback: run must be the Run that a task's train is given{rules.came(run)}")
    transformers = sys.modules.get("transformers")
    if transformers is None:
        raise MissingExtraError(
            "trainer_callback: transformers is not imported; import transformers.Trainer first, "
            "or run pip install 'headtune[hf]'"
        )
    return _callback_class(transformers.TrainerCallback)(run)


def _callback_class(base: Any) -> Any:  # noqa: ANN401
    class Reports(base):  # type: ignore[misc]
        """Reports evaluations; stops the training in the way that Trainer offers, and says so at its end."""

        def __init__(self, run: Run) -> None:
            self._run = run
            self._stopped: StopTrial | None = None

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, Any], **_: Any) -> None:  # noqa: ANN401
            try:
                self._run.report(**_reported(metrics))
            except StopTrial as stop:
                self._stopped = stop
                control.should_training_stop = True

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ANN401
            if self._stopped is not None:
                raise self._stopped

    return Reports


def _reported(metrics: dict[str, Any]) -> dict[str, float]:
    """What is a quality: without the epoch and the timings that Trainer adds."""
    return {name: value for name, value in metrics.items() if name != "epoch" and not name.endswith(_TIMINGS)}
