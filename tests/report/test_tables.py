import contextlib
import csv
import io
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev

import pandas as pd
import pytest

from headtune.heads import HeadCount, HeadRanking
from headtune.heads.plan import HeadPlan
from headtune.report.search_front import front_trials
from headtune.report.tables import front_frame, trials_frame
from headtune.report.tally import reason
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome

MakeRecord = Callable[..., StudyRecord]


Cell = float | int | bool | str
Row = dict[str, Cell]


def read_back(frame: pd.DataFrame) -> list[Row]:
    """The rows as another program reads them from the file; empty cells are left out."""
    lines = csv.DictReader(io.StringIO(frame.to_csv(index=False), newline=""))
    return [{name: cell(text) for name, text in line.items() if text != ""} for line in lines]


def cell(text: str) -> Cell:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"True": True, "False": False}.get(text, text)


def part(row: Row, group: str) -> Row:
    """The named values of one group that the row has."""
    return {name.removeprefix(f"{group}:"): value for name, value in row.items() if name.startswith(f"{group}:")}


def test_the_file_holds_the_record(record: StudyRecord) -> None:
    rows = read_back(trials_frame(record))
    trials = (*record.trials, *record.verify_trials)
    assert len(rows) == len(trials)
    for row, trial in zip(rows, trials, strict=True):
        assert trial.outcome is not None
        assert trial.started is not None
        assert trial.ended is not None
        assert row["number"] == trial.number
        assert (row["kind"], row["outcome"]) == (trial.kind, trial.outcome.value)
        assert row["reason"] == reason(trial)
        assert (row["seed"], row["repeat"], row["feasible"]) == (trial.seed, trial.repeat, trial.feasible)
        assert row["in_space"] is trial.in_space
        assert part(row, "metric") == dict(trial.metrics)
        assert part(row, "test") == dict(trial.test_metrics)
        assert part(row, "violation") == dict(trial.violations)
        assert part(row, "seconds") == dict(trial.seconds)
        assert part(row, "heads") == {path: here.num_heads for path, here in trial.plan}
        assert row["reports"] == len(trial.curve)
        assert row.get("last_report") == (trial.curve[-1][1] if trial.curve else None)
        assert (row["started"], row["ended"]) == (trial.started.isoformat(), trial.ended.isoformat())


def test_a_plan_can_be_made_again_from_its_row(make_record: MakeRecord) -> None:
    record = make_record(group=4, hold="head_dim")
    for row, trial in zip(read_back(trials_frame(record)), record.trials, strict=False):
        counts = [part(row, group) for group in ("heads", "kv_heads", "head_dim")]
        assert HeadPlan.from_json({path: [int(here[path]) for here in counts] for path in counts[0]}) == trial.plan
        assert row["plan"] == str(trial.plan)


def test_the_latency_of_a_trial_is_its_profiles(record: StudyRecord) -> None:
    row, profile = read_back(trials_frame(record))[0], record.trials[0].latency
    assert profile is not None
    assert part(row, "latency") == {
        "median_ms": profile.median_ms,
        "p90_ms": profile.p90_ms,
        "low_ms": profile.interval_ms[0],
        "high_ms": profile.interval_ms[1],
        "ratio": profile.ratio,
        "ratio_low": profile.ratio_interval[0],
        "ratio_high": profile.ratio_interval[1],
        "samples": profile.samples,
        "settled": profile.settled,
        "contended": profile.contended,
    }


def test_every_row_names_hold_and_weights(record: StudyRecord) -> None:
    for frame in (trials_frame(record), front_frame(record)):
        assert set(zip(frame["hold"], frame["weights"], strict=True)) == {("width", "fresh")}


def test_whole_numbers_stay_whole_beside_gaps(record: StudyRecord) -> None:
    bare = replace(record, trials=(replace(record.trials[0], latency=None), *record.trials[1:]))
    assert "48.0" not in trials_frame(bare).to_csv()


def test_names_of_a_task_cannot_collide_with_columns(record: StudyRecord) -> None:
    odd = replace(record.trials[0], metrics={"seed": 0.5, "number": 2.5}, params={"seed": 7, "a,b\n": 'x"y'})
    row = read_back(trials_frame(replace(record, trials=(odd,), verify_trials=())))[0]
    assert (row["seed"], row["metric:seed"], row["param:seed"]) == (odd.seed, 0.5, 7)
    assert (row["metric:number"], row["param:a,b\n"]) == (2.5, 'x"y')


