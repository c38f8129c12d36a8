"""Comparing a changed model with what it must be; what is wrong is an :class:`AssertionError`."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headtune.heads.plan import HeadPlan
from headtune.surgery.adapters.linears import is_conv1d
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.find import find_sites
from headtune.surgery.inputs import Inputs
from headtune.surgery.outputs import outputs
from headtune.surgery.wiring import Features, Wiring, wirings


def expect_counts(model: nn.Module, plan: HeadPlan, inputs: Inputs) -> None:
    """The model computes with the counts of *plan*."""
    computed = {site.path: site.present for site in find_sites(model, inputs)}
    assert computed == dict(plan), f"computes {computed}, where the plan says {plan}"


def how_kept(model: nn.Module, made: nn.Module, inputs: Inputs) -> str:
    """That every weight is the one it was, or makes the same queries, keys and values, only at other places.

    Weights that stay are looked at too: another count may cut a projection elsewhere, and read queries as keys.
    """
    before, after = model.state_dict(), made.state_dict()
    moved = {name.rpartition(".")[0] for name, tensor in before.items() if not torch.equal(after[name], tensor)}
    old, new = wirings(model, inputs), wirings(made, inputs)
    explained = set()
    for path in old.keys() & new.keys():
        for one, other in zip(_sides(old[path]), _sides(new[path]), strict=True):
            for name in dict.fromkeys(name for features in one for name in features):
                holder = name.rpartition(".")[0]
                explained.add(holder)
                for was, has in zip(_made_by(model, name, one), _made_by(made, name, other), strict=True):
                    assert torch.equal(was, has), f"{holder} does not make what it did before"
    assert moved <= explained, f"{sorted(moved - explained)} hold other values than before"
    return "weights moved to where they keep their roles" if moved else "weights untouched"


def _sides(wiring: Wiring) -> tuple[Sequence[Features], ...]:
    return wiring.q, wiring.k, wiring.v


def _made_by(model: nn.Module, name: str, heads: Sequence[Features]) -> list[Tensor]:
    """The parameters of a projection, of the features that the *heads* are made of, head by head."""
    rows = list(dict.fromkeys(row for features in heads for row in sorted(features.get(name, ()))))
    module = owner(model, name)[1]
    tensors = {key: one.T if is_conv1d(module) and one.dim() == 2 else one for key, one in module.named_parameters()}
    return [tensor[rows] for _, tensor in sorted(tensors.items())]


def bitwise(one: nn.Module, other: nn.Module, inputs: Inputs) -> bool:
    """Whether two models return the same to the last bit, in eval mode."""
    left, right = outputs(one, inputs).returned, outputs(other, inputs).returned
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    assert pairs, "the models return nothing that can be compared"
    return all(torch.equal(a, b) for a, b in pairs)
