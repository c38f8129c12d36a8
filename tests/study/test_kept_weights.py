"""A study over a trained model, end to end: heads are ranked once, pruned as planted, scored without training."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import headtune
from headtune.errors import SpecError, StudyChangedError, TaskError
from headtune.heads import HeadCount, HeadPlan, SpaceOptions
from headtune.pareto import Objective
from headtune.report import write_report
from headtune.report.tables import trials_frame
from headtune.search import Ledger
from headtune.study import StudyRecord, StudySpec, VerifyOptions, check, read, search
from headtune.study.driver import RANKED
from headtune.study.exporting import planned_model
from headtune.trial import Outcome, Silent, TaskReference
from headtune.trial.importing import import_file

MakeSpec = Callable[..., StudySpec]
TASKS = Path(__file__).parents[1] / "tasks"
GOALS = (Objective(metric="likeness", direction="maximize"), Objective(metric="parameters", direction="minimize"))
BEST = {"layers.0": [1, 3, 2, 0], "layers.1": [0, 1, 3, 2]}
"""The heads of the planted model, the worthiest first."""


class Notes(Silent):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def note(self, message: str) -> None:
        self.heard.append(message)

    def phase(self, name: str, detail: str = "") -> None:
        self.heard.append(f"{name}: {detail}")


def keeping(make_spec: MakeSpec, args: dict[str, Any] | None = None, **changes: Any) -> StudySpec:
    values = {
        "task": TaskReference(target="trained.py:task", base=TASKS, args=args or {}),
        "space": SpaceOptions(hold="head_dim"),
        "weights": "keep",
        "objectives": GOALS,
        "trials": 20,
        "sampler": "auto",
        "verify": VerifyOptions(top=4, seeds=3, max_seeds=3),
    }
    return make_spec(**values | changes)


def likeness(plan: HeadPlan) -> float:
    """What a plan must score: the planted best heads, left by hand."""
    module = import_file(TASKS / "trained.py", "trained")
    mask = {path: sorted(BEST[path][: count.num_heads]) for path, count in plan}
    model = headtune.prune(module.trained(4), mask, (module.data(9),))
    return float(module.likeness(model, 4, 0))


@pytest.mark.slow
def test_every_plan_scores_as_the_model_pruned_by_hand(make_spec: MakeSpec) -> None:
    notes = Notes()
    record = search(keeping(make_spec), notes)
    assert record.space_size == len(record.trials) == 16
    for trial in record.trials:
        assert trial.outcome is Outcome.OK
        assert trial.curve == ()
        assert trial.metrics["likeness"] == likeness(trial.plan)
    assert (record.trains, record.weights) == (False, "keep")
    assert RANKED["gradient"] in notes.heard
    assert f"verify: finalists: {len(record.finalists)}, nothing is trained, so each is scored once" in notes.heard


@pytest.mark.slow
def test_more_heads_are_never_fewer_of_the_best(make_spec: MakeSpec) -> None:
    record = search(keeping(make_spec))
    rows = trials_frame(record)
    assert set(rows["kept:layers.0"]) == {"1", "1 3", "1 2 3", "0 1 2 3"}
    assert set(rows["kept:layers.1"]) == {"0", "0 1", "0 1 3", "0 1 2 3"}


@pytest.mark.slow
def test_finalists_are_scored_once_and_their_differences_are_exact(make_spec: MakeSpec) -> None:
    record = search(keeping(make_spec))
    assert len(record.verify_trials) == len(record.finalists)
    searched = {trial.plan: trial.metrics["likeness"] for trial in record.trials}
    for finalist in record.finalists:
        assert finalist.quality == {"likeness": (searched[finalist.plan],)}
        assert len(finalist.test["test_likeness"]) == 1
        assert finalist.tied_with_best == ("present" in finalist.labels)
    assert record.verdict is not None
    assert (
        record.verdict.findings[0] == "Nothing was trained: each plan was scored once, and equal means exactly equal."
    )


@pytest.mark.slow
def test_finalists_models_load_back_to_the_last_bit(make_spec: MakeSpec) -> None:
    spec = keeping(make_spec, {"kv_heads": 2}, space=SpaceOptions(hold="head_dim", kv_heads="auto"))
    record = search(spec)
    assert spec.output is not None
    module = import_file(TASKS / "trained.py", "trained")
    folders = sorted((spec.output / "models").iterdir())
    assert len(folders) == len(record.finalists)
    scores = {module.likeness(headtune.load(folder, lambda: module.Stack(2)), 2, 0) for folder in folders}
    assert scores == {finalist.quality["likeness"][0] for finalist in record.finalists}


@pytest.mark.slow
def test_heads_are_ranked_once_and_a_restart_goes_by_it(make_spec: MakeSpec, tmp_path: Path) -> None:
    log = tmp_path / "log"
    spec = keeping(make_spec, {"log": str(log)}, trials=4)
    first = search(spec)
    more = search(replace(spec, search=replace(spec.search, trials=8)))
    assert log.read_text().splitlines() == ["asked"]
    assert more.ranking == first.ranking == read(spec).ranking
    assert more.trials[: len(first.trials)] == first.trials
    assert Ledger.read(spec.storage, spec.name).recall("ranking")["criterion"] == "gradient"


@pytest.mark.slow
def test_without_a_loss_the_norms_rank(make_spec: MakeSpec) -> None:
    notes = Notes()
    record = search(keeping(make_spec, {"scored": False}, trials=4), notes)
    assert record.ranking is not None
    assert record.ranking.criterion == "norm"
    assert RANKED["norm"] in notes.heard
    assert len(record.trials) == 4
    assert all(trial.metrics["likeness"] == likeness(trial.plan) for trial in record.trials)


@pytest.mark.slow
def test_grouped_heads_go_as_groups_or_alike_and_are_merged(make_spec: MakeSpec) -> None:
    spec = keeping(make_spec, {"kv_heads": 2}, space=SpaceOptions(hold="head_dim", kv_heads="auto", tie="uniform"))
    record = search(spec)
    counts = {tuple(trial.plan["layers.0"])[:2] for trial in record.trials}
    assert counts == {(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)}
    assert {trial.outcome for trial in record.trials} == {Outcome.OK}


@pytest.mark.slow
def test_where_the_task_trains_pruned_models_are_trained_on(make_spec: MakeSpec) -> None:
    record = search(
        keeping(make_spec, {"trains": True}, trials=6, epochs=3, verify=VerifyOptions(top=2, seeds=2, max_seeds=2))
    )
    assert record.trains
    assert len(record.trials) == 6
    for trial in record.trials:
        assert len(trial.curve) == 3
        if "present" not in trial.label:
            assert trial.metrics["likeness"] > likeness(trial.plan)  # it learns to be like the whole model again
    assert len(record.verify_trials) == 2 * len(record.finalists)


def test_the_check_says_what_it_goes_by(make_spec: MakeSpec) -> None:
    checked = check(keeping(make_spec, {"scored": False}))
    assert checked.locked == (
        "no train: a pruned model is scored as it is",
        "no loss with batches: heads are ranked by the norms of their weights, not by gradients",
    )
    assert not checked.trains
    assert check(keeping(make_spec, {"trains": True})).locked == ()


def test_the_rule_of_thumb_never_adds_heads(make_spec: MakeSpec) -> None:
    checked = check(keeping(make_spec))
    assert checked.baselines["rule"] == HeadPlan.of(dict.fromkeys(BEST, HeadCount(1, 1, 4)))  # 16 features: one head
    assert checked.baselines["largest"] == checked.baselines["present"]


def test_a_width_that_stays_is_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError) as caught:
        keeping(make_spec, space=SpaceOptions(hold="width"))
    assert str(caught.value) == (
        "space.hold: must be head_dim under `weights: keep`: trained heads that are split anew are scrambled"
    )


def test_fresh_weights_that_nothing_trains_are_refused(make_spec: MakeSpec) -> None:
    with pytest.raises(TaskError) as caught:
        check(keeping(make_spec, weights="fresh"))
    assert str(caught.value) == (
        "task trained.py:task: has no train, but `weights: fresh` trains each plan; give train=(model, run), "
        "or write `weights: keep` to score a trained model as it is"
    )


@pytest.mark.slow
def test_the_report_claims_no_seeds(make_spec: MakeSpec, tmp_path: Path) -> None:
    record: StudyRecord = search(keeping(make_spec, trials=6))
    write_report(record, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "Nothing was trained: each plan was scored once" in page
    assert "the gradient of a gate on each" in page
    assert "one seed, so its noise is unknown" not in page
    assert "Student’s t" not in page


@pytest.mark.slow
def test_ray_finds_the_same_as_this_process(make_spec: MakeSpec, tmp_path: Path) -> None:
    inline = search(keeping(make_spec, storage=f"sqlite:///{tmp_path / 'inline.db'}"))
    in_ray = search(keeping(make_spec, storage=f"sqlite:///{tmp_path / 'ray.db'}", executor="ray"))
    assert in_ray.ranking == inline.ranking
    assert {trial.plan: trial.metrics for trial in in_ray.trials} == {
        trial.plan: trial.metrics for trial in inline.trials
    }
    assert torch.get_num_threads() == 1


FILE = """
import pathlib
import sys

