"""What may not change between two starts of one study, and the values that JSON keeps for it."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headtune.errors import StudyChangedError
from headtune.study.preparing import protocol_of
from headtune.study.spec import StudySpec
from headtune.trial import TaskReference

PACKAGES = ("headtune", "torch", "optuna", "ray", "numpy")


def plain(value: object) -> Any:  # noqa: ANN401
    """*value* as JSON keeps it: dataclasses as mappings, tuples as lists, paths as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def fingerprint(spec: StudySpec) -> dict[str, Any]:
    """What decides what a trial's values mean. More trials, other seeds to verify or other resources are not in it."""
    return {
        "task": spec.task.name,
        "task_args": plain(spec.task.args) if isinstance(spec.task, TaskReference) else {},
        "weights": spec.weights,
        "space": plain(spec.space) | {"params": plain(spec.params)},
        "objectives": plain(spec.objectives),
        "constraints": [str(limit) for limit in spec.limits],
        "latency": plain(protocol_of(spec)),
        "epochs": spec.search.epochs,
        "seed": spec.seed,
    }


def check_same_model(study: str, before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> None:
    """Make sure that the model is the one that the study began with.

    Args:
        study: its name.
        before: what the check found when it began, as the storage keeps it; ``None`` where it begins now.
        now: what the check finds now, in the same form.

    Raises:
        StudyChangedError: the model has other attention sites, or other trained weights.
    """
    if before is None:
        return
    if before["sites"] != now["sites"]:
        raise StudyChangedError(
            f"the model's attention sites are not those that study {study!r} began with: choose another name or "
            "output, or bring the model back"
        )
    if before.get("kept", now["kept"]) != now["kept"]:
        raise StudyChangedError(
            f"the checkpoint that model() returns is another one than study {study!r} began with: choose another name "
            "or output, or bring the checkpoint back"
        )


def versions() -> dict[str, str]:
    """Package → installed version, with Python and the platform."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
