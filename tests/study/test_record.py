"""What a study knows, as values."""

import pickle
from collections.abc import Callable
from dataclasses import replace

from headtune.heads import HeadCount, HeadPlan, HeadRanking, SpaceOptions
from headtune.pareto import Objective
from headtune.study import Finalist, StudyRecord, StudySpec, Verdict, search

FOUR, TWO = (HeadPlan.of({"a": HeadCount(n, n, 16 // n), "b": HeadCount(n, n, 16 // n)}) for n in (4, 2))

FINALIST = Finalist(
    plan=FOUR,
    params={"lr": 0.1},
    labels=("present", "largest"),
    measured={"latency_ms": 1.25, "parameters": 4465},
    latency=None,
    quality={"accuracy": (0.9, 0.8), "f1": (0.5, 0.25)},
    test={},
    tied_with_best=True,
    feasible=True,
)
RECORD = StudyRecord(
    name="vit",
    task="train.py:task",
    seed=0,
    hold="width",
    weights="fresh",
    sites=(),
    objectives=(Objective(metric="accuracy", direction="maximize"),),
    constraints={},
    limits={},
    space_size=25,
    sampler="gp",
    trials_asked=40,
    epochs=10,
    latency=None,
    latency_range=None,
    baselines={"present": FOUR, "rule": TWO},
    trials=(),
)


def test_a_finalist_may_be_recommended_where_it_is_feasible_and_in_the_space() -> None:
    assert FINALIST.able
    assert not replace(FINALIST, feasible=False).able
    assert not replace(FINALIST, in_space=False).able


def test_a_finalist_counts_its_trainings() -> None:
    assert FINALIST.seeds == 2
    assert replace(FINALIST, quality={"accuracy": (), "f1": ()}).seeds == replace(FINALIST, quality={}).seeds == 0


def test_a_finalist_shows_its_counts_and_what_it_reaches() -> None:
    assert repr(FINALIST) == (
        "Finalist('4-4' (present, largest), 2 seeds, accuracy=0.85, f1=0.375, latency_ms=1.25, parameters=4465)"
    )
    untrained = replace(FINALIST, labels=(), quality={"accuracy": ()}, measured={"parameters": 9})
    assert repr(untrained) == "Finalist('4-4', 0 seeds, parameters=9)"


def test_a_record_shows_how_far_it_is() -> None:
    assert RECORD.present == FOUR
    assert repr(RECORD) == "StudyRecord('vit', 0 trials, 0 finalists, nothing recommended)"
    hopeless = replace(RECORD, finalists=(FINALIST,), verdict=Verdict(recommended=None, rule="none is feasible"))
    assert repr(hopeless) == "StudyRecord('vit', 0 trials, 1 finalists, nothing recommended)"
    done = replace(hopeless, verdict=Verdict(recommended=0, rule="the best"))
    assert repr(done) == "StudyRecord('vit', 0 trials, 1 finalists, recommended '4-4')"


def test_it_is_a_value_that_crosses_processes() -> None:
    done = replace(RECORD, finalists=(FINALIST,))
    assert pickle.loads(pickle.dumps(done)) == done


def test_heads_that_stay_are_known_where_weights_are_kept(make_spec: Callable[..., StudySpec]) -> None:
    record = search(make_spec(trials=4, space=SpaceOptions(hold="head_dim")))
    assert record.kept(record.present) is None
    ranking = HeadRanking(scores=dict.fromkeys(record.present.paths, (1.0, 4.0, 2.0, 3.0)), criterion="norm")
    two = HeadPlan.of({path: HeadCount(2, 2, 4) for path in record.present.paths})
    mask = replace(record, ranking=ranking).kept(two)
    assert mask is not None
    assert mask.to_json() == {path: [1, 3] for path in two.paths}