import torch

import headtune

sys.path.insert(0, {tasks!r})
import trained

HERE = pathlib.Path(__file__).parent


class Judge(torch.nn.Module):
    \"\"\"The trained stack, with a new head on it.\"\"\"

    def __init__(self):
        super().__init__()
        self.stack = trained.Stack(4)
        self.head = torch.nn.Linear(trained.WIDTH, trained.WIDTH)

    def forward(self, x):
        return self.head(self.stack(x))


def model():
    made = Judge()
    if (HERE / "weights.pt").exists():
        made.stack.load_state_dict(torch.load(HERE / "weights.pt"))
    return made


task = headtune.Task(
    model=model,
    inputs=lambda batch_size, seq_len: (torch.randn(batch_size, 5, trained.WIDTH),),
    evaluate=lambda model: {{"likeness": model(trained.data(0)).detach().square().mean().item()}},
)
"""


def from_a_file(make_spec: MakeSpec, tmp_path: Path, **changes: Any) -> StudySpec:
    """A study of a checkpoint beside its task's file, under a head that is drawn anew."""
    (tmp_path / "judge.py").write_text(FILE.format(tasks=str(TASKS)))
    return keeping(make_spec, task=TaskReference(target="judge.py:task", base=tmp_path), **changes)


def write_checkpoint(tmp_path: Path, bias: float) -> None:
    stack = import_file(TASKS / "trained.py", "trained").trained(4)
    state = {name: tensor.clone() for name, tensor in stack.state_dict().items()}
    state["layers.1.out.bias"] += bias
    torch.save(state, tmp_path / "weights.pt")


