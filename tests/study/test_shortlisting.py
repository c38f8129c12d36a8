"""A study whose plans a supernet chooses, without workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headtune.errors import MetricError, SpecError, TaskError
from headtune.heads import Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.report.front_rows import front_table
from headtune.report.page import render_page
from headtune.study import SearchOptions, StudySpec, read, search
from headtune.study.driver import open_ledger
from headtune.timing import LatencyProtocol
from headtune.trial import FloatParam, Outcome, Silent, TaskReference

MakeSpec = Callable[..., StudySpec]
TASKS = Path(__file__).parents[1] / "tasks"
QUALITY = Objective(metric="quality", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
BEST = (2, 8)


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.phases: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def phase(self, name: str, detail: str = "") -> None:
        self.phases.append(name)


@pytest.fixture
def shared_spec(make_spec: MakeSpec) -> MakeSpec:
    """Makes studies of the shared task: 25 plans of two layers, one of them planted as the best."""

    def make(trials: int = 6, evaluator: Any = "supernet", **changes: Any) -> StudySpec:
        task = TaskReference(target="shared.py:task", base=TASKS, args={"best": BEST, **changes.pop("task_args", {})})
        options = SearchOptions(trials=trials, epochs=1, sampler="random", stop_early=False, evaluator=evaluator)
        return make_spec(task=task, search=options, **changes)

    return make


def passes(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_the_planted_best_is_the_first_that_is_trained_after_the_baselines(shared_spec: MakeSpec) -> None:
    spec, notes = shared_spec(), Notes()
    record = search(spec, notes)
    assert notes.phases.index("profile") < notes.phases.index("supernet") < notes.phases.index("search")
    assert [trial.kind for trial in record.trials] == ["baseline"] * 3 + ["search"] * 3
    assert record.trials[3].plan.label == "2-8"
    assert record.supernet is not None
    assert len(record.supernet.scores) == 25
    searched = [trial.plan for trial in record.trials[3:]]
    listed = [plan for plan in record.supernet.shortlist if plan not in {trial.plan for trial in record.trials[:3]}]
    assert searched == listed[:3]
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    assert record.finalists[record.verdict.recommended].plan.label == "2-8"


def test_how_well_it_agrees_with_trainings_is_in_the_record_the_verdict_and_the_report(shared_spec: MakeSpec) -> None:
    spec = shared_spec(trials=8)
    record = search(spec)
    assert record.supernet is not None
    assert record.supernet.agreement.plans == 8
    assert record.supernet.agreement.correlation == pytest.approx(1.0)
    sentence = "have a rank correlation of 1.00 (Spearman, 8 plans)."
    assert record.verdict is not None
    assert record.verdict.findings[-1].endswith(sentence)
    page = render_page(record, front_table(record), {})
    assert sentence in page
    assert "scored 25 plans" in page
    assert read(spec) == record


def test_a_misleading_supernet_is_warned_of(shared_spec: MakeSpec) -> None:
    record = search(shared_spec(trials=8, task_args={"misleading": True}))
    assert record.supernet is not None
    assert record.supernet.agreement.correlation == pytest.approx(-1.0)
    assert record.verdict is not None
    assert "below 0.5 and not significantly above 0" in record.verdict.findings[-1]


def test_a_restart_goes_on_with_the_shortlist_and_trains_no_supernet_again(
    shared_spec: MakeSpec, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    args = {"log": str(log)}
    first = search(shared_spec(trials=5, task_args=args))
    assert passes(log) == 2  # one that counts batches, one epoch
    notes = Notes()
    more = search(shared_spec(trials=8, task_args=args), notes)
    assert passes(log) == 2
    assert "supernet" not in notes.phases
    assert more.trials[:5] == first.trials
    assert first.supernet is not None
    assert more.supernet is not None
    assert more.supernet.scores == first.supernet.scores
    whole = search(shared_spec(trials=8, name="whole"))
    assert [trial.plan for trial in more.trials] == [trial.plan for trial in whole.trials]


def test_a_driver_that_dies_after_the_supernet_does_not_train_it_again(
    shared_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    spec = shared_spec(task_args={"log": str(log)})

    def die(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("headtune.study.searching.broker_of", die)
        with pytest.raises(KeyboardInterrupt):
            search(spec)
    assert passes(log) == 2
    assert len(search(spec).trials) == 6
    assert passes(log) == 2


def test_a_begun_study_may_change_its_evaluator_since_its_trials_mean_the_same(shared_spec: MakeSpec) -> None:
    before = search(shared_spec(trials=4, evaluator="train"))
    after = search(shared_spec(trials=7))
    assert after.trials[:4] == before.trials
    assert after.trials[4].plan.label == "2-8" or before.trials[3].plan.label == "2-8"
    back = search(shared_spec(trials=8, evaluator="train"))
    assert back.trials[:7] == after.trials
    assert back.supernet is not None
    assert back.supernet.scores == after.supernet.scores  # type: ignore[union-attr]


def test_the_space_ends_where_its_plans_do(shared_spec: MakeSpec) -> None:
    notes = Notes()
    spec = shared_spec(trials=40, space=SpaceOptions(hold="width", heads=(2, 4), tie="uniform"))
    record = search(spec, notes)
    assert {trial.plan.label for trial in record.trials if trial.in_space} == {"2-2", "4-4"}
    assert any("every plan of the shortlist was tried" in note for note in notes.notes)


def test_latencies_are_predicted_from_measured_plans(shared_spec: MakeSpec) -> None:
    quick = LatencyProtocol(batch_size=2, max_seconds=0.05, min_samples=6)
    notes = Notes()
    record = search(shared_spec(trials=5, objectives=(QUALITY, LATENCY), latency=quick), notes)
    assert record.supernet is not None
    assert record.supernet.ordered_by == {"latency_ms": "predicted latency_ms"}
    assert len({one.costs["latency_ms"] for one in record.supernet.scores}) > 5
    assert any("predicted latency_ms stood in for latency_ms" in note for note in notes.notes)
    assert record.trials[3].plan.label == "2-8"


def test_plans_that_break_a_limit_for_sure_are_not_listed(shared_spec: MakeSpec) -> None:
    space = SpaceOptions(hold="head_dim")
    free = search(shared_spec(trials=4, space=space))
    assert free.supernet is not None
    parameters = {one.plan: one.costs["parameters"] for one in free.supernet.scores}
    most = sorted(parameters.values())[8]
    limited = search(shared_spec(trials=4, space=space, name="limited", limits=(Limit(metric="parameters", max=most),)))
    assert limited.supernet is not None
    assert set(limited.supernet.shortlist) == {plan for plan, count in parameters.items() if count <= most}
    measured = {trial.plan: trial.metrics["parameters"] for trial in free.trials if trial.outcome is Outcome.OK}
    assert measured.items() <= parameters.items()


def test_params_keep_their_baseline_values_and_it_is_said(shared_spec: MakeSpec) -> None:
    notes = Notes()
    record = search(shared_spec(trials=5, params={"lr": FloatParam(low=0.1, high=0.3, default=0.2)}), notes)
    assert {trial.params["lr"] for trial in record.trials} == {0.2}
    assert "lr: every trial has the baseline value, since a supernet chooses plans, not params" in notes.notes


def test_what_a_supernet_lacks_is_told_before_anything_is_paid(shared_spec: MakeSpec) -> None:
    args = {"without": ("evaluate", "batches", "loss"), "lr": True}
    spec = shared_spec(task_args=args, params={"lr": FloatParam(low=0.1, high=0.3)})
    with pytest.raises(TaskError) as caught:
        search(spec)
    assert len(caught.value.problems) == 4
    assert all("`evaluator: train`" in problem for problem in caught.value.problems)
    with open_ledger(spec) as ledger:
        assert ledger.recall("profile") is None


def test_trials_that_the_baselines_use_up_are_refused(shared_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match=r"search\.trials: is 3, and 3 baselines are trained first"):
        search(shared_spec(trials=3))


def test_trained_weights_are_refused(shared_spec: MakeSpec) -> None:
    with pytest.raises(SpecError, match="evaluator: must be train under `weights: keep`"):
        shared_spec(weights="keep", space=SpaceOptions(hold="head_dim"))


def test_a_quality_that_evaluate_does_not_give_is_told_before_the_supernet_is_trained(
    shared_spec: MakeSpec, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with pytest.raises(MetricError, match="evaluate gave no quality"):
        search(shared_spec(task_args={"metric": "other", "log": str(log)}))
    assert passes(log) == 0
