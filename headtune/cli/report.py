"""``headtune report``."""

from headtune.cli.guard import guard
from headtune.cli.options import Overrides, StudyPath, Verbose
from headtune.cli.terminal import show
from headtune.cli.wording import place


def report(study: StudyPath, overrides: Overrides = None, verbose: Verbose = False) -> None:
    """Write the report of a study as its storage has it now: tables, pictures and one page; print their paths.

    Example: headtune report study.yaml
    """
    with guard(verbose):
        from headtune.config import load_kept_study

        spec = load_kept_study(study, overrides or ())
        assert spec.output is not None  # a study file always has an output
        from headtune.report import write_report
        from headtune.study import read

        show(*map(place, write_report(read(spec), spec.output)))
