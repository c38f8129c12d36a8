"""Keeping some features of a linear map, with their values."""

from collections.abc import Set

import torch
from torch import Tensor, nn

from headtune.surgery.adapters.ownership import owner


def why_not_sliced(model: nn.Module, weight: str) -> str | None:
    """Why the weight's module cannot lose features, as a sentence; ``None`` when it can."""
    _, module = owner(model, weight)
    if isinstance(module, nn.Linear) or is_conv1d(module):
        return None
    return f"{weight} belongs to {type(module).__name__}, and only nn.Linear and Conv1D can be cut"


def is_conv1d(module: nn.Module) -> bool:
    """Whether *module* is the transposed linear map of transformers' GPT-2."""
    return any(cls.__name__ == "Conv1D" and cls.__module__.startswith("transformers.") for cls in type(module).__mro__)


def drop_outputs(module: nn.Module, dropped: Set[int]) -> None:
    """Take features away that *module* puts out."""
    kept = _kept(_parameter(module, "weight").shape[1 if is_conv1d(module) else 0], dropped)
    _slice(module, "weight", kept, dim=1 if is_conv1d(module) else 0)
    if getattr(module, "bias", None) is not None:
        _slice(module, "bias", kept, dim=0)
    setattr(module, "nf" if is_conv1d(module) else "out_features", len(kept))


def drop_inputs(module: nn.Module, dropped: Set[int]) -> None:
    """Take features away that *module* reads."""
    kept = _kept(_parameter(module, "weight").shape[0 if is_conv1d(module) else 1], dropped)
    _slice(module, "weight", kept, dim=0 if is_conv1d(module) else 1)
    setattr(module, "nx" if is_conv1d(module) else "in_features", len(kept))


def _slice(module: nn.Module, name: str, kept: Tensor, dim: int) -> None:
    old = _parameter(module, name)
    new = old.detach().index_select(dim, kept.to(old.device)).clone()
    setattr(module, name, nn.Parameter(new, old.requires_grad))


def _kept(features: int, dropped: Set[int]) -> Tensor:
    return torch.tensor([index for index in range(features) if index not in dropped])


def _parameter(module: nn.Module, name: str) -> nn.Parameter:
    return module.get_parameter(name)


def silence(module: nn.Module, features: Set[int]) -> None:
    """Let *module* ignore some features that it reads: their weights become zero."""
    old = _parameter(module, "weight")
    new = old.detach().clone()
    new.index_fill_(0 if is_conv1d(module) else 1, torch.tensor(sorted(features), device=new.device), 0.0)
    module.weight = nn.Parameter(new, old.requires_grad)
