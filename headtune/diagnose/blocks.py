"""The attention blocks to diagnose, and their heads."""

from collections.abc import Iterable, Sequence

from torch import nn

from headtune.errors import SurgeryError
from headtune.heads import AttentionSite
from headtune.surgery import Inputs, find_sites
from headtune.surgery.wiring import Wiring, follow


def blocks(model: nn.Module, inputs: Inputs, paths: Iterable[str] | None) -> tuple[AttentionSite, ...]:
    """The attention blocks at *paths*, in the model's order; all of them if ``None``.

    Raises:
        SurgeryError: a path is that of no attention block (every one), or as :func:`find_sites` does.
    """
    sites = find_sites(model, inputs)
    if paths is None:
        return sites
    known, wanted = {site.path for site in sites}, list(paths)
    if unknown := [path for path in wanted if path not in known]:
        listed = ", ".join(site.path or "the model" for site in sites)
        raise SurgeryError(*(f"{path or 'the model'}: is no attention block; these are: {listed}" for path in unknown))
    return tuple(site for site in sites if site.path in wanted)


def wired(model: nn.Module, inputs: Inputs, sites: Sequence[AttentionSite]) -> dict[str, Wiring]:
    """The wirings of the *sites*, but for PyTorch's own blocks, whose insides do not show.

    Raises:
        SurgeryError: the heads of a site cannot be told apart (every reason).
    """
    followed = [site for site in sites if not isinstance(model.get_submodule(site.path), nn.MultiheadAttention)]
    found = follow(model, inputs) if followed else None
    problems = [
        f"{site.path or 'the model'}: {found.reasons.get(site.path, 'no attention is seen here when it runs again')}; "
        "name the other blocks in paths=… to score them without it"
        for site in followed
        if found is not None and site.path not in found.wirings
    ]
    if problems:
        raise SurgeryError(*problems)
    return {} if found is None else {site.path: found.wirings[site.path] for site in followed}
