"""A trained model on disk: its tensors, and what rebuilds its skeleton."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadPlan, Hold
from headtune.surgery.refusals import check_workable
from headtune.surgery.saving.declared import declared_counts
from headtune.surgery.saving.document import described_edits, plan_of
from headtune.surgery.saving.folders import written_whole
from headtune.surgery.saving.pretrained import (
    CONFIG,
    attention_of,
    is_pretrained,
    is_pretrained_class,
    load_pretrained,
    save_pretrained,
)
from headtune.surgery.saving.rebuilding import rebuilt
from headtune.surgery.saving.tensors import read_tensors, write_tensors

TENSORS = "model.safetensors"
BUFFERS = "buffers.safetensors"
PLAN = "plan.json"

_STALE = ("model*.safetensors", "model.safetensors.index.json", BUFFERS, PLAN, CONFIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """What rebuilds a saved model before its tensors are loaded.

    Attributes:
        plan: counts of the attention blocks; empty for a model that surgery has not seen.
        hold: what its plan held; None where nobody said.
        params: what the person's ``model`` was called with.
    """

    plan: HeadPlan
    hold: Hold | None
    params: Mapping[str, Any]


def save(model: nn.Module, folder: str | Path, *, params: Mapping[str, Any] | None = None) -> None:
    """Write a model, changed by surgery or not, so that :func:`load` gives it back to the last bit.

    The folder gets ``model.safetensors`` and ``plan.json``: the plan, the params, and what surgery changed. A model of
    transformers is written by its own ``save_pretrained``; its ``config.json`` says what surgery changed too. The
    folder is written whole: what fails or is killed leaves no half of a model.

    Args:
        model: stays as it is; a compiled one is saved as the module inside.
        folder: is made; an earlier model in it is replaced.
        params: what ``build`` takes, such as the params of a study.

    Raises:
        SurgeryError: the model is wrapped for parallel training.
        StorageError: the folder cannot be written, or something in the model is no tensor or number (every one).
    """
    model = _eager(model)
    save_checkpoint(model, Path(folder), Skeleton(plan=plan_of(model), hold=None, params=params or {}))


def load(folder: str | Path, build: Callable[..., nn.Module]) -> nn.Module:
    """The model that :func:`save` wrote, exact to the last bit.

    Args:
        folder: what :func:`save` wrote, or ``save_pretrained`` of a transformers model that surgery had changed.
        build: returns the model as it was before surgery, with any weights, on the device where it is wanted; of the
            params that were saved, it gets those that it names. Or the class of a transformers model.

    Raises:
        StorageError: the folder holds no saved model, or not of what *build* returns (every tensor that does not fit).
    """
    folder = Path(folder)
    if is_pretrained_class(build):
        return load_pretrained(folder, build)
    if not (folder / PLAN).exists() and (folder / CONFIG).exists():
        raise StorageError(f"{folder} was written by save_pretrained: load it by the model's class, as in BertModel")
    return load_checkpoint(folder, lambda skeleton: build(**_named(build, skeleton.params)))


def save_checkpoint(model: nn.Module, folder: Path, skeleton: Skeleton) -> None:
    """Write *model* as :func:`save` does, with a given plan, hold and params.

    Raises:
        StorageError: as :func:`save` does.
    """
    check_workable(model)
    content = {
        "plan": skeleton.plan.to_json(),
        "hold": skeleton.hold,
        "params": dict(skeleton.params),
        "modules": described_edits(model),
        "declared": declared_counts(model),
    }
    with written_whole(folder, last=PLAN, stale=_STALE) as unfinished:
        if is_pretrained(model):
            save_pretrained(model, unfinished)
            write_tensors(model, unfinished / BUFFERS, only_unlisted=True)
        else:
            write_tensors(model, unfinished / TENSORS)
        (unfinished / PLAN).write_text(json.dumps(content, indent=1))


def read_skeleton(folder: Path) -> Skeleton:
    """The plan, hold and params of a saved model.

    Raises:
        StorageError: the folder holds no saved model.
    """
    content = _read(folder)
    return Skeleton(plan=HeadPlan.from_json(content["plan"]), hold=content["hold"], params=content["params"])


def load_checkpoint(folder: Path, build: Callable[[Skeleton], nn.Module]) -> nn.Module:
    """The saved model, exact to the last bit.

    Args:
        folder: what :func:`save_checkpoint` wrote.
        build: returns the skeleton's model: the person's model, with the plan applied or as it was before.

    Raises:
        StorageError: the folder holds no saved model, or its tensors are not those of the skeleton.
    """
    content = _read(folder)
    built: object = build(read_skeleton(folder))
    if not isinstance(built, nn.Module):
        raise StorageError(f"build returned {type(built).__name__}; it must return a torch.nn.Module")
    if is_pretrained(built):
        return load_pretrained(folder, type(built), attention_of(built)).train(built.training)
    model = rebuilt(built, content.get("modules", {}))
    read_tensors(model, folder / TENSORS)
    found, declared = declared_counts(model), content.get("declared", {})
    problems = [
        f"{folder}: {name} is {found.get(name)} in {type(model).__name__}, but was saved as {count}"
        for name, count in declared.items()
        if found.get(name) != count
    ]
    if problems:
        raise StorageError(*problems)
    return model


def _read(folder: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads((folder / PLAN).read_text())
        return {"plan": content["plan"], "hold": content["hold"], "params": content["params"], **content}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{folder}: no saved model ({error}); it needs {PLAN} and {TENSORS}") from error


def _named(build: Callable[..., nn.Module], params: Mapping[str, Any]) -> dict[str, Any]:
    """Those of *params* that *build* names; all of them where it takes ``**kwargs``."""
    accepted = inspect.signature(build).parameters if params else {}
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    return {name: value for name, value in params.items() if every or name in accepted}


def _eager(model: nn.Module) -> nn.Module:
    """The module inside a compiled one."""
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner
