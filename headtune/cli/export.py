"""``headtune export``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from headtune.cli.guard import guard
from headtune.cli.options import Overrides, StudyPath, Verbose
from headtune.cli.terminal import say, show
from headtune.cli.wording import place
from headtune.errors import InputError

if TYPE_CHECKING:
    from headtune.surgery.programs import ProgramFormat

_OWN = "headtune"


def export(
    study: StudyPath,
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where to write; what was exported there before goes.", show_default=False),
    ],
    plan: Annotated[
        str | None,
        typer.Option(
            "--plan",
            metavar="COUNTS",
            help=r"The plan, heads\[/kv_heads]\[xhead_dim] by path, as in '*=4'. Without it: the recommended one.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="headtune: what headtune.load reads. torch, onnx: beside that model.pt2 or model.onnx, a program that "
            "needs no Python class, run once and compared with the model.",
        ),
    ] = _OWN,
    overrides: Overrides = None,
    verbose: Verbose = False,
) -> None:
    """Write the model of the recommended plan, or of another, as the verification trained it.

    Example: headtune export study.yaml small --format torch
    """
    with guard(verbose):
        from headtune.config import load_kept_study

        spec = load_kept_study(study, overrides or ())
        from headtune.study.exporting import planned_model
        from headtune.surgery.checkpoint import save_checkpoint
        from headtune.surgery.programs import PROGRAM_FILES, write_program

        program = _program(kind)
        made = planned_model(spec, plan)
        say(f"plan: {made.skeleton.plan}")
        say(f"weights: {made.origin}")
        if program is None:
            save_checkpoint(made.model, folder, made.skeleton)
            show(place(folder))
        else:
            write = partial(write_program, made.model, made.inputs, kind=program)
            save_checkpoint(made.model, folder, made.skeleton, beside=write)
            show(place(folder), place(folder / PROGRAM_FILES[program]))


def _program(kind: str) -> "ProgramFormat | None":
    """The format of the program to write beside the model; ``None`` for none.

    Raises:
        InputError: there is no such format.
        MissingExtraError: it needs packages that are not installed.
    """
    from headtune.surgery.programs import ProgramFormat, check_format

    known: tuple[ProgramFormat, ...] = get_args(ProgramFormat)
    if kind == _OWN:
        return None
    if kind not in known:
        raise InputError(f"--format must be {', '.join((_OWN, *known[:-1]))} or {known[-1]} (got {kind!r})")
    program = known[known.index(kind)]
    check_format(program)
    return program
