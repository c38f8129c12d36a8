"""``headtune dashboard``."""

from typing import Annotated

import typer

from headtune.cli.guard import guard
from headtune.cli.options import Overrides, StudyPath, Verbose
from headtune.cli.terminal import say

_CLOSED = "the dashboard was closed"


def dashboard(
    study: StudyPath,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where to listen.")] = 8080,
    host: Annotated[
        str,
        typer.Option("--host", help="Who may look; this machine only, since there is no password."),
    ] = "127.0.0.1",
    overrides: Overrides = None,
    verbose: Verbose = False,
) -> None:
    """Serve Optuna's dashboard on the study's storage, until Ctrl-C.

    Example: headtune dashboard study.yaml --port 8081
    """
    with guard(verbose, _CLOSED):
        from headtune.config import load_kept_study

        spec = load_kept_study(study, overrides or ())
        from headtune.search import Ledger, serve_dashboard

        Ledger.read(spec.storage, spec.name)  # says in words that there is nothing to show yet
        say(f"http://{host}:{port}/ shows the study until Ctrl-C")
        serve_dashboard(spec.storage, host=host, port=port)
        say(_CLOSED)
