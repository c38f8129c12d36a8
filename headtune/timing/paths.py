"""Modules of a model by their paths."""

from collections.abc import Sequence

from torch import nn

import headtune.rules as rules
from headtune.errors import InputError


def sites_at(model: nn.Module, paths: Sequence[str]) -> list[tuple[str, nn.Module]]:
    """As :func:`modules_at`, for one path at least.

    Raises:
        InputError: as :func:`modules_at`, or no path is given.
    """
    found = modules_at(model, paths)
    if not found:
        raise InputError("paths: no site is named; take the paths of the model's sites")
    return found


def modules_at(model: nn.Module, paths: Sequence[str]) -> list[tuple[str, nn.Module]]:
    """The model's modules by path.

    Raises:
        InputError: every path that the model does not have, or something else than a sequence of paths.
    """
    if isinstance(paths, str) or not isinstance(paths, Sequence):
        raise InputError(f"paths: must be a list of the sites' paths{rules.came(paths)}")
    named = dict(model.named_modules(remove_duplicate=False))
    missing = [path for path in paths if path not in named]
    if missing:
        raise InputError(
            *(f"paths: {path!r} is no module of the model; take the paths of its sites" for path in missing)
        )
    return [(path, named[path]) for path in paths]
