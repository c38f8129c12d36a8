import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from headtune.pareto import Objective
from headtune.report.search_front import (
    front_hypervolume,
    front_trials,
    hypervolume_growth,
    objective_values,
    trials_on_offer,
)
from headtune.study.record import StudyRecord
from headtune.trial.outcome import Outcome
from headtune.trial.record import TrialRecord

MakeRecord = Callable[..., StudyRecord]


def beats(a: TrialRecord, b: TrialRecord, objectives: tuple[Objective, ...]) -> bool:
    losses = [(goal.loss(a.metrics[goal.metric]), goal.loss(b.metrics[goal.metric])) for goal in objectives]
    return all(x <= y for x, y in losses) and any(x < y for x, y in losses)


def with_values(record: StudyRecord, values: list[tuple[float, float]]) -> StudyRecord:
    """The study with one finished trial for each (accuracy, latency)."""
    trials = [
        replace(record.trials[0], number=i, metrics={"val_accuracy": y, "latency_ms": x}, violations={}, ended=None)
        for i, (y, x) in enumerate(values)
    ]
    return replace(record, trials=tuple(trials))


def test_the_front_is_what_no_finished_feasible_trial_beats(record: StudyRecord) -> None:
    rivals = [trial for trial in record.trials if trial.outcome is Outcome.OK and trial.feasible]
    front = [t for t in rivals if not any(beats(other, t, record.objectives) for other in rivals)]
    assert [trial.number for trial in front_trials(record)] == [trial.number for trial in front]
    assert 2 <= len(front) < len(rivals)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.OK] + [None])
def test_only_finished_trials_enter(record: StudyRecord, outcome: Outcome | None) -> None:
    best = replace(record.trials[0], outcome=outcome, metrics={"val_accuracy": 1.0, "latency_ms": 0.1})
    changed = replace(record, trials=(best, *record.trials[1:]))
    assert best.number not in {trial.number for trial in (*front_trials(changed), *trials_on_offer(changed))}


def test_a_trial_that_breaks_a_constraint_or_lacks_a_value_stays_out(record: StudyRecord) -> None:
    good = {"val_accuracy": 1.0, "latency_ms": 0.1}
    for change in ({"violations": {"latency_ms": 0.1}}, {"metrics": {"val_accuracy": 1.0}}):
        best = replace(record.trials[0], **({"metrics": good} | change))
        changed = replace(record, trials=(best, *record.trials[1:]))
        assert best.number not in {trial.number for trial in front_trials(changed)}


def test_values_come_in_the_objectives_order_and_only_if_finite(record: StudyRecord) -> None:
    trial = record.trials[0]
    assert objective_values(record, trial) == (trial.metrics["val_accuracy"], trial.metrics["latency_ms"])
    assert objective_values(record, replace(trial, metrics={"val_accuracy": float("nan"), "latency_ms": 1.0})) is None


def test_the_hypervolume_is_the_area_of_the_staircase(record: StudyRecord) -> None:
    studied = replace(with_values(record, [(0.9, 1.0), (0.95, 2.0), (0.8, 3.0)]), reference_point=(0.5, 4.0))
    # 0.9 from 1 to 4 and another 0.05 from 2 to 4, above 0.5.
    assert front_hypervolume(studied) == pytest.approx(0.4 * 3 + 0.05 * 2, rel=1e-12)


def test_without_a_reference_point_there_is_no_hypervolume(record: StudyRecord) -> None:
    bare = replace(record, reference_point=None)
    assert front_hypervolume(bare) is None
    assert hypervolume_growth(bare) == ()


def test_the_growth_never_falls_and_ends_at_the_fronts_hypervolume(make_record: MakeRecord) -> None:
    for seed in range(3):
        record = make_record(seed=seed)
        volumes = [step.hypervolume for step in hypervolume_growth(record)]
        assert volumes == sorted(volumes)
        assert volumes[-1] == pytest.approx(front_hypervolume(record), rel=1e-12)


def test_the_growth_counts_trained_trials_only_stopped_ones_included(record: StudyRecord) -> None:
    growth = hypervolume_growth(record)
    trained = [t.number for t in record.trials if t.outcome in (Outcome.OK, Outcome.STOPPED)]
    assert [step.number for step in growth] == trained
    assert [step.trained for step in growth] == list(range(1, len(trained) + 1))


def test_the_growth_follows_the_order_in_which_trials_ended(record: StudyRecord) -> None:
    shuffled = list(record.trials)
    random.Random(1).shuffle(shuffled)
    ends = [trial.ended for trial in record.trials]
    trials = tuple(replace(trial, ended=end) for trial, end in zip(shuffled, ends, strict=True))
    by_number = tuple(sorted(trials, key=lambda trial: trial.number))
    expected = [t.number for t in trials if t.outcome is not None and t.outcome.trained]
    assert [step.number for step in hypervolume_growth(replace(record, trials=by_number))] == expected


def test_each_step_is_the_hypervolume_of_the_trials_so_far(make_record: MakeRecord) -> None:
    record = make_record(trials=12, seed=4)
    for step in hypervolume_growth(record):
        so_far = tuple(trial for trial in record.trials if trial.number <= step.number)
        assert step.hypervolume == pytest.approx(front_hypervolume(replace(record, trials=so_far)), rel=1e-12)
