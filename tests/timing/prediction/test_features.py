import numpy as np

from headtune.heads import AttentionSite, HeadPlan
from headtune.timing.prediction.features import features_of, kind_of, matrix_of

SITES = tuple(
    AttentionSite(path=path, role="self", embed_dim=embed_dim, num_heads=8, num_kv_heads=8, head_dim=8)
    for path, embed_dim in (("a.0", 64), ("a.1", 64), ("a.2", 128))
)
PLANS = [HeadPlan.parse(text, SITES, hold="width") for text in ("*=8", "a.0=4 a.1=2", "*=16")]


def test_sites_of_one_stack_and_size_are_of_one_kind() -> None:
    assert kind_of(SITES[0]) == kind_of(SITES[1]) != kind_of(SITES[2])


def test_the_present_plan_is_all_zeros() -> None:
    assert not matrix_of(features_of(SITES, PLANS), PLANS[:1], HeadPlan.present(SITES)).any()


def test_heads_are_summed_over_a_kind_and_scaled_by_the_largest_step_of_a_site() -> None:
    (heads,) = [one for one in features_of(SITES, PLANS) if one.paths == ("a.0", "a.1") and one.name == "heads a.0"]
    assert [heads.at(dict(plan.counts), dict(PLANS[0].counts)) for plan in PLANS] == [0, (-4 - 6) / 8, (8 + 8) / 8]


def test_a_site_alone_in_its_kind_has_no_deviation_from_it() -> None:
    assert [feature.name for feature in features_of(SITES, PLANS) if feature.name == "heads a.2"] == ["heads a.2"]
    assert len([feature for feature in features_of(SITES, PLANS) if feature.name == "heads a.1"]) == 1


def test_what_no_plan_changes_is_no_column() -> None:
    # Under hold: width the width of all heads and of all keys stays.
    assert not [feature for feature in features_of(SITES, PLANS) if feature.name.startswith(("width", "kv_width"))]
    assert np.isfinite(matrix_of(features_of(SITES, PLANS), PLANS, PLANS[0])).all()
