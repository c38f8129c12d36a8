from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import pytest

from headtune.report.changes import Change, Judgement, changes, direction_of, shown_metrics, unjudged_changes
from headtune.report.front_rows import Estimate, FrontRow, front_table, row_labelled
from headtune.study.record import StudyRecord
from headtune.timing.profile import LatencyProfile

MakeRecord = Callable[..., StudyRecord]


def named(found: tuple[Change, ...], metric: str) -> Change:
    return next(change for change in found if change.metric == metric)


def pair(record: StudyRecord) -> tuple[FrontRow, FrontRow]:
    """The rule of thumb and the present counts, verified."""
    rows = front_table(record)
    rule, present = row_labelled(rows, "rule"), row_labelled(rows, "present")
    assert rule is not None
    assert present is not None
    return rule, present


def with_quality(row: FrontRow, *values: float) -> FrontRow:
    return replace(row, quality={"val_accuracy": Estimate(values=values)})


def with_ratio(row: FrontRow, ratio: float, low: float, high: float) -> FrontRow:
    assert isinstance(row.latency, LatencyProfile)
    profile = replace(row.latency, ratio=ratio, ratio_interval=(low, high))
    return replace(row, latency=profile, measured={**row.measured, "latency_ms": ratio * 2.4})


def test_objectives_come_first_then_what_else_was_measured(record: StudyRecord) -> None:
    assert shown_metrics(record, front_table(record)) == ("val_accuracy", "latency_ms", "parameters")
    assert shown_metrics(record, []) == ("val_accuracy", "latency_ms")


def test_directions(record: StudyRecord) -> None:
    assert [direction_of(record, metric) for metric in ("val_accuracy", "latency_ms", "parameters", "loss")] == [
        "maximize",
        "minimize",
        "minimize",
        None,
    ]


def test_differences_are_those_of_the_record(record: StudyRecord) -> None:
    rule, present = pair(record)
    finalists = {label: one for one in record.finalists for label in one.labels}
    values = {label: finalists[label].quality["val_accuracy"] for label in ("rule", "present")}
    found = changes(record, rule, present)
    quality, latency, size = (named(found, metric) for metric in ("val_accuracy", "latency_ms", "parameters"))
    gap = fmean(values["rule"]) - fmean(values["present"])
    assert quality.difference == pytest.approx(gap, rel=1e-12)
    assert quality.relative == pytest.approx(gap / fmean(values["present"]), rel=1e-12)
    expected = finalists["rule"].measured["latency_ms"] - finalists["present"].measured["latency_ms"]
    assert latency.difference == pytest.approx(expected, rel=1e-12)
    assert size.difference == finalists["rule"].measured["parameters"] - finalists["present"].measured["parameters"]
    assert (quality.judgement, latency.judgement, size.judgement) == ("worse", "better", "better")


def test_a_change_counts_where_the_verification_found_a_difference(record: StudyRecord) -> None:
    rule, present = pair(record)
    assert record.verdict is not None
    assert rule.finalist is not None
    assert present.finalist is not None
    pairs = {"better": (rule.finalist, present.finalist), "worse": (present.finalist, rule.finalist)}
    for judgement, better in pairs.items():
        told = replace(record, verdict=replace(record.verdict, better={"val_accuracy": (better,)}))
        sign = 1 if judgement == "better" else -1
        other = with_quality(rule, *[0.92 + sign * 0.001] * 3)
        base = with_quality(present, 0.90, 0.92, 0.94)
        assert named(changes(told, other, base), "val_accuracy").judgement == judgement
    none = replace(record, verdict=replace(record.verdict, better={}))
    assert named(changes(none, rule, present), "val_accuracy").judgement is Judgement.NOISE


def test_with_one_seed_the_noise_is_unknown(record: StudyRecord) -> None:
    rule, present = pair(record)
    change = named(changes(record, with_quality(rule, 0.99), present), "val_accuracy")
    assert change.judgement is Judgement.ONE_SEED


def test_equal_values_are_the_same(record: StudyRecord) -> None:
    _, present = pair(record)
    assert {change.judgement for change in changes(record, present, present)} == {Judgement.SAME}


def test_latencies_that_differ_by_their_noise_do_not_differ(record: StudyRecord) -> None:
    rule, present = (with_ratio(row, 1.0, 0.98, 1.02) for row in pair(record))
    near, far = with_ratio(rule, 1.02, 1.00, 1.04), with_ratio(rule, 1.06, 1.03, 1.09)
    assert named(changes(record, near, present), "latency_ms").judgement is Judgement.NOISE
    assert named(changes(record, far, present), "latency_ms").judgement is Judgement.WORSE


def test_latencies_of_different_devices_are_not_judged(record: StudyRecord) -> None:
    rule, present = pair(record)
    assert rule.latency is not None
    moved = replace(rule, latency=replace(rule.latency, device_name="another"))
    assert named(changes(record, moved, present), "latency_ms").judgement is Judgement.UNLIKE


def test_a_latency_without_a_profile_is_judged_by_its_value(record: StudyRecord) -> None:
    rule, present = pair(record)
    assert named(changes(record, replace(rule, latency=None), present), "latency_ms").judgement is Judgement.BETTER


def test_a_value_of_zero_has_no_relative_change(record: StudyRecord) -> None:
    rule, present = pair(record)
    change = named(changes(record, rule, with_quality(present, 0.0, 0.0)), "val_accuracy")
    assert change.relative is None


def test_what_one_plan_lacks_is_left_out(record: StudyRecord) -> None:
    rule, present = pair(record)
    found = changes(record, replace(rule, measured={}), present)
    assert [change.metric for change in found] == ["val_accuracy"]
    nan = with_quality(rule, float("nan"), 0.1)
    assert "val_accuracy" not in {change.metric for change in changes(record, nan, present)}


def test_test_metrics_are_compared_but_not_judged(record: StudyRecord) -> None:
    rule, present = pair(record)
    (change,) = unjudged_changes(record, rule, present)
    gap = fmean(rule.test["test_accuracy"].values) - fmean(present.test["test_accuracy"].values)
    assert change.difference == pytest.approx(gap, rel=1e-12)
    assert change.judgement is Judgement.UNKNOWN
    assert unjudged_changes(record, replace(rule, test={}), present) == ()


def test_only_better_and_worse_have_a_tone() -> None:
    assert {judgement: judgement.tone for judgement in Judgement if judgement.tone} == {
        Judgement.BETTER: "better",
        Judgement.WORSE: "worse",
    }


def test_where_nothing_is_trained_a_single_value_is_exact(record: StudyRecord) -> None:
    rule, present = pair(record)
    scored = replace(record, trains=False)
    base = with_quality(present, 0.9)
    for value, judgement in ((0.9 + 1e-12, "better"), (0.9 - 1e-12, "worse"), (0.9, "same")):
        assert named(changes(scored, with_quality(rule, value), base), "val_accuracy").judgement == judgement
