"""``headtune suggest``."""

from dataclasses import asdict
from typing import Annotated

import typer

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Verbose
from headtune.cli.terminal import show, show_json


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number (got {text!r})") from None


def suggest(
    d_model: Annotated[
        int,
        typer.Option(
            "--d-model", help="Features of the residual stream.", show_default=False, parser=_whole, metavar="INTEGER"
        ),
    ],
    layers: Annotated[int, typer.Option("--layers", help="Layers of the stack.", parser=_whole, metavar="INTEGER")] = 1,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """The rule of thumb for a width, what is legal there, and what would help; without any model.

    Example: headtune suggest --d-model 384 --layers 6
    """
    with guard(verbose):
        from headtune.heads import suggest as suggest_heads

        suggestion = suggest_heads(d_model, layers)
        if as_json:
            show_json(asdict(suggestion))
        else:
            show(str(suggestion))
