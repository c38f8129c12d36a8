"""What is trained next on a problem with two sites whose quality and latency are known."""

from collections.abc import Sequence
from random import Random

import pytest

from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.search.codec import Codec, Encoded
from headtune.search.surrogate import Surrogate
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
    reached = EPOCHS if outcome is Outcome.OK else 0
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


def best(records: Sequence[TrialRecord], *, barred: Sequence[HeadPlan] = ()) -> Encoded | None:
    surrogate = Surrogate.of(CODEC, GOALS, ["latency_ms"])
    assert surrogate is not None
    return surrogate.best(records, Random(0), barred=barred)


BASELINES = (record(0, 1, 1), record(1, 16, 16), record(2, 4, 4))
KNOWN = (*BASELINES, record(3, 1, 16), record(4, 4, 16), record(5, 8, 1), record(6, 16, 2))


def test_what_matters_is_found() -> None:
    records = list(BASELINES)
    for number in range(3, 16):  # two of them are uniform
        found = best(records)
        assert found is not None
        records.append(record(number, *(CHOICES[found[site.path]] for site in SITES)))
    begun = [heads_of(one.plan) for one in records[3:]]
    slow = sum(heads[0] > heads[1] for heads in begun)
    assert slow <= 2, "by chance it would be five: the first site's heads cost and do not help"
    assert sum(heads[0] == 1 for heads in begun) >= 3
    assert {(1, 16), (2, 16)} <= set(begun), "all of the quality for half of the latency"


def test_what_will_break_a_limit_is_soon_not_begun_any_more() -> None:
    limit = 2.0  # ten heads, which 10 of the 25 plans exceed
    seen = [record(0, 1, 1, limit=limit), record(1, 16, 16, limit=limit), record(2, 4, 4, limit=limit)]
    broken = []
    for number in range(3, 11):
        found = best(seen)
        assert found is not None
        heads = tuple(CHOICES[found[site.path]] for site in SITES)
        broken.append(sum(heads) > 10)
        seen.append(record(number, *heads, limit=limit, outcome=Outcome.INFEASIBLE if broken[-1] else Outcome.OK))
    assert sum(broken) <= 2, "each costs no epoch, but a timing"


def test_a_plan_beside_those_that_fail_is_not_begun() -> None:
    failed = [record(3 + n, 8, heads, outcome=Outcome.CRASHED) for n, heads in enumerate((2, 4, 8))]
    found = best([*BASELINES, *failed])
    assert found is not None
    assert CODEC.decode(found)[0] != plan(8, 16)


def test_what_runs_is_reckoned_with() -> None:
    first = best(BASELINES)
    assert first is not None
    heads = tuple(CHOICES[first[site.path]] for site in SITES)
    second = best([*BASELINES, record(3, *heads, outcome=None)])
    assert second is not None
    assert second != first


def test_a_barred_plan_is_not_begun() -> None:
    first = best(BASELINES)
    assert first is not None
    barred = CODEC.decode(first)[0]
    second = best(BASELINES, barred=[barred])
    assert second is not None
    assert second != first


def test_the_present_plan_alone_is_enough_to_go_on_from() -> None:
    found = best([record(1, 16, 16)])
    assert found is not None
    assert CODEC.decode(found)[0] in [plan(heads, heads) for heads in (1, 2, 4, 8)]


def test_before_anything_is_trained_any_plan_will_do() -> None:
    found = best([record(0, 1, 1, outcome=Outcome.DIVERGED)])
    assert found is not None


def test_of_an_exhausted_space_nothing_is_left() -> None:
    every = [record(n, a, b) for n, (a, b) in enumerate((a, b) for a in CHOICES for b in CHOICES)]
    assert best(every) is None


def test_quality_alone_is_searched_too() -> None:
    alone = Surrogate.of(CODEC, GOALS[:1], [])
    assert alone is not None
    found = alone.best(BASELINES[:1] + BASELINES[2:], Random(0), barred=())
    assert found is not None
    assert CHOICES[found[SITES[1].path]] > 4


@pytest.mark.parametrize(
    "metrics", [("accuracy", "f1"), ("accuracy", "latency_ms", "parameters")], ids=["qualities", "costs"]
)
def test_more_objectives_are_left_to_optuna(metrics: Sequence[str]) -> None:
    goals = [Objective(metric=metric, direction="minimize") for metric in metrics]
    assert Surrogate.of(CODEC, goals, []) is None
