"""What each operation must come to: every function does one and returns what it proved, in words.

A wrong result is an :class:`AssertionError`; a refusal passes through as the error that it is.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from headtune.errors import HeadtuneError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.nn import SharedLinear
from headtune.surgery.checkpoint import load, save
from headtune.surgery.conforming.case import Case
from headtune.surgery.conforming.comparing import bitwise, expect_counts, how_kept
from headtune.surgery.conforming.wording import counts_in_words, sites_in_words
from headtune.surgery.find import find_sites
from headtune.surgery.gates import gated
from headtune.surgery.inferred_hold import apply
from headtune.surgery.inputs import Inputs
from headtune.surgery.merging import merge_kv
from headtune.surgery.outputs import difference, outputs
from headtune.surgery.possible import fewer_kv_heads, most_heads, other_width_count
from headtune.surgery.pruning import prune
from headtune.surgery.saving.pretrained import is_pretrained
from headtune.surgery.wiring import wirings


def rehead(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    """Another count of the same width: the model that its author builds with that count."""
    plan = HeadPlan.of({site.path: _other_count(site) for site in sites})
    reheaded = apply(model, plan, case.inputs)
    expect_counts(reheaded, plan, case.inputs)
    kept = how_kept(model, reheaded, case.inputs)
    if case.rebuild is None:
        return f"computes {counts_in_words(plan)}, {kept}"
    truth = case.rebuild(plan).eval()
    truth.load_state_dict(reheaded.state_dict())
    equal = bitwise(reheaded, truth, case.inputs)
    apart = difference(outputs(reheaded, case.inputs), outputs(truth, case.inputs))
    assert equal or apart is None, f"{case.name} re-headed to {plan}: {apart}"
    return f"computes {counts_in_words(plan)}, {'bitwise' if equal else 'but for rounding'} as if built so, {kept}"


def resize(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    """One more head, or group of heads, of the same size: wider projections."""
    plan = HeadPlan.of({site.path: _one_group_more(site) for site in sites})
    resized = apply(model, plan, case.inputs)
    expect_counts(resized, plan, case.inputs)
    grown = sum(one.numel() for one in resized.parameters()) - sum(one.numel() for one in model.parameters())
    assert grown > 0, f"{case.name}: {plan} is more heads of the same size, but {grown:,} parameters more"
    return f"computes {counts_in_words(plan)} with {grown:,} parameters more"


def prune_heads(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    """Fewer heads, in float64, against gates of zero on the whole model: no code in common with the cut."""
    precise, inputs = copy.deepcopy(model).double(), case.precise_inputs
    pruned = prune(precise, _kept(sites), inputs)
    gates = {site.path: torch.zeros(site.num_heads, dtype=torch.float64) for site in sites}
    for path, kept in _kept(sites).items():
        gates[path][list(kept)] = 1
    with gated(precise, wirings(precise, inputs), gates):
        silenced = outputs(precise, inputs)
    apart = difference(outputs(pruned, inputs), silenced)
    assert apart is None, f"{case.name} pruned: {apart}"
    left = find_sites(pruned, inputs)
    assert [site.num_heads for site in left] == [len(kept) for kept in _kept(sites).values()]
    return f"{sites_in_words(left)} left, equal to the gated model in float64"


def merge(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    """Fewer key/value heads; :func:`merge_kv` itself compares them with the expanded model."""
    plan = _shared(sites)
    if all(plan[site.path] == site.present for site in sites):
        return "nothing to merge: one key/value head"
    merged = _merged(model, plan, case.inputs)
    expect_counts(merged, plan, case.inputs)
    shrunk = sum(one.numel() for one in model.parameters()) - sum(one.numel() for one in merged.parameters())
    assert shrunk > 0, f"{case.name} merged to {plan}: {shrunk:,} parameters fewer"
    how = "made once and repeated, " if any(isinstance(part, SharedLinear) for part in merged.modules()) else ""
    return f"computes {counts_in_words(plan)}, {how}equal to the model with each group's mean in every head"


def save_and_load(case: Case, model: nn.Module, sites: Sequence[AttentionSite], folder: Path) -> str:
    """The pruned, the merged and the re-headed model, as far as there are such, else the model: written and read."""
    other = HeadPlan.of({site.path: other_width_count(site) or site.present for site in sites})
    changed = {
        "pruned": _made(lambda: prune(model, _kept(sites), case.inputs)),
        "merged": _made(lambda: _merged(model, _shared(sites), case.inputs)),
        "re-headed": _made(lambda: apply(model, other, case.inputs)),
    }
    made = {word: one for word, one in changed.items() if one is not None} or {"unchanged": model}
    for word, one in made.items():
        save(one, folder / word)
        loaded = load(folder / word, type(model) if is_pretrained(model) else case.build).eval()
        assert bitwise(loaded, one.eval(), case.inputs), f"{case.name}, {word}: loaded is not what was saved"
    return f"{', '.join(made)}, loaded bitwise"


def _shared(sites: Sequence[AttentionSite]) -> HeadPlan:
    return HeadPlan.of({site.path: fewer_kv_heads(site) for site in sites})


def _merged(model: nn.Module, plan: HeadPlan, inputs: Inputs) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the finding says in words
        return merge_kv(model, plan, inputs)


def _made(way: Callable[[], nn.Module]) -> nn.Module | None:
    try:
        return way()
    except HeadtuneError:
        return None


def _other_count(site: AttentionSite) -> HeadCount:
    other = other_width_count(site)
    if other is None:
        raise SurgeryError(f"{site.path}: no other count divides its width {site.width}; take a member with another")
    return other


def _one_group_more(site: AttentionSite) -> HeadCount:
    return HeadCount((site.num_kv_heads + 1) * site.group_size, site.num_kv_heads + 1, site.head_dim)


def _kept(sites: Sequence[AttentionSite]) -> dict[str, range]:
    return {site.path: most_heads(site) for site in sites}
