"""What may not change between two starts, and what may."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from headtune.errors import StudyChangedError
from headtune.heads import HeadRange, Limit, SpaceOptions, Stages
from headtune.pareto import Objective
from headtune.search.fingerprint import check_unchanged
from headtune.study import Resources, StudySpec, VerifyOptions
from headtune.study.fingerprint import fingerprint, versions
from headtune.timing import LatencyProtocol
from headtune.trial import FloatParam

MakeSpec = Callable[..., StudySpec]


@pytest.mark.parametrize(
    "changes",
    [
        {"space": SpaceOptions(hold="head_dim")},
        {"space": SpaceOptions(hold="width", heads=HeadRange(min=1, max=4))},
        {"space": SpaceOptions(hold="width", tie=Stages(2))},
        {"objectives": (Objective(metric="loss", direction="minimize"),)},
        {"limits": (Limit(metric="parameters", max=10_000),)},
        {"latency": LatencyProtocol(batch_size=1)},
        {"params": {"lr": FloatParam(low=0.1, high=1.0)}},
        {"seed": 1},
        {"epochs": 9},
        {"task_args": {"layers": 3}},
    ],
)
def test_what_changes_the_meaning_is_in_it(make_spec: MakeSpec, changes: dict[str, object]) -> None:
    assert fingerprint(make_spec(**changes)) != fingerprint(make_spec())


def test_more_trials_other_verification_and_resources_are_not_in_it(make_spec: MakeSpec) -> None:
    spec = make_spec()
    other = replace(
        make_spec(trials=99, sampler="gp"),
        verify=VerifyOptions(top=9, seeds=9, max_seeds=9),
        resources=Resources(concurrent=7),
        executor="ray",
    )
    assert fingerprint(other) == fingerprint(spec)


def test_it_is_json_and_the_same_after_a_round_trip(make_spec: MakeSpec) -> None:
    found = fingerprint(make_spec(space=SpaceOptions(hold="width", tie=Stages(2))))
    assert json.loads(json.dumps(found)) == found


def test_versions_name_what_a_number_depends_on() -> None:
    assert versions().keys() >= {"python", "platform", "headtune", "torch", "optuna", "ray"}


LR, WD = FloatParam(low=0.1, high=1.0), FloatParam(low=0.0, high=0.1)


@pytest.mark.parametrize(
    ("before", "now"),
    [({}, {"lr": LR}), ({"lr": LR, "wd": WD}, {}), ({"lr": LR}, {"lr": WD, "wd": LR})],
)
def test_params_that_changed_are_one_line_with_the_remedy(
    make_spec: MakeSpec, before: dict[str, FloatParam], now: dict[str, FloatParam]
) -> None:
    with pytest.raises(StudyChangedError) as caught:
        check_unchanged("tiny", fingerprint(make_spec(params=before)), fingerprint(make_spec(params=now)))
    assert len(caught.value.problems) == 1
    assert str(caught.value).startswith("space.params: was {")
    assert str(caught.value).endswith("change it back, or choose another name or output")
