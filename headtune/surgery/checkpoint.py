"""A trained model on disk: its tensors, and the plan and params that rebuild its skeleton."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model
from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadPlan, Hold

TENSORS = "model.safetensors"
PLAN = "plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """What rebuilds a saved model before its tensors are loaded.

    Attributes:
        params: what the person's ``model`` was called with.
    """

    plan: HeadPlan
    hold: Hold
    params: Mapping[str, Any]


def save_checkpoint(model: nn.Module, folder: Path, skeleton: Skeleton) -> None:
    """Write ``model.safetensors`` and ``plan.json`` into *folder*; shared tensors are written once.

    Raises:
        StorageError: the folder cannot be written.
    """
    content = {"plan": skeleton.plan.to_json(), "hold": skeleton.hold, "params": dict(skeleton.params)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save_model(model, str(folder / TENSORS))
        (folder / PLAN).write_text(json.dumps(content, indent=1))
    except OSError as error:
        raise StorageError(
            f"{folder}: the model cannot be written ({error}); free space or choose another output"
        ) from error


def read_skeleton(folder: Path) -> Skeleton:
    """The plan, hold and params of a saved model.

    Raises:
        StorageError: the folder holds no saved model.
    """
    try:
        content = json.loads((folder / PLAN).read_text())
        return Skeleton(plan=HeadPlan.from_json(content["plan"]), hold=content["hold"], params=content["params"])
    except (OSError, ValueError, KeyError) as error:
        raise StorageError(f"{folder}: no saved model ({error}); it needs {PLAN} and {TENSORS}") from error


def load_checkpoint(folder: Path, build: Callable[[Skeleton], nn.Module]) -> nn.Module:
    """The saved model, exact to the last bit.

    Args:
        folder: what :func:`save_checkpoint` wrote.
        build: returns the skeleton's model: the person's model with the plan applied.

    Raises:
        StorageError: the folder holds no saved model, or its tensors are not those of the skeleton.
    """
    model = build(read_skeleton(folder))
    try:
        load_model(model, str(folder / TENSORS), strict=True)
    except (OSError, RuntimeError) as error:
        raise StorageError(f"{folder}: the tensors do not fit the skeleton ({error})") from error
    return model
