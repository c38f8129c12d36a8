"""``headtune measure``."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import show, show_json

if TYPE_CHECKING:
    from headtune.errors import InputError
    from headtune.heads import HeadPlan, SpaceOptions
    from headtune.study import Change, Checked, Profile
    from headtune.study.against import Latencies


def measure(
    study: StudyPath,
    plans: Annotated[
        list[str] | None,
        typer.Option(
            "--plan",
            metavar="COUNTS",
            help=r"A plan to time: present, rule, smallest, largest, or heads\[/kv_heads]\[xhead_dim] by path; "
            "the last match wins: '*=8/2 encoder.*=4'. Repeat it for more. Without it: these four, and what else moves "
            "latency.",
            show_default=False,
        ),
    ] = None,
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare with what --json wrote earlier, plan by plan.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Time plans against the present one, as the search would, without training.

    Without --plan it also tells what a head costs at each site, the share of attention, what bounds the pass, and more.
    Example: headtune measure study.yaml --plan "*=2" --plan "*=8"
    """
    with guard(verbose):
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        from headtune.cli.measure_document import profile_document
        from headtune.cli.measure_page import profile_page
        from headtune.cli.observers import watching
        from headtune.study import check, check_known, measuring_executor, profile, read_latencies

        before = None if earlier is None else read_latencies(earlier)
        with watching() as observer:
            checked = check(spec, observer)
            chosen = {text: _plan(text, checked, spec.space) for text in plans or ()}
            if before is not None:
                check_known(before, checked.sites, spec.latency.lengths)
            with closing(measuring_executor(spec, observer)) as executor:
                found = profile(
                    spec, checked, executor, observer, plans=chosen or None, latency=True, details=not chosen
                )
        since, unlike = ((), None) if before is None else _changes(found, before)
        if as_json:
            show_json(profile_document(found, since))
        else:
            show(*profile_page(found, spec.limits, since))
        if unlike is not None:
            raise unlike


def _plan(text: str, checked: "Checked", space: "SpaceOptions") -> "HeadPlan":
    """A baseline by its name, or the plan that is written down."""
    from headtune.heads import HeadPlan

    named = checked.baselines.get(text)
    return named or HeadPlan.parse(text, checked.sites, hold=space.hold, maximum=space.maximum)


def _changes(found: "Profile", before: "Latencies") -> tuple[tuple["Change", ...], "InputError | None"]:
    """What became of the plans, and why they cannot be compared: what was measured is shown all the same."""
    from headtune.errors import InputError
    from headtune.study import changes

    try:
        return changes(found, before), None
    except InputError as error:
        return (), error
