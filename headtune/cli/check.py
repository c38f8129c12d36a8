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
    sites = table("site", "role", "hold: width", "hold: head_dim", "width", "heads", "kv_heads", "head_dim", numbers=4)
    for site, possible in zip(checked.sites, checked.possibilities, strict=True):
        counts = (site.embed_dim, site.num_heads, site.num_kv_heads, site.head_dim)
        sites.add_row(site.path, site.role, *map(_yes_or_no, (possible.rehead, possible.resize)), *map(str, counts))
    width = [possible.rehead for possible in checked.possibilities if possible.rehead is not None]
    head_dim = [possible.resize for possible in checked.possibilities if possible.resize is not None]
    return [
        sites,
        "",
        *(f"Not under hold: width: {reason}" for reason in together(width)),
        *(f"Not under hold: head_dim: {reason}" for reason in together(head_dim)),
        f"{count(len(checked.sites), 'attention site')}, {count(checked.parameters, 'parameter')}, "
        f"{count(checked.space.size, 'legal plan')}.",
        *(f"Optional: {sentence}." for sentence in checked.locked),
        *([f"Not tested here, since it takes measuring: {', '.join(map(str, limits))}."] if limits else []),
        "This study can run.",
    ]


def _yes_or_no(refusal: str | None) -> str:
    return "yes" if refusal is None else "no"


def _document(checked: "Checked") -> dict[str, object]:
    possibilities = zip(checked.sites, checked.possibilities, strict=True)
    return {
        "sites": [
            {**asdict(site), "not_under_hold_width": possible.rehead, "not_under_hold_head_dim": possible.resize}
            for site, possible in possibilities
        ],
        "parameters": checked.parameters,
        "plans": checked.space.size,
        "locked": list(checked.locked),
    }
