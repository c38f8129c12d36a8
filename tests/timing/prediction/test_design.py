import numpy as np
import pytest

from headtune.errors import InputError
from headtune.heads import AttentionSite, HeadPlan, SearchSpace, SpaceOptions
from headtune.timing.prediction import informative_plans
from headtune.timing.prediction.features import features_of, matrix_of

SITES = tuple(
    AttentionSite(path=f"layer.{i}", role="self", embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=8)
    for i in range(6)
)
SPACE = SearchSpace.of(SITES, SpaceOptions(hold="width"))


def test_distinct_plans_of_the_space_with_both_ends_and_the_same_for_a_seed() -> None:
    plans = informative_plans(SPACE, 20, 3)
    assert len(set(plans)) == 20
    assert all(plan in SPACE for plan in plans)
    assert plans[:2] == (SPACE.smallest, SPACE.largest)
    assert plans == informative_plans(SPACE, 20, 3)
    assert plans != informative_plans(SPACE, 20, 4)


def test_a_small_space_is_measured_whole() -> None:
    small = SearchSpace.of(SITES, SpaceOptions(hold="width", tie="uniform"))
    assert informative_plans(small, 40, 0) == tuple(small)


def test_they_tell_more_than_plans_drawn_at_random() -> None:
    # The determinant of the effects' precision is what the design maximises; the draws are seeded.
    from random import Random

    rng = Random(0)
    drawn = [SPACE.sample(rng) for _ in range(20)]
    chosen = informative_plans(SPACE, 20, 0)
    features = features_of(SITES, [*drawn, *chosen])

    def told(plans: list[HeadPlan]) -> float:
        rows = matrix_of(features, plans, HeadPlan.present(SITES))
        return float(np.linalg.slogdet(np.eye(rows.shape[1]) + rows.T @ rows)[1])

    assert told(list(chosen)) > told(drawn) + 2


def test_fewer_than_two_show_no_difference() -> None:
    with pytest.raises(InputError, match=r"informative_plans: count: must be at least 2 \(got 1\)"):
        informative_plans(SPACE, 1, 0)
