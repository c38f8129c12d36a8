import pytest

from headtune.search.budget import Budget, Tally
from headtune.trial import Signal


def budget(**changes: object) -> Budget:
    return Budget(**({"trials": 10, "concurrent": 3, "timeout_s": None, "baselines": 2} | changes))  # type: ignore[arg-type]


def tally(**changes: object) -> Tally:
    known = {"trained": 0, "failed": 0, "infeasible": 0, "running": 0, "elapsed_s": 0.0}
    return Tally(**(known | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "signal"),
    [
        ({}, None),
        ({"running": 2}, None),
        ({"running": 3}, Signal.WAIT),
        ({"trained": 9, "running": 1}, None),
        ({"trained": 11}, None),
        ({"trained": 9, "failed": 5, "infeasible": 85}, None),
        ({"trained": 9, "failed": 5, "infeasible": 85, "running": 1}, Signal.WAIT),
        ({"trained": 9, "failed": 5, "infeasible": 86}, Signal.DONE),
    ],
)
def test_it_goes_on_as_far_as_starts_and_workers_allow(now: dict[str, int], signal: Signal | None) -> None:
    assert budget().signal(tally(**now)) is signal


@pytest.mark.parametrize(("trained", "running", "room"), [(0, 0, 10), (8, 1, 1), (8, 2, 0), (9, 1, 0), (10, 0, 0)])
def test_those_that_run_may_all_come_to_be_trained(trained: int, running: int, room: int) -> None:
    assert budget().room(tally(trained=trained, running=running)) == room


def test_nothing_waits_for_nothing() -> None:
    for trained in range(12):
        for infeasible in range(0, 110, 7):
            assert budget(concurrent=1).signal(tally(trained=trained, infeasible=infeasible)) is not Signal.WAIT


def test_a_small_study_gets_room_too() -> None:
    assert (budget(trials=2).cap, budget(trials=40).cap) == (50, 400)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ({"trained": 9, "failed": 20, "infeasible": 30}, ""),
        ({"failed": 9}, ""),
        ({"failed": 10}, "the first 10 trials all failed, so no other is started"),
        ({"failed": 10, "trained": 1}, ""),
        (
            {"trained": 4, "failed": 6, "infeasible": 90},
            "100 trials were started and 4 of 10 trained (90 infeasible, 6 failed); "
            "give the constraints or the space more room",
        ),
    ],
)
def test_a_search_that_leads_nowhere_says_so(now: dict[str, int], why: str) -> None:
    assert budget().exceeded(tally(**now)) == why


def test_the_timeout_counts_seconds_over_restarts() -> None:
    timed = budget(timeout_s=7200.0)
    assert timed.signal(tally(elapsed_s=7199.9)) is None
    assert timed.signal(tally(elapsed_s=7200.0, running=1)) is Signal.DONE
    assert timed.exceeded(tally(elapsed_s=7200.0, trained=3)) == (
        "the timeout of 7200 s is over with 3 of 10 trials trained"
    )


def test_many_baselines_are_all_given_a_chance() -> None:
    assert budget(baselines=8).exceeded(tally(failed=15)) == ""
    assert budget(baselines=8).exceeded(tally(failed=16)) != ""
