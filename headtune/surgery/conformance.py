"""What surgery can do to a family of models, proven or refused: for a new adapter, or a model of your own."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from headtune.errors import HeadtuneError
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, nearest
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.checkpoint import load, save
from headtune.surgery.find import find_sites
from headtune.surgery.gates import gated
from headtune.surgery.inferred_hold import apply
from headtune.surgery.inputs import Inputs
from headtune.surgery.merging import merge_kv
from headtune.surgery.outputs import difference, outputs
from headtune.surgery.pruning import prune
from headtune.surgery.wiring import wirings


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A family of models, by one small member.

    Attributes:
        name: of the family.
        build: returns the member, with the same weights each time.
        inputs: what its forward takes.
        rebuild: returns the member as its author would build it with the counts of a plan that keeps every width. The
            re-headed model is compared with it; None where only its counts can be proven.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    rebuild: Callable[[HeadPlan], nn.Module] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one operation came to.

    Attributes:
        proven: whether it was done, and its result is what it must be; else it was refused.
        words: what was proven, or the reason of the refusal.
    """

    proven: bool
    words: str


def conformance(case: Case, folder: Path) -> dict[str, Finding]:
    """Try every operation on the case's model, and compare each result with what it must be.

    Args:
        case: the family.
        folder: where a model may be written.

    Returns:
        ``found``, ``re-head``, ``resize``, ``prune``, ``merge`` and ``save`` → what each came to; ``found`` alone where
        the model's attention cannot be seen.

    Raises:
        AssertionError: an operation was done and its result is wrong, the one thing that must never happen.
    """
    model = case.build().eval()
    found = _tried(lambda: _in_words(find_sites(model, case.inputs)))
    if not found.proven:
        return {"found": found}
    sites = find_sites(model, case.inputs)
    return {
        "found": found,
        "re-head": _tried(lambda: _rehead(case, model, sites)),
        "resize": _tried(lambda: _resize(case, model, sites)),
        "prune": _tried(lambda: _prune(case, model, sites)),
        "merge": _tried(lambda: _merge(case, model, sites)),
        "save": _tried(lambda: _save(case, model, sites, folder)),
    }


def _tried(operation: Callable[[], str]) -> Finding:
    try:
        return Finding(proven=True, words=operation())
    except HeadtuneError as error:
        return Finding(proven=False, words=error.problems[0])


