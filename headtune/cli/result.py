"""What a study found, for a terminal."""

from collections.abc import Sequence

from rich.console import RenderableType

from headtune.cli.terminal import table
from headtune.cli.wording import objective_title
from headtune.pareto import dominates
from headtune.report import FrontRow, front_table
from headtune.report.headline import headline
from headtune.report.influence_words import influence_sentence
from headtune.report.wording import number, probability, setting, spread
from headtune.study import StudyRecord
from headtune.trial.record import OUTSIDE


def result_page(record: StudyRecord) -> list[RenderableType]:
    """The plans worth showing, the recommended one and why, and what to know before relying on it."""
    rows = front_table(record)
    top = headline(record, rows)
    findings = record.verdict.findings if record.verdict is not None else ()
    chosen = next((row for row in rows if row.recommended), None)
    recommended = "" if chosen is None else str(chosen.plan)
    if chosen is not None and chosen.params:
        recommended += " with " + ", ".join(f"{name} {setting(value)}" for name, value in chosen.params.items())
    return [
        front_rows(record, rows),
        "",
        f"{top.title}.",
        *top.sentences,
        *([f"plan: {recommended}"] if recommended else []),
        *findings,
        *(influence_sentence(one) for one in record.influences if one.clear),
    ]


def front_rows(record: StudyRecord, rows: Sequence[FrontRow]) -> RenderableType:
    """One row a plan: counts, params, what it reaches with its spread over seeds, what it costs, what it is."""
    tests = list(dict.fromkeys(metric for row in rows for metric in row.test))
    params = list(dict.fromkeys(name for row in rows for name in row.params))
    judged = any(row.front_probability is not None for row in rows)
    columns = (*params, *map(objective_title, record.objectives), *tests, "seeds", *(["on front"] if judged else []))
    made = table("", "counts", "", *columns, numbers=len(columns))
    for row in rows:
        made.add_row(
            row.letter,
            row.plan.label,
            ", ".join([*_marks(row), *(["dominated"] if _is_dominated(record, row, rows) else [])]),
            *(setting(row.params[name]) if name in row.params else "" for name in params),
            *(_cell(row, goal.metric) for goal in record.objectives),
            *(spread(row.test[name].mean, row.test[name].deviation) if name in row.test else "" for name in tests),
            str(row.seeds or ""),
            *([probability(row.front_probability)] if judged else []),
            style="bold" if row.recommended else "",
        )
    return made


def _cell(row: FrontRow, metric: str) -> str:
    known = row.value(metric)
    if known is None:
        return ""
    return spread(known, row.deviation(metric)) if metric in row.quality else number(known)


def _marks(row: FrontRow) -> list[str]:
    marks = ["recommended"] if row.recommended else []
    marks += row.labels
    if row.tied_with_best and not row.recommended:
        marks.append("ties with the best")
    if not row.in_space:
        marks.append(OUTSIDE)
    if not row.feasible:
        marks.append("breaks a constraint")
    return marks


def _is_dominated(record: StudyRecord, row: FrontRow, rows: Sequence[FrontRow]) -> bool:
    """Whether another plan of the table, judged in the same way, is as good in every objective and better in one."""
    alike = [_values(record, other) for other in rows if other.verified == row.verified and other.feasible]
    ours = _values(record, row)
    return ours is not None and any(dominates(one, ours, record.objectives) for one in alike if one is not None)


def _values(record: StudyRecord, row: FrontRow) -> list[float] | None:
    values = [value for goal in record.objectives if (value := row.value(goal.metric)) is not None]
    return values if len(values) == len(record.objectives) else None
