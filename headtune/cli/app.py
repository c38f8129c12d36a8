"""``headtune``: the verbs, put together."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from headtune.cli.check import check
from headtune.cli.dashboard import dashboard
from headtune.cli.export import export
from headtune.cli.front import front
from headtune.cli.init import init
from headtune.cli.measure import measure
from headtune.cli.prune import prune
from headtune.cli.report import report
from headtune.cli.search import search
from headtune.cli.space import space
from headtune.cli.streams import lost_results, open_streams
from headtune.cli.suggest import suggest
from headtune.cli.terminal import say

app = typer.Typer(
    name="headtune",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _verb in (init, suggest, check, space, measure, search, front, prune, export, report, dashboard):
    app.command()(_verb)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        print(f"headtune {installed_version('headtune')}")
    except PackageNotFoundError:
        print("headtune, run from its source")
    raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """How many attention heads should each layer of your Transformer have?

    Measured on your model, your data, your device. Begin with: headtune init my-study
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; those of the process if ``None``.

    Returns:
        The exit code: 0 done, 1 a trial or a measurement failed, 2 the input is wrong or the results could not be
        written, 3 nothing is feasible, 130 interrupted, 141 the reader of the results left before their end.
    """
    results = open_streams()
    code = _call(argv)
    if code != 0 or results is None:
        return code
    code, problem = lost_results(results)
    if problem:
        say(problem, mark="error")
    return code


def _call(argv: Sequence[str] | None) -> int:
    try:
        app(args=None if argv is None else list(argv), prog_name="headtune")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
