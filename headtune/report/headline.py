"""What the page says first: the recommended plan and why, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass

from headtune.pareto.objective import is_latency, length_of
from headtune.report.changes import Change, changes, shown_metrics, unjudged_changes
from headtune.report.front_rows import Estimate, FrontRow, row_labelled
from headtune.report.tally import failed_trials, tally_sentence, trained_trials
from headtune.report.wording import (
    count,
    interval,
    metric_name,
    metric_title,
    quantity,
    short_plan,
    spread,
)
from headtune.study.record import StudyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One number of the recommended plan.

    Attributes:
        error: what follows the value more quietly: its standard deviation.
        detail: what stands behind the value.
        against: (what it is compared with, the change), the present counts first.
    """

    title: str
    value: str
    error: str
    detail: str
    against: tuple[tuple[str, Change], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The top of the page.

    Attributes:
        title: the advice in one line.
        sentences: why, and what to know before relying on it.
        row: the recommended plan, if there is one.
        tiles: its numbers.
    """

    title: str
    sentences: tuple[str, ...]
    row: FrontRow | None = None
    tiles: tuple[Tile, ...] = ()


def headline(record: StudyRecord, rows: Sequence[FrontRow]) -> Headline:
    """The recommendation where there is one; else what is missing."""
    row = next((row for row in rows if row.recommended), None)
    if row is not None and record.verdict is not None:
        return Headline(
            title=_advice(row), sentences=(_sentence(record.verdict.rule),), row=row, tiles=_tiles(record, rows, row)
        )
    if record.verdict is not None:
        return Headline(
            title="No plan can be recommended",
            sentences=(_sentence(record.verdict.rule), *_constraints(record), *_limits(record)),
        )
    if failed_trials(record) and not trained_trials(record):
        return Headline(
            title="No trial could be trained",
            sentences=(tally_sentence(record), "Each failed trial is listed below with its reason."),
        )
    return Headline(
        title="Nothing is recommended yet",
        sentences=(
            tally_sentence(record),
            "A plan is recommended once the best ones have been retrained with new seeds.",
        ),
    )


def _advice(row: FrontRow) -> str:
    plan = short_plan(row.plan)
    if "present" in row.labels:
        return f"Keep the present counts: {plan} heads"
    if "rule" in row.labels:
        return f"Follow the rule of thumb: {plan} heads"
    return f"Use {plan} heads"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].removesuffix(".") + "."


def _constraints(record: StudyRecord) -> tuple[str, ...]:
    return (f"Constraints: {'; '.join(record.constraints.values())}.",) if record.constraints else ()


def _limits(record: StudyRecord) -> tuple[str, ...]:
    """How far the fastest plan that was timed is from each limit of a latency."""
    said = []
    for metric, limit in record.limits.items():
        timed = record.latency_range.at(length_of(metric)) if is_latency(metric) and record.latency_range else None
        if timed is None or not timed.profiles:
            continue
        low, high = min(profile.ratio_interval for profile in timed.profiles.values())
        fastest = interval((low * timed.reference_ms, high * timed.reference_ms))
        where = f" at length {length_of(metric)}" if length_of(metric) else ""
        said.append(
            f"The fastest plan of the profile takes {fastest} ms{where}; the limit is {quantity(metric, limit)}."
        )
    return tuple(said)


def _tiles(record: StudyRecord, rows: Sequence[FrontRow], row: FrontRow) -> tuple[Tile, ...]:
    others = {"present counts": row_labelled(rows, "present"), "rule of thumb": row_labelled(rows, "rule")}
    named = {words: other for words, other in others.items() if other is not None and other != row}
    known = {words: changes(record, row, other) for words, other in named.items()}
    tested = {words: unjudged_changes(record, row, other) for words, other in named.items()}
    measured = [
        _tile(record, metric, row, row.quality.get(metric), known)
        for metric in shown_metrics(record, [row])
        if row.value(metric) is not None
    ]
    return (*measured, *(_tile(record, metric, row, estimate, tested) for metric, estimate in row.test.items()))


def _tile(
    record: StudyRecord,
    metric: str,
    row: FrontRow,
    estimate: Estimate | None,
    known: dict[str, tuple[Change, ...]],
) -> Tile:
    against = tuple((words, change) for words, found in known.items() for change in found if change.metric == metric)
    if estimate is not None:
        value, sign, error = spread(estimate.mean, estimate.deviation).partition("±")
        detail = "one seed, so its noise is unknown" if record.trains else "exact: nothing is trained"
        if estimate.deviation is not None:
            detail = f"mean ± standard deviation over {count(estimate.seeds, 'seed')}"
        return Tile(title=metric_title(metric), value=value.strip(), error=sign + error, detail=detail, against=against)
    bounds = row.interval_ms(metric)
    detail = "" if bounds is None else f"95 % interval {interval(bounds)} ms"
    return Tile(
        title=metric_name(metric),
        value=quantity(metric, row.measured[metric]),
        error="",
        detail=detail,
        against=against,
    )
