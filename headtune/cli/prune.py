"""``headtune prune``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import say, show, show_json, table
from headtune.cli.wording import count, interval, objective_title, place, value
from headtune.errors import Infeasible

if TYPE_CHECKING:
    from rich.table import Table

    from headtune.pareto import Objective
    from headtune.trial.pruning_job import Pruned


def prune(
    study: StudyPath,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where the pruned model is written.", show_default=False)
    ],
    trained: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="A saved model to prune, such as models/… of a study's output. Without it: what the task's model() "
            "returns.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Prune a trained model head by head to a goal: so many heads, a latency, or a quality that may be lost.

    Example: headtune prune study.yaml small --set prune.latency_ratio=0.8 --set prune.steps=200
    """
    with guard(verbose):
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        from headtune.advise import prune_model
        from headtune.cli.observers import watching
        from headtune.report.pruning import pruning_document, write_pruning

        quality = next(goal for goal in spec.objectives if not goal.measured)
        with watching(spec.objectives) as observer:
            found = prune_model(spec, folder, observer, trained=trained)
        files = write_pruning(found, quality, folder)
        if as_json:
            show_json(pruning_document(found, quality))
        else:
            show(_curve(found, quality))
        if found.chosen is None:
            assert spec.prune.goal is not None
            raise Infeasible(f"no step gets there: asked was {spec.prune.goal.words}; {_nearest(found)}")
        say(f"wrote the model and {count(len(files), 'file')} into {place(folder)}")


def _curve(found: "Pruned", quality: "Objective") -> "Table":
    """A row for each step."""
    rows = table("", "heads", objective_title(quality), "latency, × whole", "95 % interval", "parameters", numbers=5)
    for point in found.points:
        latency = point.latency
        timed = ("–", "–") if latency is None else (value(latency.ratio), interval(latency.ratio_interval))
        name = "chosen" if point is found.chosen else "whole" if point is found.points[0] else ""
        rows.add_row(name, str(point.heads), value(point.quality[quality.metric]), *timed, f"{point.parameters:,}")
    return rows


def _nearest(found: "Pruned") -> str:
    """How near it came."""
    ratios = [point.latency.ratio for point in found.points if point.latency is not None]
    fastest = f", and the fastest took {min(ratios):.3g} × the whole model's time" if ratios else ""
    return f"{count(min(point.heads for point in found.points), 'head')} are the fewest that can be left{fastest}"
