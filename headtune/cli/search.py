"""``headtune search``."""

from typing import TYPE_CHECKING

from headtune.cli.guard import guard
from headtune.cli.options import AsJson, Overrides, StudyPath, Verbose
from headtune.cli.terminal import say, show, show_json
from headtune.cli.wording import count, place
from headtune.errors import Infeasible

if TYPE_CHECKING:
    from headtune.study import StudyRecord

_KILLED = "interrupted or killed, this study loses only what runs: the same command goes on where it stopped"
_INTERRUPTED = "interrupted: the study is intact; run the same command to continue"


def search(study: StudyPath, overrides: Overrides = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Search head counts: check, profile, search, verify, report. Run it again to continue where it stopped.

    Example: headtune search study.yaml --set search.trials=20
    """
    with guard(verbose, _INTERRUPTED) as session:
        from headtune.config import load_study

        spec = load_study(study, overrides or ())
        assert spec.output is not None  # a study file always has an output
        from headtune.cli.observers import watching
        from headtune.study import search as run_search

        session.log_to(spec.output)
        say(_KILLED)
        with watching(spec.objectives) as observer:
            record = run_search(spec, observer)
            observer.phase("report", place(spec.output))
            from headtune.report import write_report

            files = write_report(record, spec.output)
        if as_json:
            from headtune.report.documents import front_document

            show_json(front_document(record))
        else:
            from headtune.cli.result import result_page

            show(*result_page(record))
        say(f"wrote {count(len(files), 'file')} into {place(spec.output)}; open {place(spec.output / 'report.html')}")
        if record.verdict is not None and record.verdict.recommended is None:
            raise Infeasible(record.verdict.rule, *_nearest(record))


def _nearest(record: "StudyRecord") -> list[str]:
    """How near the trials came to each limit."""
    found = {
        metric: [trial.metrics[metric] for trial in record.trials if metric in trial.metrics]
        for metric in record.limits
    }
    return [
        f"{record.constraints[metric]}: the limit is {most:.4g}, and the plans that were tried reach {min(values):.4g} "
        f"to {max(values):.4g}; raise the limit, or make the model smaller in other ways"
        for metric, most in record.limits.items()
        if (values := found[metric])
    ]
