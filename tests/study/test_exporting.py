"""The model that is taken away is the one that the study judged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headtune
from headtune.errors import PlanError, StorageError
from headtune.heads import HeadPlan, SpaceOptions
from headtune.pareto import Objective
from headtune.study import StudySpec, VerifyOptions, search
from headtune.study.exporting import planned_model
from headtune.surgery import find_sites
from headtune.trial import TaskReference
from headtune.trial.importing import import_file

MakeSpec = Callable[..., StudySpec]
TASKS = Path(__file__).parents[1] / "tasks"
LIKENESS = Objective(metric="likeness", direction="maximize")
PARAMETERS = Objective(metric="parameters", direction="minimize")


def keeping(make_spec: MakeSpec, args: dict[str, Any] | None = None, **changes: Any) -> StudySpec:
    values = {
        "task": TaskReference(target="trained.py:task", base=TASKS, args=args or {}),
        "space": SpaceOptions(hold="head_dim"),
        "weights": "keep",
        "objectives": (LIKENESS, PARAMETERS),
        "trials": 6,
        "verify": VerifyOptions(top=2, seeds=1, max_seeds=1),
    }
    return make_spec(**values | changes)


def test_the_recommended_model_is_the_one_that_the_verification_trained(make_spec: MakeSpec) -> None:
    spec = make_spec({"test": True}, trials=5, verify=VerifyOptions(top=2, seeds=2, max_seeds=2))
    record = search(spec)
    assert record.verdict is not None
    assert record.verdict.recommended is not None
    chosen = record.finalists[record.verdict.recommended]
    made = planned_model(spec)
    assert made.skeleton.plan == chosen.plan
    assert HeadPlan.present(find_sites(made.model, made.inputs)) == chosen.plan
    assert not made.model.training
    score = import_file(TASKS / "tiny.py", "tiny").score
    assert score(made.model, 1) == chosen.quality["quality"][0]  # trained on the first fresh seed
    assert score(made.model, 2) == chosen.test["test_quality"][0]
    assert made.origin.startswith("the model that the verification left in ")


@pytest.mark.slow
def test_a_named_plan_of_a_trained_model_keeps_the_studys_heads(make_spec: MakeSpec) -> None:
    spec = keeping(make_spec)
    search(spec)
    module = import_file(TASKS / "trained.py", "trained")
    made = planned_model(spec, "layers.0=3 layers.1=2")
    x = module.data(5)
    truth = headtune.prune(module.trained(4), {"layers.0": [1, 2, 3], "layers.1": [0, 1]}, (x,))
    with torch.no_grad():
        assert torch.equal(made.model(x), truth(x))
    assert made.origin == "the heads that the study left of the trained model" or "verification" in made.origin


@pytest.mark.slow
def test_without_models_the_plan_is_applied_again(make_spec: MakeSpec) -> None:
    spec = keeping(make_spec, {"trains": True}, verify=VerifyOptions(top=2, seeds=0))
    search(spec)
    made = planned_model(spec, "*=2")
    assert made.origin == "the trained model with heads pruned: it is not trained on, since no finalist has this plan"
    fresh = make_spec(trials=4, name="fresh")
    search(fresh)
    made = planned_model(fresh, "*=8")
    assert [site.num_heads for site in find_sites(made.model, made.inputs)] == [8, 8]
    assert made.origin == (
        "what the task's model returns with the plan applied: it is not trained, since no finalist has this plan"
    )


@pytest.mark.slow
def test_more_heads_than_were_trained_are_refused(make_spec: MakeSpec) -> None:
    spec = keeping(make_spec, space=SpaceOptions(hold="head_dim", heads=(1, 2, 4)))
    search(spec)
    with pytest.raises(PlanError, match="5 heads are more than the present 4"):
        planned_model(spec, "*=5")


def test_a_study_that_recommends_nothing_yet_is_refused(make_spec: MakeSpec) -> None:
    spec = make_spec()
    with pytest.raises(StorageError):
        planned_model(spec)
    from headtune.study.driver import check_and_remember, open_ledger
    from headtune.trial import Silent

    with open_ledger(spec) as ledger:
        check_and_remember(spec, ledger, Silent())
    with pytest.raises(StorageError) as caught:
        planned_model(spec)
    assert str(caught.value) == (
        "study 'tiny' recommends no plan yet: run the search to its end, or name a plan with --plan"
    )
