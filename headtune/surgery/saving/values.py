"""Python values as JSON, exactly: numbers, strings, tuples, and small tensors."""

from enum import Enum
from typing import Any, TypeAlias

import torch
from torch import Tensor

Json: TypeAlias = Any
"""What ``json.loads`` returns."""

_LARGEST = 65536
"""Elements of a tensor that may stand in a JSON file."""


class NotJson(Exception):
    """A value that no JSON holds; the message says what it is."""


def to_json(value: object) -> Json:
    """*value* as JSON; containers other than lists say what they are.

    Raises:
        NotJson: it is something else than numbers, strings, containers of these and small tensors.
    """
    if (value is None or isinstance(value, bool | int | float | str)) and not isinstance(value, Enum):
        return value
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: to_json(item) for key, item in value.items()}}
    if isinstance(value, Tensor) and value.numel() <= _LARGEST and not value.is_meta and not value.is_complex():
        kind = str(value.dtype).removeprefix("torch.")
        return {"tensor": value.detach().cpu().flatten().tolist(), "shape": list(value.shape), "dtype": kind}
    raise NotJson(f"a {type(value).__name__}" + (" with keys that are no text" if isinstance(value, dict) else ""))


def from_json(data: Json) -> object:
    """The inverse of :func:`to_json`."""
    match data:
        case list():
            return [from_json(item) for item in data]
        case {"tuple": items}:
            return tuple(from_json(item) for item in items)
        case {"dict": items}:
            return {key: from_json(item) for key, item in items.items()}
        case {"tensor": numbers, "shape": shape, "dtype": kind}:
            dtype: torch.dtype = vars(torch)[kind]
            # float64 holds every number of the smaller types, so that rounding to them gives the same ones back.
            wide = torch.float64 if dtype.is_floating_point else dtype
            return torch.tensor(numbers, dtype=wide, device="cpu").to(dtype).reshape(shape)
    return data
