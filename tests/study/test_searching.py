"""The life of a study, on the tiny task, without workers."""

import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headtune.errors import (
    Infeasible,
    MetricError,
    OtherDeviceError,
    SpaceError,
    StudyChangedError,
    SurgeryError,
    TaskError,
    TrialError,
)
from headtune.heads import HeadDimConstraint, Limit, SpaceOptions
from headtune.pareto import Objective
from headtune.report.front_rows import front_table
from headtune.report.page import render_page
from headtune.report.tables import front_frame, trials_frame
from headtune.study import StudySpec, VerifyOptions, read, search
from headtune.study.narrator import Narrator
from headtune.study.searching import FINISHED
from headtune.timing import LatencyProtocol
from headtune.trial import FloatParam, Outcome, Silent

MakeSpec = Callable[..., StudySpec]
LATENCY = Objective(metric="latency_ms", direction="minimize")
QUALITY = Objective(metric="quality", direction="maximize")


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.phases: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def phase(self, name: str, detail: str = "") -> None:
        self.phases.append(name)


def trainings(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def test_a_study_trains_baselines_then_the_sampler_and_never_a_plan_twice(make_spec: MakeSpec) -> None:
    record = search(make_spec(trials=10))
    assert [trial.label for trial in record.trials[:3]] == ["present", "rule", "largest"]
    assert Counter(trial.kind for trial in record.trials) == {"baseline": 3, "search": 7}
    assert len({trial.plan for trial in record.trials}) == 10
    assert all(trial.outcome is Outcome.OK for trial in record.trials)
    assert record.space_size == 25
    assert record.baselines["smallest"] == record.baselines["rule"]


def test_a_finished_study_costs_nothing_and_more_trials_go_on(make_spec: MakeSpec, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = make_spec({"log": str(log)}, trials=5)
    first = search(spec)
    notes = Notes()
    assert search(spec, notes) == first
    assert (notes.notes, notes.phases) == ([FINISHED], [])
    assert len(trainings(log)) == 5
    more = search(replace(spec, search=replace(spec.search, trials=7)))
    assert more.trials[:5] == first.trials
    assert len(trainings(log)) == 7


def test_the_space_is_exhausted_and_no_plan_repeats(make_spec: MakeSpec) -> None:
    record = search(make_spec(trials=100, epochs=1, space=SpaceOptions(hold="width", heads=(2, 4, 8))))
    searched = {trial.plan for trial in record.trials}
    assert len(searched) == len(record.trials) == 9 + 1  # the rule of thumb, 1-1, lies outside


def test_finalists_are_retrained_with_fresh_seeds_and_scored_on_the_test_data(make_spec: MakeSpec) -> None:
    record = search(make_spec({"test": True}, trials=6, verify=VerifyOptions(top=2, seeds=2, max_seeds=2)))
    assert len(record.verify_trials) == 2 * len(record.finalists)
    search_seeds = {trial.seed for trial in record.trials}
    fresh = {trial.seed for trial in record.verify_trials}
    assert len(search_seeds) == 1
    assert len(fresh) == 2
    assert not search_seeds & fresh
    for finalist in record.finalists:
        assert len(finalist.quality["quality"]) == len(finalist.test["test_quality"]) == 2
    assert record.verdict is not None
    assert record.verdict.recommended is not None


def test_the_storage_gives_back_what_search_returned(make_spec: MakeSpec) -> None:
    spec = make_spec(trials=4, objectives=(QUALITY, LATENCY), latency=LatencyProtocol(batch_size=2, max_seconds=0.1))
    record = search(spec)
    assert read(spec) == record
    assert record.latency_range is not None
    assert record.latency_range.reference_ms == record.latency_range.profiles["present"].median_ms


def test_latencies_of_two_devices_are_never_mixed(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = LatencyProtocol(batch_size=1, max_seconds=0.02, min_samples=6)
    spec = make_spec(trials=4, epochs=1, objectives=(QUALITY, LATENCY), latency=quick)
    begun = search(spec)
    further = replace(spec, search=replace(spec.search, trials=6))
    here = begun.trials[0].latency
    assert here is not None
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("headtune.timing.latency.device_name", lambda device: "Another CPU")
        with pytest.raises(OtherDeviceError) as caught:
            search(further)
    assert str(caught.value) == (
        f"timed on Another CPU of machine {platform.node()}, but the study's reference on {here.device_name}: "
        "latencies of two devices cannot be compared; bind the study to machines with one of them by "
        "resources.accelerator or resources.node, or begin another for the other"
    )
    assert read(spec).trials == begun.trials, "the plan that was tried there is not held against it"
    ended = search(further)
    assert ended.trials[:4] == begun.trials
    assert [trial.outcome for trial in ended.trials] == [Outcome.OK] * 6


def test_a_budget_that_no_plan_meets_ends_before_training(make_spec: MakeSpec, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(Infeasible) as caught:
        search(make_spec({"log": str(log)}, limits=(Limit(metric="parameters", max=100),)))
    assert str(caught.value) == (
        "no plan can meet parameters ≤ 100 weights (at most 100): achievable is 4465 (smallest) to 4465 (smallest); "
        "raise the limit, or make the model smaller in other ways"
    )
    assert trainings(log) == []


def test_a_ratio_is_resolved_against_what_was_measured(make_spec: MakeSpec) -> None:
    limits = (Limit(metric="parameters", max_ratio=1.5, of="present"),)
    record = search(make_spec(trials=4, limits=limits))
    assert record.limits == {"parameters": 1.5 * 4465}
    assert record.constraints == {"parameters": "parameters ≤ 1.5 × present"}


def test_baselines_that_break_a_constraint_are_trained_and_shown_but_not_on_offer(make_spec: MakeSpec) -> None:
    space = SpaceOptions(hold="width", head_dim=HeadDimConstraint(min=8))
    record = search(make_spec(trials=6, space=space))
    present = next(trial for trial in record.trials if trial.label == "present")
    assert present.outcome is Outcome.OK
    assert present.violations == {"head_dim": 4.0}
    assert not present.on_offer
    assert record.space_size == 4  # 1 or 2 heads at each of two sites


def test_extra_params_reach_the_training_and_baselines_take_their_middle(make_spec: MakeSpec) -> None:
    record = search(make_spec(trials=6, params={"lr": FloatParam(low=0.01, high=1.0, log=True)}))
    rates = [trial.params["lr"] for trial in record.trials]
    assert rates[:3] == [pytest.approx(0.1)] * 3
    assert all(0.01 <= float(rate) <= 1.0 for rate in rates)
    assert len(set(rates[3:])) == 3


def test_a_changed_study_is_refused(make_spec: MakeSpec) -> None:
    search(make_spec(trials=3))
    with pytest.raises(StudyChangedError, match=r"epochs: was 2 .* is now 3"):
        search(make_spec(trials=3, epochs=3))


def test_a_study_that_never_started_a_trial_may_be_mended(make_spec: MakeSpec) -> None:
    impossible = make_spec(trials=3, limits=(Limit(metric="parameters", max=100),))
    with pytest.raises(Infeasible):
        search(impossible)
    record = search(make_spec(trials=3, objectives=(QUALITY,), limits=(Limit(metric="parameters", max=10_000),)))
    assert record.limits == {"parameters": 10_000}
    assert len(record.trials) == 3


def test_a_model_with_other_sites_is_refused(make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    search(make_spec(trials=3))
    monkeypatch.setenv("TINY_LAYERS", "3")
    with pytest.raises(StudyChangedError, match="attention sites are not those"):
        search(make_spec(trials=4))


EVERY = ("1", "2", "4", "8", "16")


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "words"), [("raise", "the data is broken"), ("stop", "the task raised StopTrial")])
def test_where_no_trial_comes_to_its_end_the_same_study_begins_anew_once_the_cause_is_mended(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    spec = make_spec({"bad": dict.fromkeys(EVERY, fault)}, trials=3)
    for _ in range(2):
        with pytest.raises(TrialError) as caught:
            search(spec)
        assert len(caught.value.problems) == 1
        assert str(caught.value).startswith("no trial was trained to its end; ")
        assert words in str(caught.value)
        assert {trial.outcome for trial in read(spec).trials} <= {Outcome.CRASHED, Outcome.STOPPED}
    monkeypatch.setenv("TINY_MENDED", "1")
    assert [trial.outcome for trial in search(spec).trials] == [Outcome.OK] * 3


def test_a_timeout_before_the_first_trial_says_so_and_more_time_begins_anew(make_spec: MakeSpec) -> None:
    spec = make_spec(trials=3)
    with pytest.raises(TrialError) as caught:
        search(replace(spec, search=replace(spec.search, timeout_s=1e-9)))
    assert str(caught.value) == (
        "no trial was trained: the timeout of 1e-09 s is over with 0 of 3 trials trained; give it more time "
        "(search.timeout in a study file, timeout_s in Python) and run it again: it begins anew"
    )
    assert len(search(spec).trials) == 3


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ("model=lambda: nn.Linear(16, 1)", SurgeryError, "no attention"),
        ("model=lambda: 3", TaskError, "task.model returned int"),
        ("model=broken", TaskError, "task.model raised ZeroDivisionError"),
    ],
)
def test_a_task_that_cannot_work_is_refused_in_words(
    make_spec: MakeSpec, tmp_path: Path, body: str, error: type[Exception], words: str
) -> None:
    (tmp_path / "bad.py").write_text(
        "import torch, headtune\nfrom torch import nn\n"
        "def broken(): return 1 / 0\n"
        f"task = headtune.Task({body}, inputs=lambda b, s: (torch.randn(b, 5, 16),), train=lambda m, r: None)\n"
    )
    spec = make_spec()
    task = replace(spec.task, base=tmp_path, target="bad.py:task", args={})  # type: ignore[type-var]
    with pytest.raises(error, match=words):
        search(replace(spec, task=task))


def test_a_space_with_the_present_counts_only_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(SpaceError, match="no other plan than the present counts 4-4"):
        search(make_spec(space=SpaceOptions(hold="width", heads=(4,))))


def test_a_task_that_never_reports_the_objective_ends_the_search_at_once_and_begins_anew_when_mended(
    make_spec: MakeSpec, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    wrong = make_spec({"log": str(log), "bad": dict.fromkeys(("1", "2", "4", "8", "16"), "silent")}, trials=3)
    with pytest.raises(MetricError) as caught:
        search(wrong)
    assert caught.value.exit_code == 2
    assert "first training shows: never reported quality; it reported other" in str(caught.value)
    assert len(trainings(log)) == 1
    mended = search(make_spec({"log": str(log)}, trials=3))
    assert [trial.outcome for trial in mended.trials] == [Outcome.OK] * 3


def test_a_plan_that_alone_reports_other_things_costs_only_its_trial(make_spec: MakeSpec) -> None:
    record = search(make_spec({"bad": {"16": "silent"}}, trials=5))
    by_outcome = Counter(trial.outcome for trial in record.trials)
    assert by_outcome[Outcome.OK] == 5
    assert all(trial.plan.counts[0][1].num_heads == 16 for trial in record.trials if trial.outcome is Outcome.CRASHED)


def test_a_baseline_outside_of_the_space_is_marked_everywhere_and_never_recommended(
    make_spec: MakeSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    # Under head_dim the rule of thumb, 1-1, is the smallest plan by far.
    space = SpaceOptions(hold="head_dim", heads=(2, 3))
    spec = make_spec(space=space, trials=7, epochs=1, verify=VerifyOptions(top=9, seeds=1, max_seeds=1))
    record = search(spec, Narrator())
    outside = {trial.plan.label for trial in record.trials if trial.plan.label not in ("2-2", "2-3", "3-2", "3-3")}
    assert outside == {"4-4", "1-1"}
    assert {trial.plan.label for trial in record.trials if not trial.in_space} == outside
    assert {trial.plan.label for trial in record.verify_trials if not trial.in_space} == outside
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    assert record.finalists[record.verdict.recommended].in_space
    for frame in (trials_frame(record), front_frame(record)):
        assert set(frame["plan"][~frame["in_space"].astype(bool)]) <= {
            str(record.present),
            str(record.baselines["rule"]),
        }
        assert not frame["in_space"].all()
    page = render_page(record, front_table(record), {})
    assert page.count('<span class="tag">outside the space</span>') >= 2
    assert page.count("rule of thumb, outside the space") == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if "outside the space" in line]
    again = next(trial.number for trial in record.verify_trials if trial.label == "rule")
    assert [line.split(":")[1].strip() for line in lines if "(rule" in line] == [
        "trial 1 (rule, outside the space) 1-1",
        f"verification {again} (rule, outside the space) 1-1",
    ]
