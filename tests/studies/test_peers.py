"""The peers' theatre: what is true, what a claim is worth, and that every epoch is counted."""

from dataclasses import replace

import numpy as np
import pytest
from by_hand import BY_HAND
from by_tune import optuna_with_asha
from compare import budget_of
from ours import HEADTUNE, LEVERS
from play import Played, Search
from shrinking import shrunk
from summary import Runs
from world import Table, World

EPOCHS = 12


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.read("digits")


def test_the_recorded_table_is_whole(table: Table) -> None:
    assert len(table.plans) == 125
    assert len(table.finals) == len(table.curves) == 125 * table.recording.seeds
    assert {len(curve) for curve in table.curves.values()} == {EPOCHS}
    assert table.latency["4-4-4"] == pytest.approx(1.0, abs=0.02), "the present plan, beside itself"


def test_plans_differ_by_more_than_seeds_do(table: Table) -> None:
    finals = np.array([[table.finals[plan, seed] for seed in range(table.recording.seeds)] for plan in table.plans])
    left = finals - finals.mean(1, keepdims=True) - finals.mean(0, keepdims=True) + finals.mean()
    noise = np.sqrt((left**2).sum() / (124 * (table.recording.seeds - 1)))
    assert finals.mean(1).std() > 1.5 * noise


def test_means_are_drawn_to_a_surface_as_far_as_they_are_noise() -> None:
    rng = np.random.default_rng(0)
    places = rng.uniform(0, 4, (125, 3))
    surface = 0.1 * places[:, 0] - 0.02 * places[:, 1] ** 2
    noisy = surface[:, None] + 0.1 * rng.normal(size=(125, 3))
    found = shrunk(noisy, places)
    assert np.abs(found - surface).mean() < 0.4 * np.abs(noisy.mean(1) - surface).mean()
    bumpy = surface + rng.normal(size=125)
    seen = bumpy[:, None] + 0.01 * rng.normal(size=(125, 3))
    assert np.abs(shrunk(seen, places) - seen.mean(1)).max() < 0.01, "what is no noise stays"


def test_the_true_front_is_worth_everything_and_nothing_is_worth_more(table: Table) -> None:
    world = World.of(table, 3)
    front = world.front({plan: world.true(plan) for plan in table.plans})
    assert world.worth(front) == pytest.approx(1.0)
    assert world.worth(table.plans) == pytest.approx(1.0)
    assert 0 < world.worth(front[:2]) < 1
    assert world.worth([]) == 0.0


def test_who_judges_is_never_drawn(table: Table) -> None:
    for repeat in range(20):
        world = World.of(table, repeat)
        for plan in table.plans:
            assert len(world.judging[plan]) >= 2
            assert sorted((*world.drawn[plan], *world.judging[plan])) == list(range(table.recording.seeds))
        firsts = [world.drawn[plan][0] for plan in table.plans]
        assert max(map(firsts.count, firsts)) < 0.4 * len(firsts), "no seed's luck is that of all plans"
    drawn = World.of(table, 0).drawn
    changed = replace(table, finals={key: value + 9 * (key[1] in drawn[key[0]]) for key, value in table.finals.items()})
    assert World.of(changed, 0).true("1-2-4") == World.of(table, 0).true("1-2-4")


def test_too_slow_plans_are_worth_nothing_under_a_budget(table: Table) -> None:
    world = World.of(table, 0, budget_of(table))
    assert 0.35 < np.mean([world.feasible(plan) for plan in table.plans]) < 0.45
    assert world.worth(["16-16-16"]) == 0.0
    assert world.worth(table.plans) == pytest.approx(1.0)


def test_a_level_is_reached_once(table: Table) -> None:
    world = World.of(table, 0)
    played = Played(world)
    for plans, epochs in ((["1-1-1"], 12), (table.plans, 24), (table.plans, 36)):
        played.epochs = epochs
        played.claim(plans)
        assert played.over == (epochs > 12)
    assert played.reached == {0.90: 24, 0.95: 24, 0.99: 24}


@pytest.mark.parametrize("name", ["random", "multivariate TPE", "NSGA-II"])
@pytest.mark.parametrize("concurrent", [1, 8])
def test_by_hand_every_trial_costs_all_its_epochs(table: Table, name: str, concurrent: int) -> None:
    search: Search = BY_HAND[name]
    world = World.of(table, 1)
    played = search(world, 20, concurrent, 1)
    assert played.epochs == 20 * EPOCHS
    assert search(world, 20, concurrent, 1).reached == played.reached


def test_asha_stops_trials_early(table: Table) -> None:
    played = optuna_with_asha(World.of(table, 1), 20, 2, 1)
    assert 20 < played.epochs < 20 * EPOCHS / 2


@pytest.mark.parametrize("concurrent", [1, 4])
def test_headtune_pays_for_each_epoch_once(table: Table, concurrent: int) -> None:
    played = HEADTUNE["headtune"](World.of(table, 1), 14, concurrent, 1)
    assert 8 * EPOCHS < played.epochs <= 14 * EPOCHS
    assert 0.90 in played.reached


def test_a_part_is_changed_for_one_play_alone(table: Table) -> None:
    world, whole = World.of(table, 1), HEADTUNE["headtune"]
    before = whole(world, 8, 1, 1).reached
    changed = LEVERS["one at a time"]["no uniform plans first"](world, 8, 1, 1).reached
    assert changed != before == whole(world, 8, 1, 1).reached


def test_an_interval_is_that_of_the_mean_over_repeats() -> None:
    values = np.random.default_rng(0).normal(10, 2, (400, 3))
    mean, low, high = Runs(values, (0, 0, 0)).interval(1)
    assert mean == pytest.approx(values[:, 1].mean())
    assert high - low == pytest.approx(2 * 1.96 * 2 / 20, rel=0.15)
    ratio, low, high = Runs(values / 2, (0, 0, 0)).interval(1, beside=Runs(values, (0, 0, 0)))
    assert (ratio, low, high) == pytest.approx((0.5, 0.5, 0.5)), "paired by repeat"
