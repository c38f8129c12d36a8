"""The files of a saved model, and which of a folder's files are an earlier model's."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from headtune.surgery.saving.values import Json

TENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"
BUFFERS = "buffers.safetensors"
PLAN = "plan.json"
CONFIG = "config.json"
KEY = "headtune"
"""Of the configuration of transformers, for what surgery changed."""

_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")


def earlier_files(folder: Path) -> set[str]:
    """Names of the files that an earlier save, or a ``save_pretrained``, wrote there by its own account."""
    shards = set(_shards(folder))
    files = {TENSORS, *_listed(folder), *shards} | ({INDEX} if shards else set())
    config = _content(folder / CONFIG)
    return files | ({CONFIG} if isinstance(config, dict) and KEY in config else set())


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files from which ``from_pretrained`` takes a model."""
    if (folder / TENSORS).exists():
        return (folder / TENSORS,)
    return tuple(folder / name for name in _shards(folder))


def _shards(folder: Path) -> Iterator[str]:
    """Names of the files into which ``save_pretrained`` has split a large model."""
    content = _content(folder / INDEX)
    names = content.get("weight_map") if isinstance(content, dict) else None
    for name in sorted(set(map(str, names.values()))) if isinstance(names, dict) else ():
        if _SHARD.fullmatch(name):
            yield name


def _listed(folder: Path) -> Iterator[str]:
    """The files that the plan names, in the folder itself."""
    content = _content(folder / PLAN)
    names = content.get("files") if isinstance(content, dict) else None
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str) and name == Path(name).name:
            yield name


def _content(file: Path) -> Json:
    """What a JSON file holds; None where it cannot be read."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return None
