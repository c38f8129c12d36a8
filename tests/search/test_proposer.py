from dataclasses import replace

import pytest

from headtune.errors import SpaceError
from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.search.codec import Codec
from headtune.search.draft import Draft
from headtune.search.proposer import Proposer
from headtune.search.sampler import SamplerName
from headtune.trial import ChoiceParam, FloatParam, Outcome, Param, TrialRecord

GOALS = (Objective(metric="accuracy", direction="maximize"), Objective(metric="latency_ms", direction="minimize"))
SITES = tuple(
    AttentionSite(path=f"layer.{n}", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
    for n in range(2)
)


def plan(*heads: int) -> HeadPlan:
    return HeadPlan.of({site.path: HeadCount(n, n, 8) for site, n in zip(SITES, heads, strict=True)})


def proposer(sampler: SamplerName = "random", heads: list[int] | None = None, **params: Param) -> Proposer:
    space = SearchSpace.of(SITES, SpaceOptions(hold="head_dim", heads=heads or [1, 2, 4, 8]))
    return Proposer(Codec(space, params), objectives=GOALS, limits=(), sampler=sampler, trials=40, seed=3)


def record(number: int, draft: Draft, outcome: Outcome | None = Outcome.OK) -> TrialRecord:
    heads = sum(count.num_heads for _, count in draft.plan)
    return TrialRecord(
        number=number,
        kind=draft.kind,
        label="",
        plan=draft.plan,
        params=draft.params,
        repeat=0,
        seed=0,
        outcome=outcome,
        metrics={"accuracy": heads / 16, "latency_ms": float(heads)},
    )


def exhaust(proposer: Proposer, outcome: Outcome | None = Outcome.OK, most: int = 100) -> list[TrialRecord]:
    """Everything it proposes until it has no more."""
    records: list[TrialRecord] = []
    while len(records) < most:
        draft = proposer.propose(records, proposer.choose(records, 40))
        if draft is None:
            break
        records.append(record(len(records), draft, outcome))
    return records


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2", "grid", "ehvi", "auto"])
def test_a_space_is_exhausted_without_a_duplicate(sampler: SamplerName) -> None:
    records = exhaust(proposer(sampler))
    assert {record.plan for record in records} == {plan(a, b) for a in (1, 2, 4, 8) for b in (1, 2, 4, 8)}
    assert len(records) == 16


def test_running_and_failed_trials_are_not_proposed_again_either() -> None:
    for outcome in (None, Outcome.INFEASIBLE, Outcome.CRASHED):
        assert len({record.plan for record in exhaust(proposer("tpe", [1, 8]), outcome)}) == 4


def test_plans_and_params_are_exhausted_together() -> None:
    records = exhaust(proposer("random", [1, 8], act=ChoiceParam(choices=("relu", "gelu"))))
    assert len({(record.plan, record.params["act"]) for record in records}) == len(records) == 8


def test_continuous_params_are_never_exhausted() -> None:
    records = exhaust(proposer("random", [4], lr=FloatParam(low=0.0, high=1.0)), most=30)
    assert len({record.params["lr"] for record in records}) == 30


def test_a_plan_that_crashes_with_two_params_is_not_proposed_with_a_third() -> None:
    chooser = proposer("random", [1, 8], lr=FloatParam(low=0.0, high=1.0))
    bad = plan(1, 1)
    crashes = [
        record(n, Draft(kind="search", plan=bad, params={"lr": lr}), Outcome.CRASHED) for n, lr in enumerate((0.1, 0.2))
    ]

    def proposed(records: list[TrialRecord]) -> set[HeadPlan]:
        found = set()
        for _ in range(40):
            draft = chooser.propose(records, chooser.choose(records, 40))
            assert draft is not None
            found.add(draft.plan)
            records = [*records, record(len(records), draft)]
        return found

    assert bad in proposed(crashes[:1])
    assert bad not in proposed(crashes)
    assert bad in proposed([*crashes, record(2, Draft(kind="search", plan=bad, params={"lr": 0.3}))])
    diverged = [replace(crash, outcome=Outcome.DIVERGED) for crash in crashes]
    assert bad in proposed(diverged), "a learning rate that was too high says nothing of the plan"


def test_a_restart_proposes_what_an_uninterrupted_study_would() -> None:
    through = exhaust(proposer("tpe"))
    for stop in (3, 11, 14):
        again = proposer("tpe")
        draft = again.propose(through[:stop], again.choose(through[:stop], 40))
        assert draft is not None
        assert draft.plan == through[stop].plan


def test_auto_turns_to_the_grid_when_the_rest_fits() -> None:
    chooser = proposer("auto")
    assert chooser.choose([], 15).name == "ehvi"
    assert chooser.choose([], 16).name == "grid"
    known = [record(0, Draft(kind="search", plan=plan(1, 1))), record(1, Draft(kind="baseline", plan=plan(3, 3)))]
    assert chooser.choose(known, 14).name == "ehvi", "what lies outside the space leaves as much of it"
    assert chooser.choose(known, 15).name == "grid"


def test_a_grid_over_a_continuous_param_is_refused_at_once() -> None:
    with pytest.raises(SpaceError, match="sampler: grid cannot list lr"):
        proposer("grid", lr=FloatParam(low=0.0, high=1.0))


def test_gp_finds_the_front_of_a_smooth_problem_sooner_than_chance() -> None:
    """Of 64 plans 13 trials: the plan with the most heads per layer dominates in accuracy, the least in latency."""
    space = SearchSpace.of(SITES, SpaceOptions(hold="head_dim"))
    chooser = Proposer(Codec(space, {}), objectives=GOALS[:1], limits=(), sampler="gp", trials=13, seed=1)
    records: list[TrialRecord] = []
    for number in range(13):
        draft = chooser.propose(records, chooser.choose(records, 13))
        assert draft is not None
        a, b = (count.num_heads for _, count in draft.plan)
        value = -((a - 7) ** 2) - (b - 2) ** 2
        records.append(replace(record(number, draft), metrics={"accuracy": float(value)}))
    assert max(record.metrics["accuracy"] for record in records[10:]) >= -2
