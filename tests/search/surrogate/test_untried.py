"""What may be begun, on a space of four sites with 256 plans, or 4096."""

from collections.abc import Collection, Sequence
from random import Random
from types import ModuleType

from headtune.heads import HeadPlan
from headtune.search.codec import Codec
from headtune.search.surrogate.outlook import Outlook, Seen
from headtune.search.surrogate.untried import LISTED, candidates, untried
from headtune.trial import FloatParam, Outcome, Param, TrialRecord

LR: dict[str, Param] = {"lr": FloatParam(low=1e-4, high=1e-2, log=True)}


def record(kit: ModuleType, number: int, *heads: int, outcome: Outcome = Outcome.OK, **params: float) -> TrialRecord:
    plan = kit.plan_of(*heads)
    accuracy = {"val_accuracy": kit.accuracy(plan)} if outcome is Outcome.OK else {}
    return TrialRecord(
        number=number,
        kind="search",
        label="",
        plan=plan,
        params=params,
        repeat=0,
        seed=0,
        outcome=outcome,
        metrics={"latency_ms": kit.latency(plan), **accuracy},
        violations={"latency_ms": kit.latency(plan) - 5.5},  # 18 heads
    )


def begun(
    kit: ModuleType,
    codec: Codec,
    records: Sequence[TrialRecord],
    limits: Sequence[str] = (),
    barred: Collection[HeadPlan] = (),
) -> set[tuple[int, ...]]:
    """The heads of all that may be begun."""
    seen = [Seen(one, code) for one in records if (code := codec.encode(one.plan, one.params)) is not None]
    outlook = Outlook(codec, kit.OBJECTIVES[0], kit.OBJECTIVES[1], limits, seen, {})
    return {kit.heads_of(codec.decode(code)[0]) for code in untried(outlook, barred, Random(0))}


def test_uniform_plans_come_first_and_then_all_the_others(kit: ModuleType) -> None:
    codec = Codec(kit.space_of(), {})
    uniform = {(heads,) * 4 for heads in (1, 2, 4, 8)}
    known = [record(kit, 0, 8, 8, 8, 8), record(kit, 1, 1, 2, 4, 8)]
    assert begun(kit, codec, known) == uniform - {(8,) * 4}
    assert begun(kit, codec, known, barred=[kit.plan_of(2, 2, 2, 2)]) == {(1,) * 4, (4,) * 4}
    known += [record(kit, 2 + n, *heads) for n, heads in enumerate(sorted(uniform - {(8,) * 4}))]
    assert len(begun(kit, codec, known)) == 256 - 5


def test_five_places_of_a_long_scale_are_uniform(kit: ModuleType) -> None:
    codec = Codec(kit.space_of([1, 2, 3, 4, 5, 6, 7, 8, 16]), {})
    assert begun(kit, codec, []) == {(heads,) * 4 for heads in (1, 3, 5, 7, 16)}


def test_a_uniform_plan_is_trained_once_with_params_of_its_own(kit: ModuleType) -> None:
    codec = Codec(kit.space_of(), LR)
    assert begun(kit, codec, [record(kit, 0, 4, 4, 4, 4, lr=1e-3)]) == {(1,) * 4, (2,) * 4, (8,) * 4}
    outlook = Outlook(codec, kit.OBJECTIVES[0], kit.OBJECTIVES[1], [], [], {})
    assert len({code["lr"] for code in untried(outlook, (), Random(0))}) == 5


def test_a_uniform_plan_that_will_break_a_limit_is_not_waited_for(kit: ModuleType) -> None:
    codec = Codec(kit.space_of(), {})
    known = [record(kit, n, *heads) for n, heads in enumerate([(1,) * 4, (4,) * 4, (4, 4, 4, 8), (2, 1, 8, 4)])]
    assert begun(kit, codec, known, limits=["latency_ms"]) == {(2,) * 4}
    left = begun(kit, codec, [*known, record(kit, 4, 2, 2, 2, 2)], limits=["latency_ms"])
    assert len(left) == 256 - 5, "all that was not tried, whatever its promise"


def test_a_small_space_is_thought_about_as_a_whole(kit: ModuleType) -> None:
    every = candidates(Codec(kit.space_of(), {}), [], Random(0))
    assert len({tuple(code.items()) for code in every}) == 256


def test_of_a_large_one_neighbours_of_the_best_are_thought_about_too(kit: ModuleType) -> None:
    codec = Codec(kit.space_of([1, 2, 3, 4, 5, 6, 7, 8]), {})
    best = codec.sample(Random(7))
    found = candidates(codec, [best], Random(0))
    near = [code for code in found[LISTED:] if 0 < sum(code[name] != best[name] for name in best) <= 3]
    assert len(near) > 500
    assert found == candidates(codec, [best], Random(0))
