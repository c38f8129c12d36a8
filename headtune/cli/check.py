"""``headtune check``."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import RenderableType

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import show, show_json, table
from headtune.cli.wording import count, together

if TYPE_CHECKING:
    from headtune.heads import Limit
    from headtune.study import Checked
    from headtune.surgery import SitePossibility

_CHANGES = ("re-head", "resize", "prune", "merge kv")
"""Other counts under hold: width and under hold: head_dim, fewer trained heads, fewer key/value heads."""

_REPEATED = "repeated"
_WHY_REPEATED = (
    f"Merge kv, {_REPEATED}: forward has no word for shared key/value heads, so a projection makes each once and "
    "repeats it; weights shrink, but neither attention nor a cache of keys and values."
)


def check(study: StudyPath, overrides: Overrides = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Make sure that a study can run: its file, its task, its model; and show the attention sites as they are.

    Example: headtune check study.yaml
    """
    with guard(verbose):
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        from headtune.cli.observers import watching
        from headtune.study import check as check_study
        from headtune.study.preparing import protocol_of

        protocol_of(spec)  # refuses a device that is not there
        with watching() as observer:
            checked = check_study(spec, observer)
        if as_json:
            show_json(_document(checked))
        else:
            show(*_page(checked, spec.limits))


def _page(checked: "Checked", limits: Sequence["Limit"]) -> list[RenderableType]:
    sites = table("site", "role", *_CHANGES, "width", "heads", "kv_heads", "head_dim", numbers=4)
    for site, possible in zip(checked.sites, checked.possibilities, strict=True):
        counts = (site.embed_dim, site.num_heads, site.num_kv_heads, site.head_dim)
        sites.add_row(site.path, site.role, *_answers(possible), *map(str, counts))
    refused = zip(_CHANGES, zip(*map(_refusals, checked.possibilities), strict=True), strict=True)
    return [
        sites,
        "",
        *([_WHY_REPEATED] if any(possible.merge_repeats for possible in checked.possibilities) else []),
        *(f"No {change}: {reason}" for change, reasons in refused for reason in together(filter(None, reasons))),
        f"{count(len(checked.sites), 'attention site')}, {count(checked.parameters, 'parameter')}, "
        f"{count(checked.space.size, 'legal plan')}.",
        *(f"Optional: {sentence}." for sentence in checked.locked),
        *([f"Not tested here, since it takes measuring: {', '.join(map(str, limits))}."] if limits else []),
        "This study can run.",
    ]


def _refusals(possible: "SitePossibility") -> tuple[str | None, ...]:
    """Why each of the changes cannot be made; None where it can."""
    return possible.rehead, possible.resize, possible.prune, possible.merge


def _answers(possible: "SitePossibility") -> list[str]:
    *answers, merge = ("yes" if refusal is None else "no" for refusal in _refusals(possible))
    return [*answers, _REPEATED if possible.merge_repeats else merge]


def _document(checked: "Checked") -> dict[str, object]:
    possibilities = zip(checked.sites, checked.possibilities, strict=True)
    return {
        "sites": [
            {
                **asdict(site),
                "refused": dict(zip(_CHANGES, _refusals(possible), strict=True)),
                "merge_repeats": possible.merge_repeats,
            }
            for site, possible in possibilities
        ],
        "parameters": checked.parameters,
        "plans": checked.space.size,
        "locked": list(checked.locked),
    }
