from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from headtune.pareto import Objective
from headtune.report.front_rows import Estimate, baseline_labels, front_table, row_labelled
from headtune.report.search_front import front_trials
from headtune.study.record import Finalist, StudyRecord

MakeRecord = Callable[..., StudyRecord]
ACCURACY = Objective(metric="val_accuracy", direction="maximize")
PARAMETERS = Objective(metric="parameters", direction="minimize")


def test_an_estimate_is_the_mean_and_the_sample_deviation() -> None:
    estimate = Estimate(values=(0.91, 0.95, 0.96))
    assert estimate.mean == pytest.approx(np.mean([0.91, 0.95, 0.96]), rel=1e-12)
    assert estimate.deviation == pytest.approx(np.std([0.91, 0.95, 0.96], ddof=1), rel=1e-12)
    assert estimate.seeds == 3
    assert Estimate(values=(0.9,)).deviation is None


def test_finalists_come_first_as_they_were_verified(record: StudyRecord) -> None:
    rows = front_table(record)
    verified = [row for row in rows if row.verified]
    assert list(rows[: len(verified)]) == verified
    assert {row.plan for row in verified} == {finalist.plan for finalist in record.finalists}
    for row in verified:
        finalist = next(one for one in record.finalists if one.plan == row.plan)
        assert row.quality["val_accuracy"].values == finalist.quality["val_accuracy"]
        assert row.test["test_accuracy"].values == finalist.test["test_accuracy"]
        assert dict(row.measured) == dict(finalist.measured)
        assert (row.labels, row.tied_with_best, row.feasible, row.latency) == (
            finalist.labels,
            finalist.tied_with_best,
            finalist.feasible,
            finalist.latency,
        )


def test_the_rest_of_the_front_follows_with_one_seed_each(record: StudyRecord) -> None:
    others = [row for row in front_table(record) if not row.verified]
    finalists = {finalist.plan for finalist in record.finalists}
    left = [trial for trial in front_trials(record) if trial.plan not in finalists]
    assert left
    assert {row.trial for row in others} == {trial.number for trial in left}
    assert all((row.seeds, row.tied_with_best, row.test) == (1, None, {}) for row in others)


def test_every_front_trial_is_shown_once(record: StudyRecord) -> None:
    shown = [row.trial for row in front_table(record) if row.on_front]
    assert sorted(number for number in shown if number is not None) == [t.number for t in front_trials(record)]


def test_the_recommended_finalist_is_marked_and_no_other(record: StudyRecord) -> None:
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    chosen = [row for row in front_table(record) if row.recommended]
    assert [row.plan for row in chosen] == [record.finalists[record.verdict.recommended].plan]


def test_the_fastest_comes_first_and_letters_follow(record: StudyRecord) -> None:
    rows = front_table(record)
    for verified in (True, False):
        times = [row.value("latency_ms") for row in rows if row.verified is verified]
        assert times == sorted(times)
    assert "".join(row.letter for row in rows) == "ABCDEFGHIJ"[: len(rows)]


def test_letters_go_on_after_z(make_record: MakeRecord) -> None:
    record = make_record(trials=1, verified=False)
    many = tuple(
        replace(record.trials[0], number=i, kind="search", label="", metrics={"val_accuracy": i / 100, "latency_ms": i})
        for i in range(60)
    )
    # Each is better and slower than the one before, so all are on the front; equal plans differ in their params.
    apart = tuple(replace(trial, params={"lr": trial.number}) for trial in many)
    letters = [row.letter for row in front_table(replace(record, trials=apart))]
    assert (letters[0], letters[25], letters[26], letters[27], letters[52]) == ("A", "Z", "AA", "AB", "BA")


def test_before_verification_the_present_and_the_rule_are_shown_even_off_the_front(make_record: MakeRecord) -> None:
    record = make_record(verified=False, limit_ms=2.0)
    rows = front_table(record)
    present = row_labelled(rows, "present")
    assert present is not None
    assert not present.on_front
    assert not present.feasible
    assert row_labelled(rows, "rule") is not None
    assert row_labelled(rows, "largest") is None


def test_a_plan_that_is_baseline_and_front_is_shown_once(make_record: MakeRecord) -> None:
    rows = front_table(make_record(verified=False))
    assert len({(row.plan, tuple(row.params.items())) for row in rows}) == len(rows)


def test_labels_name_every_baseline_that_is_the_plan(record: StudyRecord) -> None:
    assert baseline_labels(record, record.baselines["rule"]) == ("rule", "smallest")
    rule = row_labelled(front_table(record), "rule")
    assert rule is not None
    assert rule.labels == ("rule", "smallest")


def test_the_baseline_itself_stands_for_its_label_not_its_counts_with_other_params(make_record: MakeRecord) -> None:
    record = make_record(params={"lr": 0.1}, verified=False)
    twin = replace(record.trials[0], number=90, kind="search", params={"lr": 0.2}, label="")
    fast = {**record.trials[0].metrics, "latency_ms": 0.1}
    trials = (*record.trials, replace(twin, metrics=fast))
    finalists = tuple(
        Finalist(
            plan=record.present,
            params=params,
            labels=("present",),
            measured={"latency_ms": latency_ms},
            latency=None,
            quality={"val_accuracy": (0.9,)},
            test={},
            tied_with_best=True,
            feasible=True,
        )
        for params, latency_ms in (({"lr": 0.2}, 0.1), ({"lr": 0.1}, 2.4))
    )
    rows = front_table(replace(record, trials=trials, finalists=finalists))
    present = row_labelled(rows, "present")
    assert present is not None
    assert (dict(present.params), present.baseline) == ({"lr": 0.1}, True)
    assert (rows[0].labels, rows[0].baseline) == (("present",), False)


def test_values_are_means_or_measurements(record: StudyRecord) -> None:
    row = front_table(record)[0]
    assert row.value("val_accuracy") == pytest.approx(np.mean(row.quality["val_accuracy"].values), rel=1e-12)
    assert row.value("latency_ms") == row.measured["latency_ms"]
    assert row.value("nothing") is None
    assert row.deviation("latency_ms") is None


def test_the_interval_of_the_latency_is_the_ratios_on_the_frozen_scale(record: StudyRecord) -> None:
    row = front_table(record)[0]
    assert row.latency is not None
    assert record.latency_range is not None
    assert row.interval_ms("latency_ms") == pytest.approx(
        tuple(bound * record.latency_range.reference_ms for bound in row.latency.ratio_interval), rel=1e-12
    )


def test_without_latency_there_is_no_interval(make_record: MakeRecord) -> None:
    rows = front_table(make_record(objectives=(ACCURACY, PARAMETERS), limit_ms=None))
    assert all(row.interval_ms("latency_ms") is None for row in rows)
    assert [row.value("parameters") for row in rows if row.verified] == sorted(
        row.value("parameters") for row in rows if row.verified
    )


def test_every_row_names_hold_and_weights(partial: StudyRecord) -> None:
    assert all((row.hold, row.weights) == (partial.hold, partial.weights) for row in front_table(partial))
