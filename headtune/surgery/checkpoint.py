"""A trained model on disk: its tensors, and what rebuilds its skeleton."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

import headtune.rules as rules
from headtune.errors import InputError, StorageError
from headtune.heads import HeadPlan, Hold
from headtune.surgery.refusals import check_workable
from headtune.surgery.saving.declared import declared_counts
from headtune.surgery.saving.document import described_edits, plan_of
from headtune.surgery.saving.files import CONFIG, PLAN, TENSORS, earlier_files
from headtune.surgery.saving.folders import written_whole
from headtune.surgery.saving.plan_file import PlanFile, decoded, encoded, read_plan, write_plan
from headtune.surgery.saving.pretrained import (
    attention_of,
    is_pretrained,
    is_pretrained_class,
    load_pretrained,
    refuse_auto_class,
    save_pretrained,
)
from headtune.surgery.saving.rebuilding import rebuilt
from headtune.surgery.saving.tensors import read_tensors, write_tensors


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
        folder: is made; an earlier model in it is replaced, with all that was exported beside it; other files stay.
        params: what ``build`` takes, such as the params of a study: text, numbers, and containers of these.

    Raises:
        InputError: *folder* is no path, or *params* is no mapping.
        SurgeryError: the model is wrapped for parallel training.
        StorageError: the folder cannot be written, or something in the model is no tensor or number (every one).
    """
    check_workable(model)
    model = _eager(model)
    skeleton = Skeleton(plan=plan_of(model), hold=None, params={} if params is None else params)
    save_checkpoint(model, _path(folder), skeleton)


def load(folder: str | Path, build: Callable[..., nn.Module]) -> nn.Module:
    """The model that :func:`save` wrote, exact to the last bit.

    Args:
        folder: what :func:`save` wrote, or ``save_pretrained`` of a transformers model that surgery had changed.
        build: returns the model as it was before surgery, with any weights, on the device where it is wanted; of the
            params that were saved, it gets those that it names. Or the class of a transformers model.

    Raises:
        InputError: *folder* is no path, or *build* cannot be called.
        StorageError: the folder holds no saved model, or not of what *build* returns (every tensor that does not fit).
    """
    folder = _path(folder)
    if not callable(build):
        raise InputError(f"build: must be a function that returns the model, or a class{rules.came(build)}")
    refuse_auto_class(folder, build)
    if is_pretrained_class(build):
        return load_pretrained(folder, build)
    if not (folder / PLAN).exists() and (folder / CONFIG).exists():
        raise StorageError(f"{folder} was written by save_pretrained: load it by the model's class, as in BertModel")
    return load_checkpoint(folder, lambda skeleton: build(**_named(build, skeleton.params, folder)))


def save_checkpoint(
    model: nn.Module, folder: Path, skeleton: Skeleton, *, beside: Callable[[Path], object] | None = None
) -> None:
    """Write *model* as :func:`save` does, with a given plan, hold and params.

    Args:
        model: as in :func:`save`.
        folder: as in :func:`save`.
        skeleton: the plan, hold and params.
        beside: writes further files into the folder that it gets; they come and go with the model.

    Raises:
        StorageError: as :func:`save` does.
    """
    check_workable(model)
    said = PlanFile(
        plan=skeleton.plan,
        hold=skeleton.hold,
        params=encoded(skeleton.params),
        modules=described_edits(model),
        declared=declared_counts(model),
    )
    last = CONFIG if is_pretrained(model) else PLAN  # without which nothing loads
    with written_whole(folder, last=last, stale=earlier_files(folder)) as unfinished:
        if is_pretrained(model):
            save_pretrained(model, unfinished)
        else:
            write_tensors(model, unfinished / TENSORS)
        if beside is not None:
            beside(unfinished)
        write_plan(replace(said, files=(*sorted(file.name for file in unfinished.iterdir()), PLAN)), unfinished)


def read_skeleton(folder: Path) -> Skeleton:
    """The plan, hold and params of a saved model.

    Raises:
        StorageError: the folder holds no saved model.
    """
    return _skeleton(read_plan(folder), folder)


def load_checkpoint(folder: Path, build: Callable[[Skeleton], nn.Module]) -> nn.Module:
    """The saved model, exact to the last bit.

    Args:
        folder: what :func:`save_checkpoint` wrote.
        build: returns the skeleton's model: the person's model, with the plan applied or as it was before.

    Raises:
        StorageError: the folder holds no saved model, or its tensors are not those of the skeleton.
    """
    said = read_plan(folder)
    built: object = build(_skeleton(said, folder))
    if not isinstance(built, nn.Module):
        raise StorageError(f"build returned {type(built).__name__}; it must return a torch.nn.Module")
    if is_pretrained(built):
        return load_pretrained(folder, type(built), attention_of(built)).train(built.training)
    try:
        model = rebuilt(built, said.modules)
    except StorageError as error:
        raise StorageError(*(f"{folder / PLAN}: {problem}" for problem in error.problems)) from error
    read_tensors(model, folder / TENSORS)
    found = declared_counts(model)
    problems = [
        f"{folder}: {name} is {found.get(name)} in {type(model).__name__}, but was saved as {count}"
        for name, count in said.declared.items()
        if found.get(name) != count
    ]
    if problems:
        raise StorageError(*problems)
    return model


def _path(folder: object) -> Path:
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"folder: must be a path{rules.came(folder)}")
    return Path(folder)


def _skeleton(said: PlanFile, folder: Path) -> Skeleton:
    return Skeleton(plan=said.plan, hold=said.hold, params=decoded(said.params, folder))


def _named(build: Callable[..., nn.Module], params: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Those of *params* that *build* names; all of them where it takes ``**kwargs``."""
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):  # built into Python: it does not say what it takes
        return dict(params)
    accepted = signature.parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    given = {name: value for name, value in params.items() if every or name in accepted}
    try:
        signature.bind(**given)
    except TypeError as error:
        saved = ", ".join(params) or "none"
        raise StorageError(
            f"{folder}: build cannot be called ({error}); of its arguments it gets the saved params ({saved}): "
            "save the model with params, or wrap build in a function that needs no more"
        ) from None
    return given


def _eager(model: nn.Module) -> nn.Module:
    """The module inside a compiled one."""
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner
