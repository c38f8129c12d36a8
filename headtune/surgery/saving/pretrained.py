"""Models of transformers, whose own ``save_pretrained`` and ``from_pretrained`` know nothing of surgery.

The configuration of a changed model carries what surgery changed, under a key that transformers passes on. It also
asks, in words, for a fusion and an attention implementation that do not exist: a plain ``from_pretrained`` of such a
folder, which would build the unchanged skeleton, raises an error with these words.
"""

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

import headtune.rules as rules
from headtune.errors import StorageError, in_words
from headtune.nn import HeadedAttention
from headtune.surgery.saving.document import described_edits
from headtune.surgery.saving.files import BUFFERS, CONFIG, KEY, PLAN, weight_files
from headtune.surgery.saving.plan_file import read_plan
from headtune.surgery.saving.rebuilding import rebuilt
from headtune.surgery.saving.tensors import cast_as_saved, check_readable, write_tensors
from headtune.surgery.saving.values import Json

_REFUSAL = "headtune changed the attention of this model; load it with headtune.load(folder, ModelClass)"
_EVERYWHERE = ("eager", "sdpa")
"""Attention implementations that need no further package; the same one gives the same bits."""

_MARKERS: dict[str, Json] = {"fusion_config": {_REFUSAL: True}, "attn_implementation": _REFUSAL}


def is_pretrained(model: nn.Module) -> bool:
    """Whether *model* is one of transformers' own."""
    return is_pretrained_class(type(model))


def is_pretrained_class(build: object) -> bool:
    """Whether *build* is a model class of transformers."""
    transformers = sys.modules.get("transformers")
    return transformers is not None and isinstance(build, type) and issubclass(build, transformers.PreTrainedModel)


def attention_of(model: Any) -> str | None:  # noqa: ANN401
    """The attention implementation that a transformers model runs with."""
    kernel: str | None = model.config._attn_implementation
    return kernel


def inscribe(model: nn.Module) -> None:
    """Let the configuration of a transformers model carry what surgery changed, so that ``save_pretrained`` writes it.

    The configuration gives way to a copy, since other models may have been made from it.
    """
    if not is_pretrained(model):
        return
    try:
        modules = described_edits(model)
        inscription = _inscription(model, modules) if _changed(modules) else {}
    except StorageError as error:
        inscription = {KEY: {"problems": list(error.problems)}, **_MARKERS}
    old = vars(model)["config"]
    new = copy.copy(old)
    vars(new).update(inscription)
    for module in model.modules():
        if vars(module).get("config") is old:
            vars(module)["config"] = new


def save_pretrained(model: Any, folder: Path) -> None:  # noqa: ANN401
    """What the model's own ``save_pretrained`` writes, with what surgery changed.

    Raises:
        StorageError: a change cannot be written down, or a weight has no values.
    """
    inscription = _inscription(model, described_edits(model))
    try:
        model.save_pretrained(folder)
    except RuntimeError as error:
        absent = next((name for name, parameter in model.named_parameters() if parameter.is_meta), None)
        if absent is None:
            raise
        raise StorageError(f"{absent} has no values: it is on the meta device; load the model first") from error
    file = folder / CONFIG
    config = {key: value for key, value in json.loads(file.read_text()).items() if key not in (KEY, *_MARKERS)}
    file.write_text(json.dumps(config | inscription, indent=2, sort_keys=True) + "\n")
    write_tensors(model, folder / BUFFERS, only_unlisted=True)


def load_pretrained(folder: Path, cls: Any, attn_implementation: str | None = None) -> nn.Module:  # noqa: ANN401
    """What *cls* builds, changed as the folder says, with the folder's tensors.

    Args:
        folder: what ``save_pretrained`` wrote.
        cls: the model's class.
        attn_implementation: the one to use, where that should not be the saved one.

    Raises:
        StorageError: the folder holds no such model, or its tensors are not those of the class (every problem).
    """
    said = _read(folder, cls)
    files = (*weight_files(folder), *(folder / name for name in said.buffers))
    check_readable(files)
    try:
        model = _made(folder, cls, said, attn_implementation or said.attention)
    except StorageError as error:
        if said.architectures and cls.__name__ not in said.architectures:
            raise StorageError(
                f"{folder} was saved from {_or(said.architectures)}, and {cls.__name__} has other modules or tensors: "
                f"load it with headtune.load(folder, {said.architectures[0]})"
            ) from error
        raise
    inscribe(model)
    return cast_as_saved(model, files)


