"""The race on planted plans: who leaves, what is found, and how often something is found that is not there."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from headtune.study.racing import LEVEL, Look, Racer, Rules, Standing, differences, stand

RULES = Rules(seeds=3, most=9)


def racers(
    losses: Sequence[Sequence[float | None]], costs: Sequence[float] | None = None, able: Sequence[bool] | None = None
) -> list[Racer]:
    return [
        Racer(
            losses=dict(enumerate(row, start=1)),
            cost=index if costs is None else costs[index],
            able=True if able is None else able[index],
        )
        for index, row in enumerate(losses)
    ]


def run(drawn: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", rules: Rules) -> Standing:
    """A whole race of plans, the fastest first, whose losses are *drawn*, shape (plans, seeds)."""
    seen: list[list[float]] = [[] for _ in drawn]
    while (standing := stand(racers(seen), rules)).needed:
        for repeat, plan in standing.needed:
            assert len(seen[plan]) == repeat - 1
            seen[plan].append(float(drawn[plan, repeat - 1]))
    return standing


def test_the_level_is_spent_once_over_all_looks_pairs_and_metrics() -> None:
    for rules in (RULES, Rules(seeds=1, most=7, metrics=2), Rules(seeds=5, most=5), Rules(seeds=2, most=2)):
        looks = range(max(rules.seeds, 2), rules.most + 1)
        spent = sum(rules.level(look, plans=6) * 15 * rules.metrics for look in looks)
        assert spent == pytest.approx(LEVEL)


def test_every_plan_gets_the_first_seeds_in_turn() -> None:
    standing = stand(racers([[], []]), RULES)
    assert standing.needed == ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1))
    assert standing.ahead[:2] == ((4, 0), (4, 1))
    assert (standing.better, standing.best) == (frozenset(), None)


def test_a_race_that_is_clear_at_once_is_over_at_once() -> None:
    clear = racers([(5.0, 5.1, 4.9), (1.0, 1.1, 0.9), (9.0, 9.1, 8.9)])
    standing = stand(clear, RULES)
    assert standing.needed == ()
    assert standing.looks == (3, 3, 3)
    assert standing.best == 1
    assert standing.better == {(1, 0), (1, 2), (0, 2)}


def test_close_plans_go_on_and_one_that_is_clearly_worse_than_a_faster_one_leaves() -> None:
    close = racers([(1.2, 1.0, 1.1), (0.9, 1.05, 0.8), (9.0, 9.1, 8.9)])
    standing = stand(close, RULES)
    assert standing.needed == ((4, 0), (4, 1))
    assert standing.better == {(0, 2), (1, 2)}


def test_a_slower_plan_that_looks_worse_than_a_faster_one_gets_no_further_seed() -> None:
    assert stand(racers([(0.9, 1.05, 0.8), (1.2, 1.0, 1.1)]), RULES).needed == ()


def test_with_other_latencies_the_same_plans_stand_otherwise() -> None:
    losses = [(0.9, 1.05, 0.8), (1.2, 1.0, 1.1)]
    assert stand(racers(losses, costs=[2.0, 1.0]), RULES).needed == ((4, 0), (4, 1))


def test_a_plan_that_may_not_be_recommended_gets_the_first_seeds_alone() -> None:
    close = [(1.2, 1.0, 1.1), (0.9, 1.05, 0.8), (0.9, 1.05, 0.8)]
    standing = stand(racers(close, able=[True, True, False]), RULES)
    assert standing.needed == ((4, 0), (4, 1))
    assert standing.best == 1


def test_the_race_ends_with_the_last_seed() -> None:
    close = racers([(1.2, 1.0, 1.1), (0.9, 1.05, 0.8)])
    assert stand(close, Rules(seeds=3, most=3)).needed == ()


def test_with_one_seed_nothing_is_told_and_the_second_is_asked_for() -> None:
    standing = stand(racers([(1.0,), (5.0,)]), Rules(seeds=1, most=3))
    assert standing.needed == ((2, 0), (2, 1))
    assert standing.better == frozenset()
    over = stand(racers([(1.0,), (5.0,)]), Rules(seeds=1, most=1))
    assert (over.needed, over.better, over.best) == ((), frozenset(), 0)


def test_a_training_that_failed_counts_as_done_and_says_nothing() -> None:
    standing = stand(racers([(1.4, None, 1.2, 1.3), (0.9, 1.05, 0.8)]), RULES)
    assert standing.needed == ((4, 1),)
    gone = stand(racers([(None, None, None), (0.9, 1.05, 0.8)]), RULES)
    assert (gone.needed, gone.best) == ((), 1)


def test_trainings_ahead_of_a_look_change_nothing() -> None:
    losses = [(5.0, 5.1, 4.9), (1.0, 1.1, 0.9)]
    ahead = [(*losses[0], -99.0), losses[1]]
    assert stand(racers(ahead), RULES) == stand(racers(losses), RULES)


def test_a_race_is_the_same_whether_it_is_watched_or_played_again() -> None:
    rng = np.random.default_rng(3)
    drawn = rng.normal(0, 1, (6, 9)) - np.array([0, 2, 1, 3, 2, 0])[:, None]
    standing = run(drawn, RULES)
    again = stand(racers([row.tolist() for row in drawn]), RULES)
    assert again == standing
    assert max(standing.looks) > 3
    rows = [dict(enumerate(row, start=1)) for row in drawn.tolist()]
    assert differences(rows, standing.looks, RULES) == standing.better


def test_plans_without_noise_differ_where_they_differ() -> None:
    same = stand(racers([(1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)]), RULES)
    assert same.better == {(2, 0), (2, 1)}
    assert same.needed == ()


def test_of_studies_of_equal_plans_few_find_any_difference_at_any_look() -> None:
    rng = np.random.default_rng(5)
    repeats, found, loose = 60, 0, 0
    for _ in range(repeats):
        drawn = rng.normal(0, 1, (6, 6))
        found += bool(run(drawn, Rules(seeds=3, most=6)).better)
        loose += bool(Look(drawn[:, :3].tolist(), LEVEL).better(range(6)))
    assert found <= LEVEL * repeats + 3 * math.sqrt(LEVEL * (1 - LEVEL) * repeats)
    assert loose > 3 * LEVEL * repeats  # each pair at 5 %, and at one look


def test_a_plan_that_is_better_by_three_spreads_is_found_and_slower_ones_cost_no_seed() -> None:
    rng = np.random.default_rng(6)
    right = seeds = 0
    for _ in range(20):
        drawn = rng.normal(0, 1, (6, 20))
        drawn[3] -= 3
        standing = run(drawn, Rules(seeds=3, most=20))
        right += standing.best == 3 and {(3, 0), (3, 1), (3, 2)} <= standing.better
        seeds += sum(standing.looks)
    assert right >= 18
    assert seeds / 20 < 6 * 6  # of 6 × 20


def test_as_long_as_any_plan_runs_so_do_those_that_lead() -> None:
    """The best by its mean, and the fastest that was not found worse: what is recommended is judged by most seeds."""
    came_back = 0
    for study in range(30):
        drawn = np.random.default_rng(study).normal(np.linspace(0.6, 0, 5)[:, None], 1.0, (5, RULES.most))
        seen: list[list[float]] = [[] for _ in drawn]
        while (standing := stand(racers(seen), RULES)).needed:
            look = max(map(len, seen))
            if look >= RULES.seeds:
                means = [np.mean(row) for row in seen]
                best = int(np.argmin(means))
                chosen = min(plan for plan in range(5) if (best, plan) not in standing.better)
                assert {best, chosen} <= {plan for _, plan in standing.needed}
                came_back += any(repeat <= look for repeat, _ in standing.needed)
            for repeat, plan in standing.needed:
                seen[plan].append(float(drawn[plan, repeat - 1]))
    assert came_back, "some had left before"