def _rehead(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    plan = HeadPlan.of({site.path: _other_count(site) for site in sites})
    reheaded = apply(model, plan, case.inputs)
    _expect_counts(reheaded, plan, case.inputs)
    if case.rebuild is None:
        return f"computes {_of(plan)}"
    truth = case.rebuild(plan).eval()
    truth.load_state_dict(model.state_dict())
    equal = _bitwise(reheaded, truth, case.inputs)
    assert equal or difference(outputs(reheaded, case.inputs), outputs(truth, case.inputs)) is None
    return f"computes {_of(plan)}, {'bitwise' if equal else 'but for rounding'} as if built so"


def _resize(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    plan = HeadPlan.of({site.path: _groups(site, site.num_kv_heads + 1) for site in sites})
    resized = apply(model, plan, case.inputs)
    _expect_counts(resized, plan, case.inputs)
    grown = sum(one.numel() for one in resized.parameters()) - sum(one.numel() for one in model.parameters())
    assert grown > 0, "more heads of the same size are more parameters"
    return f"computes {_of(plan)} with {grown:,} parameters more"


def _prune(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    """In float64, against gates of zero on the whole model: no code in common with how heads are cut out."""
    precise, inputs = copy.deepcopy(model).double(), _double(case.inputs)
    kept = {site.path: range(_few(site), site.num_heads) for site in sites}
    pruned = prune(precise, kept, inputs)
    gates = {site.path: torch.ones(site.num_heads, dtype=torch.float64) for site in sites}
    for site in sites:
        gates[site.path][: _few(site)] = 0
    with gated(precise, wirings(precise, inputs), gates):
        silenced = outputs(precise, inputs)
    assert difference(outputs(pruned, inputs), silenced) is None
    counts = find_sites(pruned, inputs)
    assert [site.num_heads for site in counts] == [len(kept[site.path]) for site in sites]
    return f"{_in_words(counts)} left, equal to the gated model in float64"


def _merge(case: Case, model: nn.Module, sites: Sequence[AttentionSite]) -> str:
    if all(site.num_kv_heads == 1 for site in sites):
        return "nothing to merge: one key/value head"
    plan = HeadPlan.of({site.path: _merged(site) for site in sites})
    merged = merge_kv(model, plan, case.inputs)
    _expect_counts(merged, plan, case.inputs)
    return f"computes {_of(plan)}, equal to the model with each group's mean in every head"


def _save(case: Case, model: nn.Module, sites: Sequence[AttentionSite], folder: Path) -> str:
    """The most changed model that there is: pruned, else re-headed, else as it was."""
    kept = {site.path: range(_few(site), site.num_heads) for site in sites}
    other = HeadPlan.of({site.path: _other_count(site) for site in sites})
    ways: dict[str, Callable[[], nn.Module]] = {
        "pruned": lambda: prune(model, kept, case.inputs),
        "re-headed": lambda: apply(model, other, case.inputs),
    }
    changed, word = model, "unchanged"
    for word, way in ways.items():
        if _tried(lambda way=way: str(bool(way()))).proven:  # type: ignore[misc]
            changed = way()
            break
    save(changed, folder)
    loaded = load(folder, type(model) if hasattr(model, "save_pretrained") else case.build)
    assert _bitwise(loaded.eval(), changed.eval(), case.inputs)
    return f"{word}, loaded bitwise"


def _expect_counts(model: nn.Module, plan: HeadPlan, inputs: Inputs) -> None:
    computed = {site.path: site.present for site in find_sites(model, inputs)}
    assert computed == dict(plan), f"{computed} instead of {plan}"


def _bitwise(one: nn.Module, other: nn.Module, inputs: Inputs) -> bool:
    left, right = outputs(one, inputs).returned, outputs(other, inputs).returned
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    assert pairs, "the models return nothing that can be compared"
    return all(torch.equal(a, b) for a, b in pairs)


def _other_count(site: AttentionSite) -> HeadCount:
    """The nearest smaller count that keeps the width and the group size; larger where there is none."""
    legal = [heads for heads in divisors(site.width) if heads % site.group_size == 0 and heads != site.num_heads]
    smaller = [heads for heads in legal if heads < site.num_heads]
    heads = nearest(smaller or legal, site.num_heads)
    return HeadCount(heads, heads // site.group_size, site.width // heads)


def _groups(site: AttentionSite, kv_heads: int) -> HeadCount:
    return HeadCount(kv_heads * site.group_size, kv_heads, site.head_dim)


def _few(site: AttentionSite) -> int:
    """How many heads go: a whole group, or one where there is only one group."""
    return site.group_size if site.num_kv_heads > 1 else 1


def _merged(site: AttentionSite) -> HeadCount:
    kv_heads = max(count for count in divisors(site.num_kv_heads) if count < max(site.num_kv_heads, 2))
    return HeadCount(site.num_heads, kv_heads, site.head_dim)


def _double(inputs: Inputs) -> Inputs:
    def precise(value: object) -> object:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    if isinstance(inputs, Mapping):
        return {name: precise(value) for name, value in inputs.items()}
    return tuple(map(precise, inputs))


def _in_words(sites: Sequence[AttentionSite]) -> str:
    return _counts([(site.role, site.present) for site in sites])


def _of(plan: HeadPlan) -> str:
    return ", ".join(dict.fromkeys(str(count) for _, count in plan))


def _counts(found: Sequence[tuple[str, HeadCount]]) -> str:
    kinds = dict.fromkeys(found)
    return ", ".join(f"{found.count((role, count))} {role} of {count}" for role, count in kinds)
