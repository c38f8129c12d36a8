"""``headtune front``."""

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import show, show_json


def front(study: StudyPath, overrides: Overrides = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Show the front of a study as its storage has it now, also while it runs.

    Example: headtune front study.yaml --json
    """
    with guard(verbose):
        from headtune.config import load_kept_study

        spec = load_kept_study(study, overrides or ())
        from headtune.study import read

        record = read(spec)
        if as_json:
            from headtune.report.documents import front_document

            show_json(front_document(record))
        else:
            from headtune.cli.result import result_page

            show(*result_page(record))