def refuse_auto_class(folder: Path, build: object) -> None:
    """Refuse classes of transformers that are no models, such as ``AutoModel``, which choose one by the configuration.

    Raises:
        StorageError: names the class that the folder's model was saved from.
    """
    if not isinstance(build, type) or is_pretrained_class(build):
        return
    if not (hasattr(build, "from_pretrained") and build.__module__.startswith("transformers.")):
        return
    saved = _architectures(_content(folder))
    remedy = f"headtune.load(folder, {saved[0]})" if saved else "the class of the model"
    raise StorageError(f"{folder} was saved from {_or(saved)}, and {build.__name__} is no model: load it with {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saved:
    """What a folder's configuration says.

    Attributes:
        config: as the class knows it.
        modules: what surgery changed.
        attention: the attention implementation.
        architectures: names of the classes that it was saved from.
        buffers: names of the files of buffers that are in no ``state_dict``.
    """

    config: object
    modules: Json
    attention: str | None
    architectures: tuple[str, ...]
    buffers: tuple[str, ...]


def _made(folder: Path, cls: Any, said: _Saved, attention: str | None) -> nn.Module:  # noqa: ANN401
    """What ``from_pretrained`` of a class makes that changes itself as it is built."""

    def build(self: nn.Module, *args: object, **kwargs: object) -> None:
        cls.__init__(self, *args, **kwargs)
        _rebuilt(self, said, folder)

    def draw(self: nn.Module, module: nn.Module) -> None:
        try:
            cls._init_weights(self, module)
        except AttributeError:  # SigLIP draws the fused projection of a block that has given way to another
            if not any(isinstance(child, HeadedAttention) for child in module.children()):
                raise

    members = {"__init__": build, "_init_weights": draw, "__module__": cls.__module__}
    changed: Any = type(cls.__name__, (cls,), members)
    try:
        model, info = changed.from_pretrained(
            folder,
            config=said.config,
            attn_implementation=attention,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except StorageError:
        raise
    except Exception as error:  # what is damaged can raise anything
        raise StorageError(f"{folder}: {cls.__name__}.from_pretrained raised {in_words(error)}") from error
    if problems := tuple(_problems(info, cls.__name__)):
        raise StorageError(*(f"{folder}: {problem}" for problem in problems))
    model.__class__ = cls
    # Again, since from_pretrained sets buffers that are in no file as the class has them.
    return _rebuilt(model, said, folder)


def _rebuilt(model: nn.Module, said: _Saved, folder: Path) -> nn.Module:
    try:
        return rebuilt(model, said.modules)
    except StorageError as error:
        raise StorageError(*(f"{folder / CONFIG}: {problem}" for problem in error.problems)) from error


def _inscription(model: Any, modules: Json) -> dict[str, Json]:  # noqa: ANN401
    """What is added to the configuration of a model with these changes."""
    kernel = attention_of(model)
    said = {"modules": modules} | ({"attn_implementation": kernel} if kernel in _EVERYWHERE else {})
    return {KEY: said} | (_MARKERS if _changed(modules) else {})


def _changed(modules: Json) -> bool:
    """Whether the skeleton differs from what is described; counts alone are only noted."""
    return any(set(changes) - {"count"} for changes in modules.values())


def _read(folder: Path, cls: Any) -> _Saved:  # noqa: ANN401
    content = _content(folder)
    kind = cls.config_class.model_type
    if content.get("model_type") != kind:
        raise StorageError(
            f"{folder} holds a {content.get('model_type')} model, saved from {_or(_architectures(content))}; "
            f"{cls.__name__} is of the type {kind}"
        )
    said = content.get(KEY, {})
    if not isinstance(said, dict):
        raise StorageError(f"{folder / CONFIG}: {KEY} must be a mapping{rules.came(said)}; save the model again")
    if isinstance(problems := said.get("problems"), list) and problems:
        raise StorageError(*(f"{folder}: {problem}" for problem in problems))
    plain = {key: value for key, value in content.items() if key not in (KEY, *_MARKERS)}
    try:
        config = cls.config_class.from_dict(plain)
    except Exception as error:  # what is damaged can raise anything
        name = cls.config_class.__name__
        raise StorageError(f"{folder / CONFIG}: {name} cannot be made of it ({in_words(error)})") from error
    return _Saved(
        config=config,
        modules=said.get("modules", {}),
        attention=kernel if (kernel := said.get("attn_implementation")) in _EVERYWHERE else None,
        architectures=_architectures(content),
        buffers=_buffers(folder) if KEY in content else (),
    )


def _content(folder: Path) -> dict[str, Json]:
    try:
        content = json.loads((folder / CONFIG).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{folder}: no saved transformers model ({error}); it needs {CONFIG}") from error
    if not isinstance(content, dict):
        raise StorageError(f"{folder / CONFIG}: must hold a mapping{rules.came(content)}; save the model again")
    return content


def _buffers(folder: Path) -> tuple[str, ...]:
    """What headtune wrote beside the files of ``save_pretrained``, which writes none."""
    if not (folder / PLAN).exists():
        return ()
    files = read_plan(folder).files
    return (BUFFERS,) if BUFFERS in files or (not files and (folder / BUFFERS).exists()) else ()


def _architectures(content: Mapping[str, Json]) -> tuple[str, ...]:
    names = content.get("architectures")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _or(architectures: tuple[str, ...]) -> str:
    return " or ".join(architectures) or "an unknown class"


def _problems(info: Mapping[str, Json], name: str) -> Iterator[str]:
    for tensor in sorted(info["missing_keys"]):
        yield f"{tensor} is not there, but {name} has it"
    for tensor in sorted(info["unexpected_keys"]):
        yield f"{tensor} is there, but {name} has no such tensor"
    for tensor, there, wanted in sorted(info["mismatched_keys"]):
        yield f"{tensor} is {tuple(there)}, but {tuple(wanted)} in {name}"
