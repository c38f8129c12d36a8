"""The file beside a model's tensors: its plan, its params, and what surgery changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import headtune.rules as rules
from headtune.errors import InputError, PlanError, StorageError
from headtune.heads import HeadPlan, Hold
from headtune.surgery.saving.files import PLAN, TENSORS
from headtune.surgery.saving.values import Json, NotJson, from_json, to_json

_HOLD = rules.optional(rules.one_of(get_args(Hold)))
_MAPPING = rules.a(dict, "a mapping")
_LIST = rules.a(list, "a list")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """What the file says.

    Attributes:
        plan: counts of the attention blocks; empty for a model that surgery has not seen.
        hold: what its plan held; None where nobody said.
        params: what the person's ``model`` was called with, as JSON.
        modules: what :func:`described_edits` returned.
        declared: what :func:`declared_counts` returned.
        files: names of all files that were written with it.
    """

    plan: HeadPlan
    hold: Hold | None
    params: Json
    modules: Json
    declared: Json
    files: tuple[str, ...] = ()


def write_plan(said: PlanFile, folder: Path) -> None:
    """Write the file."""
    content = {
        "plan": said.plan.to_json(),
        "hold": said.hold,
        "params": said.params,
        "modules": said.modules,
        "declared": said.declared,
        "files": list(said.files),
    }
    (folder / PLAN).write_text(json.dumps(content, indent=1))


def read_plan(folder: Path) -> PlanFile:
    """What the file in a folder says.

    Raises:
        StorageError: there is none, or it is damaged (every problem).
    """
    try:
        content = json.loads((folder / PLAN).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{folder}: no saved model ({error}); it needs {PLAN} and {TENSORS}") from error
    problems = list(_problems(content))
    if problems:
        raise StorageError(*(f"{folder / PLAN}: {problem}; save the model again" for problem in problems))
    return PlanFile(
        plan=HeadPlan.from_json(content["plan"]),
        hold=content["hold"],
        params=content["params"],
        modules=content.get("modules", {}),
        declared=content.get("declared", {}),
        files=tuple(content.get("files", ())),
    )


def encoded(params: object) -> Json:
    """The params of a model as JSON.

    Raises:
        InputError: they are no mapping of names to values.
        StorageError: names every value that JSON cannot hold.
    """
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise InputError(f"params: must be a mapping from names to values, as build takes them{rules.came(params)}")
    found: dict[str, Json] = {}
    problems: list[str] = []
    for name, value in params.items():
        try:
            found[name] = to_json(value)
        except NotJson as reason:
            problems.append(f"params: {name} is {reason}, which cannot be written down; give numbers or text instead")
    if problems:
        raise StorageError(*problems)
    return found


def decoded(params: Json, folder: Path) -> Mapping[str, Any]:
    """The inverse of :func:`encoded`.

    Raises:
        StorageError: names every value that is damaged.
    """
    found: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in params.items():
        try:
            found[name] = from_json(value)
        except Exception as error:  # of a damaged tensor
            problems.append(f"{folder / PLAN}: the value of {name} is damaged ({error}); save the model again")
    if problems:
        raise StorageError(*problems)
    return found


def _problems(content: Json) -> list[str]:
    if not isinstance(content, dict) or not {"plan", "hold", "params"} <= content.keys():
        return ["is not what headtune writes: it has no plan, hold and params"]
    problems = rules.broken(
        {
            "hold": (content["hold"], _HOLD),
            "params": (content["params"], _MAPPING),
            "modules": (content.get("modules", {}), _MAPPING),
            "declared": (content.get("declared", {}), _MAPPING),
            "files": (content.get("files", []), _LIST),
        }
    )
    try:
        HeadPlan.from_json(content["plan"])
    except PlanError as error:
        problems += error.problems
    return problems
