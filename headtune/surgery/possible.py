"""Which changes the blocks of a model allow, found by trying them."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.legal import divisors, nearest
from headtune.heads.plan import HeadPlan
from headtune.heads.site import AttentionSite
from headtune.surgery.changes import Change, changes
from headtune.surgery.inputs import Inputs
from headtune.surgery.original import Original
from headtune.surgery.perform import perform
from headtune.surgery.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePossibility:
    """What can be done to one site.

    Attributes:
        site: the site.
        rehead: why its count cannot change under ``hold: width``; None when it can.
        resize: why its count cannot change under ``hold: head_dim``; None when it can.
    """

    site: AttentionSite
    rehead: str | None
    resize: str | None


def possibilities(model: nn.Module, inputs: Inputs) -> tuple[SitePossibility, ...]:
    """Try one other count at every site, under both holds, and watch the model run each time.

    All sites are tried together, and one by one only where that fails: three forward passes for most models. Every try
    is undone, so that no second model is held in memory.

    Args:
        model: left as it is.
        inputs: positional arguments of ``forward`` as a tuple, or keyword arguments as a dict.

    Raises:
        SurgeryError: as :func:`find_sites` does.
    """
    original = Original(model, inputs)
    trial = _Trial(original)
    rehead = trial.reasons({site.path: count for site in original.sites if (count := other_width_count(site))})
    resize = trial.reasons({site.path: _other_head_dim_count(site) for site in original.sites})
    return tuple(
        SitePossibility(
            site=site,
            rehead=rehead.get(site.path, f"{site.path or 'the model'}: no other count divides its width {site.width}"),
            resize=resize[site.path],
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


def _other_head_dim_count(site: AttentionSite) -> HeadCount:
    """One group fewer under ``hold: head_dim``; one more where there is only one."""
    kv_heads = site.num_kv_heads - 1 or 2
    return HeadCount(kv_heads * site.group_size, kv_heads, site.head_dim)
