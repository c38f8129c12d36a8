"""Moves on a problem with two sites whose quality and latency are known."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest

from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.search.codec import Codec
from headtune.search.surrogate import Move, Surrogate
from headtune.search.surrogate.decision import pauses_of
from headtune.trial import Outcome, TrialRecord

GOALS = (Objective(metric="accuracy", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
SITES = tuple(
    AttentionSite(path=f"layer.{n}", role="self", embed_dim=64, num_heads=16, num_kv_heads=16, head_dim=4)
    for n in range(2)
)
CHOICES = (1, 2, 4, 8, 16)
CODEC = Codec(SearchSpace.of(SITES, SpaceOptions(hold="head_dim", heads=CHOICES)), {})
EPOCHS = 6


def plan(*heads: int) -> HeadPlan:
    return HeadPlan.of({site.path: HeadCount(n, n, 4) for site, n in zip(SITES, heads, strict=True)})


def heads_of(plan: HeadPlan) -> tuple[int, ...]:
    return tuple(count.num_heads for _, count in plan)


def accuracy(heads: Sequence[int]) -> float:
    """Only the second site matters."""
    return 1 - 0.5 / heads[1]


def record(
    number: int, *heads: int, outcome: Outcome | None = Outcome.OK, limit: float = 100.0, better: float = 0.0
) -> TrialRecord:
    latency, quality = 1.0 + 0.1 * sum(heads), accuracy(heads) + better
    reached = EPOCHS if outcome is Outcome.OK else pauses_of(EPOCHS, 8)[-1] if outcome is Outcome.PAUSED else 0
    return TrialRecord(
        number=number,
        kind="baseline" if number < 3 else "search",
        label="",
        plan=plan(*heads),
        params={},
        repeat=0,
        seed=0,
        outcome=outcome,
        metrics={"latency_ms": latency} | ({"accuracy": quality} if outcome is Outcome.OK else {}),
        violations={"latency_ms": latency - limit},
        curve=tuple((step, quality * (0.4 + 0.1 * step)) for step in range(1, reached + 1)),
    )


def surrogate(**changes: object) -> Surrogate:
    found = Surrogate.of(CODEC, GOALS, ["latency_ms"], **({"epochs": EPOCHS, "concurrent": 8} | changes))  # type: ignore[arg-type]
    assert found is not None
    return found


def move(records: Sequence[TrialRecord], *, fresh: bool = True, barred: Sequence[HeadPlan] = ()) -> Move | None:
    return surrogate().move(records, Random(0), barred=barred, fresh=fresh, pauses=True)


BASELINES = (record(0, 1, 1), record(1, 16, 16), record(2, 4, 4))
KNOWN = (*BASELINES, record(3, 1, 16), record(4, 4, 16), record(5, 8, 1), record(6, 16, 2))


def test_one_of_many_that_are_begun_at_once_pauses_after_each_third_of_its_reports() -> None:
    every = (1, 2, 3, 6, 12, 100)
    assert [pauses_of(epochs, concurrent=8) for epochs in every] == [(), (), (2,), (2, 4), (4, 8), (34, 67)]
    found = move(BASELINES)
    assert found is not None
    assert found.until == 2
    paused = record(3, 1, 16, outcome=Outcome.PAUSED)
    paused = replace(paused, curve=paused.curve[:2])
    again = move([*BASELINES, paused], fresh=False)
    assert again is not None
    assert (again.waiting, again.until) == (paused, 4)


def test_one_of_few_is_trained_to_its_end() -> None:
    assert pauses_of(12, concurrent=3) == ()
    found = surrogate(concurrent=3).move(BASELINES, Random(0), barred=(), fresh=True, pauses=True)
    assert found is not None
    assert found.until is None


def test_new_trainings_are_begun_up_to_the_pause_and_find_what_matters() -> None:
    records = list(BASELINES)
    for number in range(3, 16):  # two of them are uniform
        found = move(records)
        assert found is not None
        if found.waiting is None:
            assert found.until == pauses_of(EPOCHS, 8)[0]
            heads = tuple(CHOICES[found.encoded[site.path]] for site in SITES)
            records.append(record(number, *heads))
        else:
            records.append(record(number, *heads_of(found.waiting.plan)))
    begun = [heads_of(one.plan) for one in records[3:]]
    slow = sum(heads[0] > heads[1] for heads in begun)
    assert slow <= 2, "by chance it would be five: the first site's heads cost and do not help"
    assert sum(heads[0] == 1 for heads in begun) >= 3
    assert {(1, 16), (2, 16)} <= set(begun), "all of the quality for half of the latency"


def test_a_paused_training_that_promises_the_front_goes_on_to_its_end() -> None:
    paused = record(3, 1, 16, outcome=Outcome.PAUSED)
    found = move([*BASELINES, paused], fresh=False)
    assert found is not None
    assert found.waiting is paused
    assert found.until is None


def test_one_that_promises_nothing_is_left() -> None:
    assert move([*KNOWN, record(9, 16, 1, outcome=Outcome.PAUSED)], fresh=False) is None


def test_without_paused_ones_and_without_room_nothing_is_left_to_do() -> None:
    assert move(BASELINES, fresh=False) is None


def test_what_will_break_a_limit_is_soon_not_begun_any_more() -> None:
    limit = 2.0  # ten heads, which 10 of the 25 plans exceed
    seen = [record(0, 1, 1, limit=limit), record(1, 16, 16, limit=limit), record(2, 4, 4, limit=limit)]
    broken = []
    for number in range(3, 11):
        found = move(seen)
        assert found is not None
        heads = tuple(CHOICES[found.encoded[site.path]] for site in SITES)
        broken.append(sum(heads) > 10)
        seen.append(record(number, *heads, limit=limit, outcome=Outcome.INFEASIBLE if broken[-1] else Outcome.OK))
    assert sum(broken) <= 2, "each costs no epoch, but a timing"


def test_a_plan_beside_those_that_fail_is_not_begun() -> None:
    failed = [record(3 + n, 8, heads, outcome=Outcome.CRASHED) for n, heads in enumerate((2, 4, 8))]
    found = move([*BASELINES, *failed])
    assert found is not None
    assert CODEC.decode(found.encoded)[0] != plan(8, 16)


def test_what_runs_is_reckoned_with() -> None:
    first = move(BASELINES)
    assert first is not None
    heads = tuple(CHOICES[first.encoded[site.path]] for site in SITES)
    second = move([*BASELINES, record(3, *heads, outcome=None)])
    assert second is not None
    assert second.encoded != first.encoded


def test_a_barred_plan_is_not_begun() -> None:
    first = move(BASELINES)
    assert first is not None
    barred = CODEC.decode(first.encoded)[0]
    second = move(BASELINES, barred=[barred])
    assert second is not None
    assert second.encoded != first.encoded


def test_the_present_plan_alone_is_enough_to_go_on_from() -> None:
    found = move([record(1, 16, 16)])
    assert found is not None
    assert CODEC.decode(found.encoded)[0] in [plan(heads, heads) for heads in (1, 2, 4, 8)]


def test_before_anything_is_trained_any_plan_will_do() -> None:
    found = move([record(0, 1, 1, outcome=Outcome.DIVERGED)])
    assert found is not None
    assert found.until is None
    assert move([record(0, 1, 1, outcome=Outcome.DIVERGED)], fresh=False) is None


def test_an_exhausted_space_has_no_move() -> None:
    every = [record(n, a, b) for n, (a, b) in enumerate((a, b) for a in CHOICES for b in CHOICES)]
    assert move(every) is None


def test_quality_alone_is_searched_too() -> None:
    alone = Surrogate.of(CODEC, GOALS[:1], [], epochs=EPOCHS)
    assert alone is not None
    found = alone.move(BASELINES[:1] + BASELINES[2:], Random(0), barred=(), fresh=True, pauses=False)
    assert found is not None
    assert found.until is None
    assert CHOICES[found.encoded[SITES[1].path]] > 4


@pytest.mark.parametrize(
    "metrics", [("accuracy", "f1"), ("accuracy", "latency_ms", "parameters")], ids=["qualities", "costs"]
)
def test_more_objectives_are_left_to_optuna(metrics: Sequence[str]) -> None:
    goals = [Objective(metric=metric, direction="minimize") for metric in metrics]
    assert Surrogate.of(CODEC, goals, [], epochs=EPOCHS) is None


def test_quality_alone_promises_what_it_may_gain_and_is_gone_on_with() -> None:
    alone = Surrogate.of(CODEC, GOALS[:1], [], epochs=EPOCHS)
    assert alone is not None
    paused = record(3, 1, 16, outcome=Outcome.PAUSED)
    found = alone.move([*BASELINES, paused], Random(0), barred=(), fresh=False, pauses=True)
    assert found is not None
    assert found.waiting is paused
    hopeless = record(9, 16, 1, outcome=Outcome.PAUSED)
    assert alone.move([*KNOWN, hopeless], Random(0), barred=(), fresh=False, pauses=True) is None


def test_where_all_plans_are_alike_no_paused_training_is_gone_on_with() -> None:
    alike = [
        replace(one, metrics={"accuracy": 0.5, "latency_ms": one.metrics["latency_ms"]}, curve=((6, 0.5), (9, 0.5)))
        for one in BASELINES
    ]
    paused = replace(record(3, 1, 4, outcome=Outcome.PAUSED), curve=((6, 0.5),))
    assert move([*alike, paused], fresh=False) is None


def test_a_plan_that_an_ended_search_set_aside_is_begun_anew() -> None:
    """Its number is spent: to go on with it would change nothing, for ever."""
    every = [record(n, a, b) for n, (a, b) in enumerate((a, b) for a in CHOICES for b in CHOICES)]
    aside = replace(every.pop(), outcome=Outcome.SET_ASIDE, curve=(), metrics={"latency_ms": 5.0})
    waits = move([*every, aside])
    assert waits is not None
    assert waits.waiting is aside
    closed = [*every, replace(aside, ended=datetime(2030, 1, 1, tzinfo=UTC))]
    assert move(closed, barred=[aside.plan]) is None, "it does not wait any more"
    ended = move(closed)
    assert ended is not None
    assert ended.waiting is None
    assert CODEC.decode(ended.encoded)[0] == aside.plan
