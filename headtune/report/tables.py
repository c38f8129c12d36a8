"""The study as flat tables: one row per trial, one row per plan of the front.

A column that holds one of several named values is written ``group:name`` (``heads:encoder.0.attn``,
``metric:val_accuracy``, ``violation:latency_ms``), so that no name of a task can collide with a column of headtune.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from headtune.heads.plan import HeadPlan
from headtune.report.front_rows import Estimate, FrontRow, front_table
from headtune.report.search_front import front_trials
from headtune.report.tally import reason
from headtune.study.record import StudyRecord
from headtune.timing.profile import LatencyProfile
from headtune.trial.record import TrialRecord

Row = dict[str, object]

_FIRST = ("number", "kind", "label", "outcome", "reason", "feasible", "in_space", "on_front", "hold", "weights", "plan")
_LAST = ("reports", "last_report", "repeat", "seed", "started", "ended")
_GROUPS = (
    *_FIRST,
    *("heads", "kv_heads", "head_dim", "kept", "param", "metric", "test", "violation", "latency", "seconds"),
    *_LAST,
    *(
        "verified",
        "recommended",
        "tied_with_best",
        "front_probability",
        "verified_metric",
        "verified_test",
        "verified_latency",
    ),
)
"""The order of the columns: names, and the first parts of ``group:name``."""


def trials_frame(record: StudyRecord) -> pd.DataFrame:
    """Every trial, retrainings of finalists included, in the order of their numbers within search and verification."""
    front = {trial.number for trial in front_trials(record)}
    trials = (*record.trials, *record.verify_trials)
    rows = [_trial_row(record, trial, trial.kind != "verify" and trial.number in front) for trial in trials]
    return _frame(rows, _always(record))


def front_frame(record: StudyRecord) -> pd.DataFrame:
    """The front that the search found, with what verification made of its plans.

    Exactly the trials that were trained to the end, meet every constraint and are dominated by no other such trial.
    """
    verified = {row.trial: row for row in front_table(record) if row.verified}
    rows = [
        _trial_row(record, trial, on_front=True) | _verified_columns(verified.get(trial.number))
        for trial in front_trials(record)
    ]
    return _frame(rows, (*_always(record), "verified", "recommended", "tied_with_best", "front_probability"))


def _always(record: StudyRecord) -> tuple[str, ...]:
    """The columns that a table has even without a row."""
    heads = [f"{group}:{site.path}" for group in ("heads", "kv_heads", "head_dim") for site in record.sites]
    return (*_FIRST, *heads, *_LAST)


def _trial_row(record: StudyRecord, trial: TrialRecord, on_front: bool) -> Row:
    return {
        "number": trial.number,
        "kind": trial.kind,
        "label": trial.label,
        "outcome": "running" if trial.outcome is None else trial.outcome.value,
        "reason": reason(trial),
        "feasible": trial.feasible,
        "in_space": trial.in_space,
        "on_front": on_front,
        "hold": record.hold,
        "weights": record.weights,
        "plan": str(trial.plan),
        **_plan_columns(trial.plan),
        **_kept_columns(record, trial.plan),
        **_columns("param", trial.params),
        **_columns("metric", trial.metrics),
        **_columns("test", trial.test_metrics),
        **_columns("violation", trial.violations),
        **_latency_columns(trial.latency, trial.shorter),
        "reports": len(trial.curve),
        "last_report": trial.curve[-1][1] if trial.curve else None,
        **_columns("seconds", trial.seconds),
        "repeat": trial.repeat,
        "seed": trial.seed,
        "started": None if trial.started is None else trial.started.isoformat(),
        "ended": None if trial.ended is None else trial.ended.isoformat(),
    }


def _plan_columns(plan: HeadPlan) -> Row:
    return {
        **{f"heads:{path}": count.num_heads for path, count in plan},
        **{f"kv_heads:{path}": count.num_kv_heads for path, count in plan},
        **{f"head_dim:{path}": count.head_dim for path, count in plan},
    }


def _kept_columns(record: StudyRecord, plan: HeadPlan) -> Row:
    """The trained heads that stay, counted from 0."""
    mask = record.kept(plan)
    return {} if mask is None else {f"kept:{path}": " ".join(map(str, heads)) for path, heads in mask.kept}


def _columns(group: str, values: Mapping[str, object]) -> Row:
    return {f"{group}:{name}": value for name, value in values.items()}


def _latency_columns(longest: LatencyProfile | None, shorter: Mapping[int, LatencyProfile]) -> Row:
    """What was timed at the longest sequence length; at the others in columns that end in ``@`` and the length."""
    if longest is None:
        return {}
    others = [
        {f"{name}@{length}": value for name, value in _profile_columns(profile).items()}
        for length, profile in shorter.items()
    ]
    return {name: value for row in (_profile_columns(longest), *others) for name, value in row.items()}


def _profile_columns(profile: LatencyProfile) -> Row:
    return {
        "latency:median_ms": profile.median_ms,
        "latency:p90_ms": profile.p90_ms,
        "latency:low_ms": profile.interval_ms[0],
        "latency:high_ms": profile.interval_ms[1],
        "latency:ratio": profile.ratio,
        "latency:ratio_low": profile.ratio_interval[0],
        "latency:ratio_high": profile.ratio_interval[1],
        "latency:samples": profile.samples,
        "latency:settled": profile.settled,
        "latency:contended": profile.contended,
    }


def _verified_columns(row: FrontRow | None) -> Row:
    if row is None:
        return {"verified": False, "recommended": False}
    latency = {name.partition(":")[2]: value for name, value in _latency_columns(row.latency, row.shorter).items()}
    return {
        "verified": True,
        "recommended": row.recommended,
        "tied_with_best": row.tied_with_best,
        "front_probability": row.front_probability,
        **_columns("verified_metric", _parts(row.quality) | dict(row.measured)),
        **_columns("verified_test", _parts(row.test)),
        **_columns("verified_latency", latency),
    }


def _parts(estimates: Mapping[str, Estimate]) -> Row:
    return {
        f"{name}_{part}": value
        for name, estimate in estimates.items()
        for part, value in (("mean", estimate.mean), ("sd", estimate.deviation), ("seeds", estimate.seeds))
    }


def _frame(rows: Iterable[Row], always: Iterable[str]) -> pd.DataFrame:
    rows = list(rows)
    named = dict.fromkeys((*always, *(name for row in rows for name in row)))
    columns = sorted(named, key=lambda name: _GROUPS.index(name.partition(":")[0]))
    # Objects keep whole numbers whole in a column that has gaps.
    return pd.DataFrame(rows, columns=columns, dtype=object)
