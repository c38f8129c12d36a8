"""Sharing key/value heads between the query heads of a trained model, by the mean of those that become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.adapters import adapter_for
from headtune.surgery.adapters.linears import made_by_features
from headtune.surgery.adapters.ownership import owner
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.original import Original
from headtune.surgery.plan_check import plan_problems
from headtune.surgery.proof import Unproven, followed, outputs_after, proven
from headtune.surgery.refusals import check_no_optimizer, check_workable
from headtune.surgery.slicing import drop_outputs
from headtune.surgery.wiring import Wiring

Pool = tuple[tuple[int, ...], ...]
"""The features of each head that becomes the same one, in the same order in every head."""


def merge_kv(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, copy: bool = True) -> nn.Module:
    """A copy of *model* whose query heads share key/value heads, each the mean of the heads that became it.

    Grouped-query attention made from multi-head attention by mean pooling (GQA, Ainslie et al. 2023): neighbours are
    joined, biases too. The result is compared with the model in which every head has its group's mean.

    Args:
        model: left as it is, unless *copy* is false.
        plan: the counts of every site; heads and head_dim as they are, key/value heads a divisor of what they are.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        PlanError: the plan asks for more than merging (every problem).
        SurgeryError: a block cannot share heads (every reason), or the result computes something else; or *copy* is
            false and an optimizer holds the weights.
    """
    check_workable(model)
    if not copy:
        check_no_optimizer(model)
    return merged(model, plan, inputs, copy=copy)


def merged(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, copy: bool) -> nn.Module:
    """What :func:`merge_kv` returns, whoever holds the weights."""
    check_inputs(inputs)
    sites = Original(model, inputs).sites
    problems = [*plan_problems(plan, sites, "head_dim"), *_plan_problems(plan, sites)]
    if problems:
        raise PlanError(*problems)
    changed = [site for site in sites if plan[site.path] != site.present]
    found = followed(model, inputs, changed)
    merges = [Merge.of(site, found[site.path], plan[site.path]) for site in changed]

    def expand(opened: nn.Module) -> None:
        for merge in merges:
            merge.expand(opened)

    def share(opened: nn.Module) -> None:
        for merge in merges:
            merge.make(opened)

    expected = outputs_after(model, inputs, changed, expand)
    try:
        return proven(model, plan, inputs, changed, edit=share, expected=expected, copy=copy)
    except Unproven as failed:
        suspects = [merge for merge in merges if failed.blamed or merge.fused]
        reasons = [reason for merge in suspects if (reason := merge.why_not(model)) is not None]
        if not reasons:
            raise
        raise SurgeryError(*reasons) from failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What one site shares.

    Attributes:
        wanted: its counts afterwards.
        pools: weight → one pool for each head that remains.
        fused: name of a weight that makes queries as well; None where keys and values have their own.
    """

    site: AttentionSite
    wanted: HeadCount
    pools: Mapping[str, tuple[Pool, ...]]
    fused: str | None

    @classmethod
    def of(cls, site: AttentionSite, wiring: Wiring, wanted: HeadCount) -> "Merge":
        """The merge of neighbouring key/value heads, by the rows that make them."""
        size = wanted.num_heads // wanted.num_kv_heads
        pools: dict[str, list[Pool]] = {}
        for side in (wiring.k, wiring.v):
            for first in range(0, wanted.num_heads, size):
                members = side[first : first + size]
                for name in dict.fromkeys(name for features in members for name in features):
                    heads = dict.fromkeys(tuple(sorted(features[name])) for features in members)
                    pools.setdefault(name, []).append(tuple(heads))
        fused = next((name for features in wiring.q for name in features if name in pools), None)
        return cls(site=site, wanted=wanted, pools={name: tuple(found) for name, found in pools.items()}, fused=fused)

    def why_not(self, model: nn.Module) -> str | None:
        """What may keep the block from sharing, as a sentence; None where nothing is known."""
        reason = adapter_for(model.get_submodule(self.site.path)).why_not_rehead(model, self.site, self.wanted)
        if reason is None and self.fused is not None:
            name = self.fused.removeprefix(f"{self.site.path}.")
            reason = (
                f"{name} makes queries, keys and values head by head, and forward cuts it so; give keys and values "
                "projections of their own, or keep their heads"
            )
        return None if reason is None else f"{self.site.path or 'the model'}: {reason}"

    def expand(self, model: nn.Module) -> None:
        """Give every head of a group the group's mean: what merging computes, without sharing."""
        for name, pools in self.pools.items():
            module = owner(model, name)[1]
            for parameter, dim in made_by_features(module):
                module.register_parameter(parameter, _pooled(module.get_parameter(parameter), dim, pools))

    def make(self, model: nn.Module) -> None:
        """Keep one head of each group, its mean."""
        self.expand(model)
        for name, pools in self.pools.items():
            left_over = frozenset(index for pool in pools for head in pool[1:] for index in head)
            drop_outputs(owner(model, name)[1], left_over)
        adapter_for(model.get_submodule(self.site.path)).rehead(model, self.site, self.wanted)


def _plan_problems(plan: HeadPlan, sites: Sequence[AttentionSite]) -> list[str]:
    """What keeps counts that are legal from being those of a merge."""
    problems = []
    for site in sites:
        wanted = plan[site.path] if site.path in plan.paths else site.present
        if (wanted.num_heads, wanted.head_dim) != (site.num_heads, site.head_dim):
            problems.append(
                f"{site.path}: merging keeps heads and head_dim, here {site.present}; the plan has {wanted}"
            )
        elif min(wanted) > 0 == wanted.num_heads % wanted.num_kv_heads and site.num_kv_heads % wanted.num_kv_heads:
            problems.append(
                f"{site.path}: {site.num_kv_heads} key/value heads do not merge into {wanted.num_kv_heads} equal groups"
            )
    return problems


def _pooled(old: nn.Parameter, dim: int, pools: Sequence[Pool]) -> nn.Parameter:
    new = old.detach().clone()
    for pool in pools:
        places = [torch.tensor(head, device=old.device) for head in pool]
        mean = torch.stack([old.detach().index_select(dim, place).double() for place in places]).mean(0)
        for place in places:
            new.index_copy_(dim, place, mean.to(old.dtype))
    return nn.Parameter(new, old.requires_grad)
