"""Which plans behind the front are judged again."""

from headtune.heads import HeadCount, HeadPlan
from headtune.pareto import Objective
from headtune.study.nearby import near_finalists
from headtune.trial import Outcome, TrialRecord

GOALS = (
    Objective(metric="accuracy", direction="maximize"),
    Objective(metric="latency_ms", direction="minimize"),
)


def trial(number: int, accuracy: float, latency_ms: float, outcome: Outcome = Outcome.OK) -> TrialRecord:
    return TrialRecord(
        number=number,
        kind="search",
        label="",
        plan=HeadPlan.of({"a": HeadCount(number + 1, number + 1, 8)}),
        params={},
        repeat=0,
        seed=0,
        outcome=outcome,
        metrics={"accuracy": accuracy, "latency_ms": latency_ms},
    )


CHOSEN = [trial(0, 0.90, 1.0), trial(1, 0.93, 3.0)]
FRESH = [{"accuracy": (0.89, 0.90, 0.91)}, {"accuracy": (0.92, 0.93, 0.94)}]


def near(*others: TrialRecord, fresh: list[dict[str, tuple[float, ...]]] = FRESH, most: int = 5) -> list[int]:
    return [one.number for one in near_finalists([*CHOSEN, *others], GOALS, CHOSEN, fresh, most)]


def test_a_plan_behind_the_front_by_less_than_the_noise_is_added_and_one_far_behind_is_not() -> None:
    assert near(trial(2, 0.897, 2.0), trial(3, 0.70, 2.0)) == [2]


def test_the_likeliest_come_first_and_no_more_than_asked_for() -> None:
    others = [trial(2, 0.890, 2.0), trial(3, 0.905, 1.9), trial(4, 0.895, 2.1)]
    assert near(*others, most=1) == [3]


def test_little_noise_adds_nothing() -> None:
    quiet = [{"accuracy": (0.9, 0.9001, 0.8999)}, {"accuracy": (0.93, 0.9301, 0.9299)}]
    assert near(trial(2, 0.897, 2.0), fresh=quiet) == []


def test_where_the_noise_is_unknown_nothing_is_added() -> None:
    assert near(trial(2, 0.897, 2.0), fresh=[{"accuracy": (0.9,)}, {"accuracy": (0.93,)}]) == []


def test_what_may_not_be_on_a_front_is_not_added() -> None:
    assert near(trial(2, 0.99, 0.5, outcome=Outcome.STOPPED)) == []