def test_a_message_of_several_lines_comes_back_whole(record: StudyRecord) -> None:
    said = "KeyError: \"a\", 'b'\n  at line 3; done"
    bad = replace(record.trials[0], outcome=Outcome.CRASHED, message=said)
    assert read_back(trials_frame(replace(record, trials=(bad,), verify_trials=())))[0]["reason"] == said


def test_columns_stand_in_groups(record: StudyRecord) -> None:
    groups = [str(name).partition(":")[0] for name in trials_frame(record).columns]
    firsts = list(dict.fromkeys(groups))
    assert groups == sorted(groups, key=firsts.index)
    assert firsts[:3] == ["number", "kind", "label"]
    assert firsts.index("heads") < firsts.index("metric") < firsts.index("seconds") < firsts.index("seed")


def test_the_front_file_is_exactly_the_front(make_record: MakeRecord) -> None:
    record = make_record(seed=2, trials=40)
    rows = read_back(front_frame(record))
    points = {(row["metric:val_accuracy"], row["metric:latency_ms"]) for row in rows}
    able = [t for t in record.trials if t.outcome is Outcome.OK and all(v <= 0 for v in t.violations.values())]
    values = [(t.metrics["val_accuracy"], t.metrics["latency_ms"]) for t in able]
    best = {(y, x) for y, x in values if not any(b >= y and a <= x and (b, a) != (y, x) for b, a in values)}
    assert points == best
    assert len(rows) == len(best)


def test_the_front_file_tells_what_verification_made_of_a_plan(record: StudyRecord) -> None:
    rows = read_back(front_frame(record))
    plans = {trial.number: trial.plan for trial in front_trials(record)}
    verified = [row for row in rows if row["verified"]]
    assert 0 < len(verified) < len(rows)
    for row in verified:
        finalist = next(one for one in record.finalists if one.plan == plans[int(row["number"])])
        values = finalist.quality["val_accuracy"]
        assert row["verified_metric:val_accuracy_mean"] == pytest.approx(fmean(values), rel=1e-15)
        assert row["verified_metric:val_accuracy_sd"] == pytest.approx(stdev(values), rel=1e-15)
        assert row["verified_metric:val_accuracy_seeds"] == len(values)
        assert row["verified_metric:latency_ms"] == finalist.measured["latency_ms"]
        assert row["verified_test:test_accuracy_mean"] == pytest.approx(fmean(finalist.test["test_accuracy"]))
        assert finalist.latency is not None
        assert row["verified_latency:p90_ms"] == finalist.latency.p90_ms
    assert sum(bool(row["recommended"]) for row in rows) == 1


def test_tables_keep_their_columns_without_a_row(partial: StudyRecord) -> None:
    for frame in (trials_frame(partial), front_frame(partial)):
        again = pd.read_csv(io.StringIO(frame.to_csv(index=False)))
        assert {"number", "outcome", "reason", "hold", "weights", "seed"} <= set(again.columns)
        assert {f"heads:{site.path}" for site in partial.sites} <= set(again.columns)
    assert len(trials_frame(partial)) == len(partial.trials) + len(partial.verify_trials)


def test_a_running_trial_is_called_running(record: StudyRecord) -> None:
    running = replace(record.trials[0], outcome=None, ended=None)
    row = read_back(trials_frame(replace(record, trials=(running,), verify_trials=())))[0]
    assert (row["outcome"], row["reason"]) == ("running", "still running")


def test_the_trained_heads_that_stay_are_in_the_table(record: StudyRecord) -> None:
    assert not [name for name in trials_frame(record).columns if name.startswith("kept:")]
    scores = {site.path: tuple(float(head) for head in range(site.num_heads)) for site in record.sites}
    ranking = HeadRanking(scores=scores, criterion="norm")
    fewer = HeadPlan.of({site.path: HeadCount(1, 1, site.head_dim) for site in record.sites})
    trial = replace(record.trials[0], plan=fewer)
    (row,) = read_back(trials_frame(replace(record, ranking=ranking, trials=(trial,), verify_trials=())))
    for site in record.sites:
        assert int(row[f"kept:{site.path}"]) == site.num_heads - 1  # the last head has the highest score
