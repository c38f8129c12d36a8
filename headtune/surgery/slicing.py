"""Keeping some features of a linear map, with their values."""

from collections import Counter
from collections.abc import Collection, Set

import torch
from torch import nn

import headtune.surgery.adapters.peft as peft
from headtune.nn import SharedLinear
from headtune.surgery.adapters.linears import features, is_conv1d, made_by_features, why_not_linear, why_not_plain
from headtune.surgery.adapters.ownership import owner


def why_not_sliced(model: nn.Module, weight: str) -> str | None:
    """Why the holder of *weight* cannot lose features, as a sentence; ``None`` when it can."""
    _, module = owner(model, weight)
    if not isinstance(module, SharedLinear) and (reason := why_not_linear(model, weight)):
        return f"{reason}; {peft.REMEDY if peft.adapted(model, weight) else 'let an nn.Linear stand there'}"
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.is_meta:
            return f"{name} of {weight} is on the meta device (offloaded, or not loaded): load the whole model first"
    return why_not_plain(model, weight) or peft.why_not_cut(model, weight)


def drop_outputs(module: nn.Module, dropped: Set[int]) -> None:
    """Take features away that the linear map *module* makes, and puts out."""
    kept = _kept(features(module)[0], dropped)
    for name, dim in made_by_features(module):
        _slice(module, name, kept, dim)
    if isinstance(module, SharedLinear):
        place = {feature: number for number, feature in enumerate(kept)}
        module.put_out([place[feature] for feature in module.source.tolist() if feature in place])
        return
    setattr(module, "nf" if is_conv1d(module) else "out_features", len(kept))


def drop_copies(module: SharedLinear, kept: Collection[tuple[int, int]]) -> None:
    """Put only some copies of each feature out.

    Args:
        module: makes features once and puts them out several times.
        kept: features, each with the number of a copy that stays.
    """
    seen: Counter[int] = Counter()
    left = []
    for feature in module.source.tolist():
        if (feature, seen[feature]) in kept:
            left.append(feature)
        seen[feature] += 1
    module.put_out(left)


def drop_inputs(module: nn.Module, dropped: Set[int]) -> None:
    """Take features away that the linear map *module* reads."""
    kept = _kept(features(module)[1], dropped)
    _slice(module, "weight", kept, dim=0 if is_conv1d(module) else 1)
    setattr(module, "nx" if is_conv1d(module) else "in_features", len(kept))


def drop_last(module: nn.Module, name: str, dropped: Set[int]) -> None:
    """Take features away from the last dimension of the module's parameter of that name."""
    _slice(module, name, _kept(module.get_parameter(name).shape[-1], dropped), dim=-1)


def silence(module: nn.Module, ignored: Set[int]) -> None:
    """Let the linear map *module* ignore some features that it reads: their weights become zero."""
    old = module.get_parameter("weight")
    new = old.detach().clone()
    new.index_fill_(0 if is_conv1d(module) else 1, torch.tensor(sorted(ignored), device=new.device), 0.0)
    module.register_parameter("weight", nn.Parameter(new, old.requires_grad))


def _kept(count: int, dropped: Set[int]) -> list[int]:
    return [index for index in range(count) if index not in dropped]


def _slice(module: nn.Module, name: str, kept: list[int], dim: int) -> None:
    old = module.get_parameter(name)
    new = old.detach().index_select(dim, torch.tensor(kept, device=old.device))
    module.register_parameter(name, nn.Parameter(new, old.requires_grad))