def test_a_study_does_not_go_on_over_another_checkpoint(make_spec: MakeSpec, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 0.0)
    first = search(from_a_file(make_spec, tmp_path, trials=2, verify=VerifyOptions(top=1, seeds=0)))
    more = from_a_file(make_spec, tmp_path, trials=3, verify=VerifyOptions(top=1, seeds=0))
    write_checkpoint(tmp_path, 1.0)
    for work in (search, lambda spec: planned_model(spec, "*=1")):
        with pytest.raises(StudyChangedError) as caught:
            work(more)
        assert str(caught.value) == (
            "the checkpoint that model() returns is another one than study 'tiny' began with: choose another name or "
            "output, or bring the checkpoint back"
        )
    write_checkpoint(tmp_path, 0.0)
    assert search(more).trials[:2] == first.trials


def test_weights_that_are_kept_are_not_drawn_anew_in_an_attention_block(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = from_a_file(make_spec, tmp_path)
    with pytest.raises(TaskError) as caught:
        check(spec)
    assert str(caught.value) == (
        "task.model returns other weights each time it is called, as at stack.layers.0; load the checkpoint in it, "
        "or write `weights: fresh`"
    )
    write_checkpoint(tmp_path, 0.0)
    found = check(spec).kept
    assert check(replace(spec, seed=5)).kept == found != ""  # the head, which is drawn anew, is no part of it
    assert check(make_spec()).kept == ""
