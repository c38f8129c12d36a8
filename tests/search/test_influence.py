import random
from dataclasses import asdict, replace
from json import dumps, loads

import pytest

from headtune.heads import AttentionSite, HeadCount, HeadPlan, SearchSpace, SpaceOptions
from headtune.pareto import Objective
from headtune.search import Influence, influences
from headtune.search.influence import FEWEST
from headtune.trial import ChoiceParam, FloatParam, Outcome, Param, TrialRecord

QUALITY = Objective(metric="val_accuracy", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")
CHOICES = (1, 2, 4, 8)
SITES = tuple(
    AttentionSite(path=f"layers.{n}", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
    for n in range(4)
)
PARAMS: dict[str, Param] = {
    "lr": FloatParam(low=1e-4, high=1e-1, log=True),
    "act": ChoiceParam(choices=("relu", "gelu")),
}


def space(tie: str = "none") -> SearchSpace:
    return SearchSpace.of(SITES, SpaceOptions(hold="head_dim", heads=CHOICES, tie=tie))  # type: ignore[arg-type]


def trials(count: int, quality, *, seed: int = 0, outcome: Outcome = Outcome.OK, **params: object) -> list[TrialRecord]:  # noqa: ANN001
    """Random plans, of which latency is the heads of layers.2 and the quality is as given."""
    rng, found = random.Random(seed), []
    for number in range(count):
        heads = [rng.choice(CHOICES) for _ in SITES]
        plan = HeadPlan.of({site.path: HeadCount(n, n, 8) for site, n in zip(SITES, heads, strict=True)})
        drawn = {"lr": 10 ** rng.uniform(-4, -1), "act": rng.choice(["relu", "gelu"])} if params else {}
        metrics = {"latency_ms": float(heads[2])}
        metrics |= {"val_accuracy": quality(heads, drawn)} if outcome is Outcome.OK else {}
        found.append(
            TrialRecord(
                number=number,
                kind="search",
                label="",
                plan=plan,
                params=drawn,
                repeat=0,
                seed=0,
                outcome=outcome,
                metrics=metrics,
            )
        )
    return found


def told(records: list[TrialRecord], goal: Objective = QUALITY, params: dict[str, Param] | None = None) -> Influence:
    (one,) = influences(records, space(), params or {}, [goal], seed=0)
    return one


@pytest.mark.parametrize("planted", range(4))
def test_the_only_site_that_matters_has_nearly_all_influence(planted: int) -> None:
    one = told(trials(200, lambda heads, _: heads[planted]))
    assert list(one.shares) == [site.path for site in SITES]
    assert sum(one.shares.values()) == pytest.approx(1)
    assert one.shares[f"layers.{planted}"] > 0.9
    assert one.clear == (f"layers.{planted}",)
    assert (one.trials, one.why) == (200, "")


def test_what_mattered_is_told_for_each_objective_by_itself() -> None:
    quality, latency = influences(trials(100, lambda heads, _: -heads[0]), space(), {}, [QUALITY, LATENCY], seed=0)
    assert (quality.metric, quality.clear) == ("val_accuracy", ("layers.0",))
    assert (latency.metric, latency.clear) == ("latency_ms", ("layers.2",))


def test_permuted_sites_have_permuted_influence() -> None:
    records = trials(80, lambda heads, _: 3 * heads[0] + heads[1] + 0.1 * heads[3])
    order = (2, 0, 3, 1)

    def permuted(plan: HeadPlan) -> HeadPlan:
        return HeadPlan.of({site.path: plan[SITES[at].path] for site, at in zip(SITES, order, strict=True)})

    one, other = told(records), told([replace(record, plan=permuted(record.plan)) for record in records])
    for site, at in zip(SITES, order, strict=True):
        assert other.shares[site.path] == pytest.approx(one.shares[SITES[at].path])
    assert other.clear == tuple(SITES[order.index(int(name[-1]))].path for name in one.clear)


def test_params_stand_beside_the_sites() -> None:
    one = told(trials(150, lambda _, drawn: -abs(drawn["lr"] - 0.001), params=True), params=PARAMS)
    assert list(one.shares) == [*(site.path for site in SITES), "lr", "act"]
    assert one.clear == ("lr",)


def test_of_noise_something_stands_out_no_more_often_than_by_chance() -> None:
    found = []
    for seed in range(12):
        noise = {number: random.Random(f"noise {seed} {number}").random() for number in range(40)}
        records = trials(40, lambda _heads, _: 0.0, seed=seed)
        told_of = [replace(one, metrics=dict(one.metrics) | {"val_accuracy": noise[one.number]}) for one in records]
        found.append(bool(told(told_of).clear))
    assert sum(found) <= 3, "one in twenty is expected"


def test_stopped_and_infeasible_trials_count_for_what_was_measured_alone() -> None:
    records = [
        *trials(10, lambda heads, _: heads[0]),
        *trials(30, None, seed=1, outcome=Outcome.INFEASIBLE),
        *trials(30, None, seed=2, outcome=Outcome.STOPPED),
        *(replace(one, outcome=None) for one in trials(30, lambda heads, _: heads[0], seed=3)),
    ]
    quality, latency = influences(records, space(), {}, [QUALITY, LATENCY], seed=0)
    assert (quality.trials, quality.shares, quality.why) == (
        10,
        {},
        f"10 of the {FEWEST} trials that it takes are there",
    )
    assert (latency.trials, latency.clear) == (70, ("layers.2",))


def test_where_nothing_can_be_told_it_says_why() -> None:
    assert told(trials(30, lambda _heads, _: 0.5)).why == "all 30 trials have the same value"
    ties = told(trials(30, lambda _heads, _: 0.5)[:-1] + trials(1, lambda _heads, _: 0.4))
    assert (ties.shares, ties.why) == ({}, "29 of 30 trials tie for the best")
    uniform = [
        replace(one, plan=HeadPlan.of(dict.fromkeys(one.plan.paths, one.plan["layers.0"])))
        for one in trials(30, lambda heads, _: heads[0])
    ]
    (single,) = influences(uniform, space("uniform"), {}, [QUALITY], seed=0)
    assert (single.trials, single.shares, single.why) == (30, {}, "all is all that there is to choose")


def test_plans_outside_of_the_space_say_nothing() -> None:
    records = trials(30, lambda heads, _: heads[0])
    outside = HeadPlan.of({site.path: HeadCount(3, 3, 8) for site in SITES})
    assert told([*records, replace(records[0], number=30, plan=outside)]) == told(records)


def test_it_goes_to_json_and_back() -> None:
    one = told(trials(100, lambda heads, _: heads[0]))
    assert Influence.from_json(loads(dumps(asdict(one)))) == one
