"""The page: one self-contained HTML file, readable without a network, on a phone and on paper."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

import headtune.report.tally as tally
import headtune.report.wording as wording
from headtune.report.changes import Change, changes, direction_of, shown_metrics, unjudged_changes
from headtune.report.figure_style import Picture, mark_of
from headtune.report.front_rows import FrontRow, row_labelled
from headtune.report.headline import headline
from headtune.report.influence_words import influence_sentence
from headtune.report.search_front import front_hypervolume
from headtune.report.sites_plot import MOST_PLANS
from headtune.study.record import StudyRecord
from headtune.timing.profile import LatencyProfile
from headtune.trial.record import OUTSIDE

MANY_SITES = 24
"""Sites from which on their tables are folded away."""

MOST_TRIALS = 500
"""Trials listed on the page at most; the files hold all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one plan gains and costs.

    Attributes:
        changes: metric → change; a metric that one of the two lacks is missing.
    """

    row: FrontRow
    changes: Mapping[str, Change]


def render_page(record: StudyRecord, rows: Sequence[FrontRow], pictures: Mapping[str, Picture]) -> str:
    """The whole page.

    Args:
        record: the study.
        rows: the plans shown.
        pictures: those that could be drawn, by name.
    """
    present = row_labelled(rows, "present")
    compared = [] if present is None else [_compare(record, row, present) for row in rows if row != present]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            style=files("headtune.report").joinpath("templates/page.css").read_text("utf-8"),
            record=record,
            rows=rows,
            headline=headline(record, rows),
            pictures=pictures,
            metrics=shown_metrics(record, rows),
            test_metrics=tuple(dict.fromkeys(metric for row in rows for metric in row.test)),
            directions={metric: direction_of(record, metric) for metric in shown_metrics(record, rows)},
            present=present,
            columns=[row for row in rows[:MOST_PLANS] if row != present],
            compared=compared,
            widest=_widest(compared),
            hypervolume=front_hypervolume(record),
            timed=any(row.latency is not None for row in rows),
            at_longest=_at_longest(record),
            device=_device(record),
            failed=tally.failed_trials(record),
            tally=tally.tally_sentence(record),
            many_sites=len(record.sites) > MANY_SITES,
            most_trials=MOST_TRIALS,
            outside=OUTSIDE,
        )
    )


def _compare(record: StudyRecord, row: FrontRow, present: FrontRow) -> Comparison:
    tested = {f"test:{change.metric}": change for change in unjudged_changes(record, row, present)}
    return Comparison(row=row, changes={change.metric: change for change in changes(record, row, present)} | tested)


def _widest(compared: Sequence[Comparison]) -> dict[str, float]:
    """The largest difference of each metric, which fills its bar."""
    widest: dict[str, float] = {}
    for comparison in compared:
        for metric, change in comparison.changes.items():
            widest[metric] = max(widest.get(metric, 0.0), abs(change.difference))
    return widest


def _device(record: StudyRecord) -> str:
    """What the timed device calls itself; empty where nothing was timed."""
    known = [] if record.latency_range is None else list(record.latency_range.profiles.values())
    known += [trial.latency for trial in record.trials if trial.latency is not None]
    return known[0].device_name if known else ""


def _at_longest(record: StudyRecord) -> str:
    """Which length a column of profiles is about, where several are timed."""
    timed = record.latency_range
    return f", at length {timed.length}" if timed is not None and timed.shorter else ""


def _timing_notes(profile: LatencyProfile) -> str:
    """What to know before relying on a timing."""
    notes = ["settled" if profile.settled else "did not reach the wanted precision in time"]
    if profile.contended:
        notes.append("others kept the device busy")
    return ", ".join(notes)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("headtune.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "baseline_words": wording.baseline_words,
        "counted": wording.count,
        "data_uri": _data_uri,
        "influence": influence_sentence,
        "interval": wording.interval,
        "listing": wording.listing,
        "mark": mark_of,
        "metric_name": wording.metric_name,
        "metric_title": wording.metric_title,
        "number": wording.number,
        "outcome_words": tally.OUTCOME_WORDS.__getitem__,
        "percent": wording.percent,
        "probability": wording.probability,
        "quantity": wording.quantity,
        "reason": tally.reason,
        "setting": wording.setting,
        "short_plan": wording.short_plan,
        "signed": wording.signed,
        "spread": wording.spread,
        "timing_notes": _timing_notes,
        "unit_after": _unit_after,
    }
    return environment


def _unit_after(metric: str) -> str:
    unit = wording.unit_of(metric)
    return f" {unit}" if unit else ""


def _data_uri(picture: Picture) -> str:
    return f"data:image/svg+xml;base64,{b64encode(picture.svg()).decode('ascii')}"
