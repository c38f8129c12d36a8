from dataclasses import replace

import pytest

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.search.stopping import rungs, should_stop, stoppable
from headtune.trial import Outcome, TrialRecord

ACCURACY = Objective(metric="accuracy", direction="maximize")
LOSS = Objective(metric="loss", direction="minimize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
SIZE = Objective(metric="parameters", direction="minimize")
PLAN = HeadPlan.of({"a": HeadCount(4, 4, 8)})


def trial(number: int, value: float | None, latency_ms: float = 1.0, step: int = 4, **changes: object) -> TrialRecord:
    record = TrialRecord(
        number=number,
        kind="search",
        label="",
        plan=PLAN,
        params={},
        repeat=0,
        seed=0,
        outcome=Outcome.OK,
        metrics={"latency_ms": latency_ms, "parameters": 10.0},
        curve=() if value is None else ((step, value),),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        (1, ()),
        (2, ()),
        (3, ()),
        (4, (2,)),
        (9, (3,)),
        (10, (2, 4)),
        (12, (2, 4)),
        (27, (3, 9)),
        (100, (12, 34)),
    ],
)
def test_rungs_are_a_ninth_and_a_third_rounded_up_but_never_the_first_report(
    epochs: int, expected: tuple[int, ...]
) -> None:
    assert rungs(epochs) == expected


# A judged trial with accuracy 0.5 and latency 2.0 at report 4 of 12; others as (accuracy, latency).
TABLE = [
    ("two of three better", [(0.6, 1.0), (0.6, 2.0), (0.4, 1.0)], True),
    ("one of three better", [(0.6, 1.0), (0.4, 2.0), (0.4, 1.0)], False),
    ("equal is not better", [(0.5, 1.0), (0.6, 2.0), (0.4, 1.0)], False),
    ("two are too few", [(0.9, 1.0), (0.9, 1.0)], False),
    ("slower ones do not count", [(0.9, 2.1), (0.9, 3.0), (0.9, 9.0), (0.6, 1.0), (0.6, 1.0)], False),
    ("nor do they protect", [(0.1, 2.1), (0.1, 3.0), (0.1, 9.0), (0.6, 1.0), (0.6, 1.0), (0.6, 2.0)], True),
    ("three of five better", [(0.6, 1.0)] * 3 + [(0.4, 1.0)] * 2, False),
    ("four of six better", [(0.6, 1.0)] * 4 + [(0.4, 1.0)] * 2, True),
    ("nobody else", [], False),
]


@pytest.mark.parametrize(("others", "stops"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_rule_by_hand(others: list[tuple[float, float]], stops: bool) -> None:
    judged = trial(0, 0.5, 2.0, outcome=None)
    peers = [judged, *(trial(number, *point) for number, point in enumerate(others, start=1))]
    assert should_stop(judged, 4, peers, (ACCURACY, LATENCY), 12) is stops
    # The same with a quality that is minimised.
    mirrored = [replace(peer, curve=((4, 1 - peer.curve[0][1]),)) for peer in peers]
    assert should_stop(mirrored[0], 4, mirrored, (LATENCY, LOSS), 12) is stops


@pytest.mark.parametrize("step", [3, 5, 12])
def test_only_rungs_judge(step: int) -> None:
    peers = [trial(number, 0.9, step=step) for number in range(1, 5)]
    assert not should_stop(trial(0, 0.1, step=step), step, peers, (ACCURACY, LATENCY), 12)


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"outcome": None}, True),
        ({"outcome": Outcome.STOPPED}, True),
        ({"kind": "baseline"}, True),
        ({"outcome": Outcome.CRASHED}, False),
        ({"outcome": Outcome.DIVERGED}, False),
        ({"violations": {"memory": 1.0}}, False),
        ({"violations": {"memory": -1.0}}, True),
        ({"curve": ((3, 0.9),)}, False),
        ({"metrics": {"parameters": 10.0}}, False),
    ],
)
def test_who_is_compared_with(changes: dict[str, object], counts: bool) -> None:
    peers = [trial(1, 0.9), trial(2, 0.9), trial(3, 0.9, **changes)]
    assert should_stop(trial(0, 0.1), 4, peers, (ACCURACY, LATENCY), 12) is counts


def test_every_measured_objective_must_be_at_least_as_good() -> None:
    peers = [trial(n, 0.9, metrics={"latency_ms": 0.5, "parameters": 11.0}) for n in range(1, 4)]
    assert should_stop(trial(0, 0.1), 4, peers, (ACCURACY, LATENCY), 12)
    assert not should_stop(trial(0, 0.1), 4, peers, (ACCURACY, LATENCY, SIZE), 12)


def test_without_a_measured_objective_nobody_is_slower() -> None:
    peers = [trial(n, 0.9, 99.0, metrics={}) for n in range(1, 4)]
    assert should_stop(trial(0, 0.1), 4, peers, (ACCURACY,), 12)


def test_a_trial_that_was_never_measured_or_reported_goes_on() -> None:
    peers = [trial(n, 0.9) for n in range(1, 4)]
    assert not should_stop(trial(0, 0.1, metrics={}), 4, peers, (ACCURACY, LATENCY), 12)
    assert not should_stop(trial(0, None), 4, peers, (ACCURACY, LATENCY), 12)


def test_a_curve_of_one_of_several_qualities_judges_nobody() -> None:
    peers = [trial(n, 0.9) for n in range(1, 4)]
    assert not should_stop(trial(0, 0.1), 4, peers, (ACCURACY, LOSS, LATENCY), 12)
    assert [stoppable(goals) for goals in ((ACCURACY,), (ACCURACY, LATENCY), (ACCURACY, LOSS), (LATENCY,))] == [
        True,
        True,
        False,
        False,
    ]
