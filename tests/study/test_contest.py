"""Who takes part in the race of a study, and that a real study runs it and goes on with it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan, SpaceOptions
from headtune.pareto import Objective
from headtune.search import ReplayBroker
from headtune.study import StudySpec, VerifyOptions, search
from headtune.study.contest import Contest
from headtune.trial import Outcome, TrialRecord, TrialResult

MakeSpec = Callable[..., StudySpec]
GOALS = (
    Objective(metric="accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)
SMALL = SpaceOptions(hold="width", heads=(2, 4))


def training(heads: int, accuracy: float, repeat: int = 0, **params: float) -> TrialRecord:
    return TrialRecord(
        number=heads,
        kind="verify" if repeat else "search",
        label="",
        plan=HeadPlan.of({"a": HeadCount(heads, heads, 8)}),
        params=params,
        repeat=repeat,
        seed=repeat,
        outcome=Outcome.OK,
        metrics={"accuracy": accuracy, "latency_ms": float(heads)},
        test_metrics={"test": -accuracy} if repeat else {},
    )


SEARCHED = [training(1, 0.90), training(2, 0.899), training(3, 0.95)]
CONTEST = Contest(SEARCHED, [SEARCHED[0], SEARCHED[2]], GOALS, seeds=3, most=6, near=2)
FIRST = [
    training(heads, base + step, repeat)
    for heads, base in ((1, 0.9), (3, 0.92))
    for repeat, step in ((1, -0.01), (2, 0.0), (3, 0.01))
]


def wanted(trainings: list[TrialRecord]) -> list[tuple[int, int]]:
    done = {(one.number, one.repeat) for one in trainings}
    found = [(one.plan["a"].num_heads, one.repeat) for one in CONTEST.wanted(trainings).needed]
    return [one for one in found if one not in done]


def test_first_the_chosen_get_their_seeds_then_those_near_them_then_the_race_goes_on() -> None:
    assert wanted([]) == [(1, 1), (3, 1), (1, 2), (3, 2), (1, 3), (3, 3)]
    assert wanted(FIRST[:-1]) == [(3, 3)]
    assert wanted(FIRST) == [(2, 1), (2, 2), (2, 3)]
    near = [training(2, 0.86 + 0.001 * repeat, repeat) for repeat in (1, 2, 3)]
    assert wanted([*FIRST, *near]) == [(1, 4), (3, 4)]


def test_plans_with_other_params_are_other_entrants() -> None:
    twins = [training(2, 0.9, lr=0.1), training(2, 0.95, lr=0.2)]
    contest = Contest(twins, twins, GOALS, seeds=1, most=1, near=0)
    assert [dict(one.params) for one in contest.wanted([]).needed] == [{"lr": 0.1}, {"lr": 0.2}]
    standing = contest.standing(twins, [training(2, 0.5, 1, lr=0.1), training(2, 0.6, 1, lr=0.2)])
    assert (standing.needed, standing.best) == ((), 1)


def test_test_scores_are_compared_beside_the_quality() -> None:
    clear = [
        training(heads, base + repeat / 1e4, repeat) for heads, base in ((1, 0.8), (3, 0.9)) for repeat in (1, 2, 3)
    ]
    chosen = [SEARCHED[0], SEARCHED[2]]
    standing = CONTEST.standing(chosen, clear)
    assert CONTEST.better(chosen, standing, clear) == {"accuracy": {(1, 0)}, "test": {(1, 0)}}


def test_a_training_that_failed_is_not_asked_for_again() -> None:
    failed = [replace(one, outcome=Outcome.CRASHED, metrics={}) if one.repeat == 2 else one for one in FIRST]
    assert not {(1, 2), (3, 2)} & set(wanted(failed))


def test_a_study_races_up_to_its_most_seeds_and_goes_on_where_it_was_ended(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_spec(space=SMALL, trials=4, epochs=1, verify=VerifyOptions(top=2, seeds=2, max_seeds=4))
    finish, ended = ReplayBroker.finish, []

    def interrupt(broker: ReplayBroker, number: int, result: TrialResult) -> None:
        ended.append(number)
        if len(ended) == 5:
            raise KeyboardInterrupt
        finish(broker, number, result)

    with monkeypatch.context() as patch:
        patch.setattr(ReplayBroker, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            search(spec)
    record = search(spec)
    done = [(one.plan, one.repeat) for one in record.verify_trials]
    assert len(done) == len(set(done))
    assert all(2 <= finalist.seeds <= 4 for finalist in record.finalists)
    assert sum(finalist.seeds for finalist in record.finalists) == len(done)
    assert all(finalist.front_probability is not None for finalist in record.finalists)
    assert search(spec) == record
