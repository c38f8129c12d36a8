"""Which changes the blocks of a model allow, found by trying them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from headtune.errors import HeadtuneError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, nearest
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.nn import SharedLinear
from headtune.surgery.changes import Change, changes
from headtune.surgery.inputs import Inputs, check_inputs
from headtune.surgery.merging import merged
from headtune.surgery.original import Original
from headtune.surgery.perform import perform
from headtune.surgery.pruning import pruned
from headtune.surgery.refusals import check_workable
from headtune.surgery.snapshot import Snapshot

Removal = Callable[[Original, Sequence[AttentionSite]], None]
"""Takes heads of some sites out of the trained weights of the model, or raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePossibility:
    """What can be done to one site.

    Attributes:
        site: the site.
        rehead: why its count cannot change under ``hold: width``; None when it can.
        resize: why its count cannot change under ``hold: head_dim``; None when it can.
        prune: why no head can be taken out of its trained weights; None when one can.
        merge: why its key/value heads cannot become fewer; None when they can.
        merge_repeats: they can, but forward has no word for it: its projection makes each shared one once and repeats
            it (:class:`headtune.nn.SharedLinear`), which saves weights and no time in attention.
    """

    site: AttentionSite
    rehead: str | None
    resize: str | None
    prune: str | None
    merge: str | None
    merge_repeats: bool = False


def possibilities(model: nn.Module, inputs: Inputs) -> tuple[SitePossibility, ...]:
    """Try one other count at every site, under both holds, then one head or group fewer and half the key/value heads.

    The model is watched each time. All sites are tried together, and by stack and one by one only where that fails: a
    dozen forward passes for most models, two of them with gradients. Every try is undone, so that no second model is
    held in memory.

    Args:
        model: left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.

    Raises:
        SurgeryError: as :func:`find_sites` does.
    """
    check_workable(model)
    check_inputs(inputs)
    original = Original(model, inputs)
    trial = _Trial(original)
    rehead = trial.reasons({site.path: count for site in original.sites if (count := other_width_count(site))})
    resize = trial.reasons({site.path: _other_head_dim_count(site) for site in original.sites})
    without = trial.removals(_prune, [site for site in original.sites if site.num_heads > 1])
    repeating: set[str] = set()

    def share(model: Original, sites: Sequence[AttentionSite]) -> None:
        repeating.update(_merge(model, sites))

    sharing = trial.removals(share, [site for site in original.sites if site.num_kv_heads > 1])
    return tuple(
        SitePossibility(
            site=site,
            rehead=rehead.get(site.path, f"{_place(site)}: no other count divides its width {site.width}"),
            resize=resize[site.path],
            prune=without.get(site.path, f"{_place(site)}: its one head stays"),
            merge=sharing.get(site.path, f"{_place(site)}: its one key/value head is shared by all already"),
            merge_repeats=site.path in repeating,
        )
        for site in original.sites
    )


class _Trial:
    """Tries changes on a model, and puts it back after each."""

    def __init__(self, original: Original) -> None:
        self._original = original
        self._snapshot = Snapshot.of(original.model)

    def reasons(self, wanted: dict[str, HeadCount]) -> dict[str, str | None]:
        """For each wanted count, why its site cannot have it, or None."""
        made = changes(self._original, self._plan(wanted), self._original.sites)
        found = {change.site.path: change.why_not(self._original.model) for change in made}
        allowed = [change for change in made if found[change.site.path] is None]
        if allowed and self._try(allowed) is not None:
            found |= {change.site.path: self._try([change]) for change in allowed}
        return found

    def removals(self, remove: Removal, sites: Sequence[AttentionSite]) -> dict[str, str | None]:
        """For each site, why *remove* cannot be done to it, or None."""
        if not sites or self._refusal(remove, sites) is None:
            return dict.fromkeys((site.path for site in sites), None)
        found: dict[str, str | None] = {}
        for stack in dict.fromkeys(site.stack for site in sites):  # whose blocks may have to change alike
            alike = [site for site in sites if site.stack == stack]
            whole = self._refusal(remove, alike)
            refused = whole is not None and len(alike) > 1
            found |= {site.path: self._refusal(remove, [site]) if refused else whole for site in alike}
        return {site.path: found[site.path] for site in sites}

    def _refusal(self, remove: Removal, sites: Sequence[AttentionSite]) -> str | None:
        try:
            remove(self._original, sites)
        except HeadtuneError as error:
            return error.problems[0]
        finally:
            self._snapshot.restore()
        return None

    def _try(self, made: Sequence[Change]) -> str | None:
        plan = self._plan({change.site.path: change.wanted for change in made})
        try:
            perform(self._original.model, plan, made, self._original, seed=0)
        except SurgeryError as error:
            return str(error)
        finally:
            self._snapshot.restore()
        return None

    def _plan(self, wanted: dict[str, HeadCount]) -> HeadPlan:
        return HeadPlan.of({site.path: wanted.get(site.path, site.present) for site in self._original.sites})


def other_width_count(site: AttentionSite) -> HeadCount | None:
    """The nearest other count under ``hold: width`` with the present group size; None where there is none."""
    counts = [heads for heads in divisors(site.width) if heads % site.group_size == 0 and heads != site.num_heads]
    if not counts:
        return None
    heads = nearest(counts, site.num_heads)
    return HeadCount(heads, heads // site.group_size, site.width // heads)


def most_heads(site: AttentionSite) -> range:
    """All heads but a whole group, or but one where there is only one group."""
    return range(site.group_size if site.num_kv_heads > 1 else 1, site.num_heads)


def fewer_kv_heads(site: AttentionSite) -> HeadCount:
    """The most key/value heads below the present ones that these merge into; the present count of a single one."""
    fewer = [count for count in divisors(site.num_kv_heads) if count < site.num_kv_heads]
    return HeadCount(site.num_heads, max(fewer, default=site.num_kv_heads), site.head_dim)


def _prune(original: Original, sites: Sequence[AttentionSite]) -> None:
    fewer = {site.path: most_heads(site) for site in sites}
    pruned(original.model, fewer, original.inputs, copy=_is_block(sites))


def _merge(original: Original, sites: Sequence[AttentionSite]) -> list[str]:
    """Paths of the sites whose projections repeat now what they share."""
    counts = {site.path: site.present for site in original.sites} | {site.path: fewer_kv_heads(site) for site in sites}
    shared = merged(original.model, HeadPlan.of(counts), original.inputs, copy=_is_block(sites))
    blocks = {site.path: shared.get_submodule(site.path) for site in sites}
    return [path for path, block in blocks.items() if any(isinstance(part, SharedLinear) for part in block.modules())]


def _is_block(sites: Sequence[AttentionSite]) -> bool:
    """Whether the model is itself an attention block, which cannot change its size in place."""
    return any(not site.path for site in sites)


def _place(site: AttentionSite) -> str:
    return site.path or "the model"


def _other_head_dim_count(site: AttentionSite) -> HeadCount:
    """One group fewer under ``hold: head_dim``; one more where there is only one."""
    kv_heads = site.num_kv_heads - 1 or 2
    return HeadCount(kv_heads * site.group_size, kv_heads, site.head_dim)
