"""What follows from the kernels that ran and from the head dimensions they were given, in plain words."""

from collections.abc import Iterator, Mapping, Sequence

from headtune.heads import HeadPlan
from headtune.heads.site import stack_path
from headtune.timing.traits import VECTOR, WRITTEN_OUT
from headtune.trial.profiling import Kernels

_MOST_NAMED = 3


def kernel_findings(kernels: Mapping[str, Kernels]) -> Iterator[str]:
    """Which kernels computed attention, and where plans differ in them.

    Args:
        kernels: plan name → path → kernels.
    """
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for stack, by_plan in _by_stack(kernels).items():
        alike.setdefault(tuple(by_plan.items()), []).append(stack)
    told = [_told(dict(by_plan), stacks, len(alike) == 1) for by_plan, stacks in alike.items()]
    differ = any(len({kernel for _, kernel in by_plan}) > 1 for by_plan in alike)
    yield f"attention kernel: {'; '.join(told)}" + (
        "; where plans differ in it, their latencies differ by more than heads" if differ else ""
    )
    if any(WRITTEN_OUT in names for sites in kernels.values() for names in sites.values()):
        yield (
            "attention that is written out stores a score for each head and pair of positions: "
            "F.scaled_dot_product_attention computes the same in one kernel, where more heads cost less"
        )


def alignment_findings(
    plans: Mapping[str, HeadPlan], unaligned: Mapping[str, Mapping[str, int]], device: str
) -> Iterator[str]:
    """Which head dimensions do not fit the device, where, and what comes of it.

    Args:
        plans: by name.
        unaligned: plan name → path → what its head dimension is no multiple of.
        device: the concrete one.
    """
    plans_of: dict[tuple[int, int, tuple[str, ...]], list[str]] = {}
    for name, sites in unaligned.items():
        stacks_of: dict[tuple[int, int], dict[str, None]] = {}
        for path, multiple in sites.items():
            stacks_of.setdefault((plans[name][path].head_dim, multiple), {})[stack_path(path)] = None
        for (head_dim, multiple), stacks in stacks_of.items():
            plans_of.setdefault((head_dim, multiple, tuple(stacks)), []).append(name)
    for (head_dim, multiple, where), names in plans_of.items():
        waste = _waste(multiple, on_cpu=device == "cpu")
        yield f"head_dim {head_dim} at {few(where)} ({few(names)}) is no multiple of {multiple}: {waste}"


def few(names: Sequence[str]) -> str:
    """The names, or the first ones of many."""
    named = [name or "(model)" for name in names]
    if len(named) <= _MOST_NAMED + 1:
        return ", ".join(named)
    return f"{', '.join(named[:_MOST_NAMED])} and {len(named) - _MOST_NAMED} more"


def _by_stack(kernels: Mapping[str, Kernels]) -> dict[str, dict[str, str]]:
    """Stack → plan name → the kernels of its sites, in words."""
    seen: dict[str, dict[str, dict[str, None]]] = {}
    for plan, sites in kernels.items():
        for path, names in sites.items():
            here = seen.setdefault(stack_path(path), {}).setdefault(plan, {})
            here |= dict.fromkeys(names or ("none that is known",))
    return {stack: {plan: " and ".join(names) for plan, names in plans.items()} for stack, plans in seen.items()}


def _told(by_plan: Mapping[str, str], stacks: Sequence[str], everywhere: bool) -> str:
    plans_of: dict[str, list[str]] = {}
    for plan, kernel in by_plan.items():
        plans_of.setdefault(kernel, []).append(plan)
    if len(plans_of) == 1:
        told = next(iter(plans_of))
    else:
        told = ", ".join(f"{kernel} ({few(plans)})" for kernel, plans in plans_of.items())
    return f"{told} at every site" if everywhere else f"{told} at {few(stacks)}"


def _waste(multiple: int, *, on_cpu: bool) -> str:
    if on_cpu:
        return "vector units, which take that many features at a time, are left part empty"
    return "kernels pad it, or a slower one runs" if multiple == VECTOR else "tiles of tensor cores are left part empty"
