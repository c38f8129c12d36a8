"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", help="A study file, such as study.yaml.", show_default=False)
]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key of the study file, as in --set search.trials=4; paths still start from the file's folder. "
        "May be repeated.",
        show_default=False,
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on stdout, for a pipe.")]

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show tracebacks.")]
