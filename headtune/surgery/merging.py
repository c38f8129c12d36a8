"""Sharing key/value heads between the query heads of a trained model, by the mean of those that become one."""

import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

import headtune.rules as rules
from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.nn import HeadedAttention, SharedLinear
from headtune.surgery.adapters import adapter_for
from headtune.surgery.adapters.linears import made_by_features
from headtune.surgery.adapters.ownership import owner, replace_module
from headtune.surgery.arguments import PLAN, check_arguments
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.original import Original
from headtune.surgery.plan_check import plan_problems
from headtune.surgery.proof import Unproven, followed, outputs_after, proven
from headtune.surgery.refusals import check_no_optimizer, check_workable
from headtune.surgery.repeating import Pool, repeating
from headtune.surgery.slicing import drop_outputs
from headtune.surgery.wiring import Wiring


def merge_kv(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, copy: bool = True) -> nn.Module:
    """A copy of *model* whose query heads share key/value heads, each the mean of the heads that became it.

    Grouped-query attention made from multi-head attention by mean pooling (GQA, Ainslie et al. 2023): neighbours are
    joined, biases too. The result is compared with the model in which every head has its group's mean.

    A block whose ``forward`` cannot have fewer key/value heads than heads, or not with its layout, keeps its code: its
    projection makes each shared head once and repeats it (:class:`headtune.nn.SharedLinear`), and a warning says so.
    Weights shrink then, but neither attention nor a cache of keys and values.

    Args:
        model: left as it is, unless *copy* is false.
        plan: the counts of every site; heads and head_dim as they are, key/value heads a divisor of what they are.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.
        copy: False edits *model* itself, and puts everything back if that fails.

    Returns:
        The copy, or *model* itself.

    Raises:
        PlanError: the plan asks for more than merging (every problem).
        SurgeryError: an argument is of the wrong type, the heads of a block cannot be told apart (every reason), or the
            result computes something else; or *copy* is false and an optimizer holds the weights.
    """
    check_arguments({"plan": (plan, PLAN), "copy": (copy, rules.truth)})
    check_workable(model)
    if not copy:
        check_no_optimizer(model)
    result = merged(model, plan, inputs, copy=copy)
    if repeated := sorted(path for path, module in result.named_modules() if isinstance(module, SharedLinear)):
        warnings.warn(
            f"{', '.join(repeated)}: forward knows as many key/value heads as heads, so shared ones are made once and "
            "repeated; weights shrink, but neither attention nor a cache of keys and values",
            stacklevel=2,
        )
    return result


def merged(model: nn.Module, plan: HeadPlan, inputs: Inputs, *, copy: bool) -> nn.Module:
    """What :func:`merge_kv` returns, whoever holds the weights."""
    check_inputs(inputs)
    sites = Original(model, inputs).sites
    problems = [*plan_problems(plan, sites, "head_dim"), *_plan_problems(plan, sites)]
    if problems:
        raise PlanError(*problems)
    changed = [site for site in sites if plan[site.path] != site.present]
    found = followed(model, inputs, changed, in_order=True)
    if reasons := [
        reason for site in changed if (reason := _why_not_shared(model, site, found[site.path], plan[site.path]))
    ]:
        raise SurgeryError(*reasons)
    merges = {site.path: Merge.of(site, found[site.path], plan[site.path]) for site in changed}

    def expand(opened: nn.Module) -> None:
        for merge in merges.values():
            merge.expand(opened)

    expected = outputs_after(model, inputs, changed, expand)
    repeated: frozenset[str] = frozenset()
    while True:
        share = partial(_share, merges=merges, repeated=repeated)
        try:
            return proven(model, plan, inputs, changed, edit=share, expected=expected, copy=copy)
        except Unproven as failed:
            kinds = {type(model.get_submodule(path)) for path in (failed.blamed or merges)}
            alike = {path for path in merges if type(model.get_submodule(path)) in kinds}
            if alike <= repeated:
                raise
            repeated |= alike


def _share(model: nn.Module, merges: Mapping[str, "Merge"], repeated: Set[str]) -> None:
    for path, merge in merges.items():
        if path in repeated:
            merge.repeat(model)
        else:
            merge.make(model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """What one site shares.

    Attributes:
        wanted: its counts afterwards.
        pools: weight → one pool for each head that remains.
    """

    site: AttentionSite
    wanted: HeadCount
    pools: Mapping[str, tuple[Pool, ...]]

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
        return cls(site=site, wanted=wanted, pools={name: tuple(found) for name, found in pools.items()})

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

    def repeat(self, model: nn.Module) -> None:
        """Keep one head of each group, its mean, and let the projection put it out for each head of the group."""
        self.expand(model)
        for name, pools in self.pools.items():
            linear = owner(model, name)[1]
            replace_module(model, linear, repeating(linear, pools))


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


def _why_not_shared(model: nn.Module, site: AttentionSite, wiring: Wiring, wanted: HeadCount) -> str | None:
    """Why heads have no mean that they could share, as a sentence; None where they have one."""
    place, block = site.path or "the model", model.get_submodule(site.path)
    if isinstance(block, nn.MultiheadAttention | HeadedAttention) and block.bias_k is not None:
        return f"{place}: its learned extra key and value (add_bias_kv) belong to every head; keep its key/value heads"
    size = wanted.num_heads // wanted.num_kv_heads
    for side in (wiring.k, wiring.v):
        made = [" and ".join(f"{len(features[name])} of {name}" for name in sorted(features)) for features in side]
        for first in range(0, wanted.num_heads, size):
            if len(unlike := sorted(set(made[first : first + size]))) > 1:
                return (
                    f"{place}: heads that would be one are made of other features, {' or '.join(unlike)}, which have "
                    "no mean; keep its key/value heads"
                )
    for query in wiring.q:
        for key in wiring.k:
            if name := next((name for name in query if query[name] & key.get(name, frozenset())), None):
                return f"{place}: {name} makes queries that are keys as well; keep its heads"
    return None


def _pooled(old: nn.Parameter, dim: int, pools: Sequence[Pool]) -> nn.Parameter:
    new = old.detach().clone()
    for pool in pools:
        places = [torch.tensor(head, device=old.device) for head in pool]
        mean = torch.stack([old.detach().index_select(dim, place).double() for place in places]).mean(0)
        for place in places:
            new.index_copy_(dim, place, mean.to(old.dtype))
    return nn.Parameter(new, old.requires_grad)
