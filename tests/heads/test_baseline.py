import pytest

from headtune.errors import SpaceError
from headtune.heads.baseline import baselines
from headtune.heads.options import SpaceOptions
from headtune.heads.plan import HeadPlan
from headtune.heads.setting import HeadRange
from headtune.heads.site import AttentionSite
from headtune.heads.space import SearchSpace


def sites(embed_dim: int, num_heads: int) -> list[AttentionSite]:
    return [
        AttentionSite(
            path=f"layers.{layer}",
            role="self",
            embed_dim=embed_dim,
            num_heads=num_heads,
            num_kv_heads=num_heads,
            head_dim=embed_dim // num_heads,
        )
        for layer in range(2)
    ]


def test_five_different_baselines_in_their_order() -> None:
    found = baselines(sites(384, 12), SpaceOptions(hold="width", heads=[1, 2, 16]))
    assert [(name, plan.label) for name, plan in found] == [
        ("present", "12-12"),
        ("rule", "6-6"),
        ("rule-mixed", "3-6"),
        ("smallest", "1-1"),
        ("largest", "16-16"),
    ]
    assert found.aliases == {}
    assert len(found) == 5


def test_a_plan_that_comes_twice_keeps_its_first_name() -> None:
    found = baselines(sites(64, 8), SpaceOptions(hold="width", heads=[1, 2, 4, 8]))
    assert [(name, plan.label) for name, plan in found] == [("present", "8-8"), ("rule", "1-1")]
    assert found.aliases == {"rule-mixed": "rule", "smallest": "rule", "largest": "present"}
    assert found["smallest"] == found["rule"]
    assert found.names(found["rule"]) == ("rule", "rule-mixed", "smallest")


def test_a_plan_that_is_no_baseline_has_no_name() -> None:
    here = sites(64, 8)
    found = baselines(here, SpaceOptions(hold="width"))
    assert found.names(HeadPlan.parse("*=4", here, hold="width")) == ()
    with pytest.raises(KeyError):
        found["best"]


def test_the_first_three_may_lie_outside_the_space() -> None:
    here, options = sites(384, 12), SpaceOptions(hold="width", heads=[2, 4])
    space = SearchSpace.of(here, options)
    assert {name: plan in space for name, plan in baselines(here, options)} == {
        "present": False,
        "rule": False,
        "rule-mixed": False,
        "smallest": True,
        "largest": True,
    }


def test_an_empty_space_has_no_baselines() -> None:
    with pytest.raises(SpaceError):
        baselines(sites(64, 8), SpaceOptions(hold="width", heads=[3]))


def test_the_baselines_of_trained_heads_have_no_more_heads_than_at_present() -> None:
    sites = [
        AttentionSite(path=f"layer.{layer}", role="self", embed_dim=512, num_heads=4, num_kv_heads=2, head_dim=128)
        for layer in range(2)
    ]
    options = SpaceOptions(hold="head_dim", heads=HeadRange(max=16), kv_heads="auto")
    named = baselines(sites, options, trained=True)
    space = SearchSpace.of(sites, options, trained=True)
    assert all(plan in space for _, plan in named)
    assert named["largest"] == named["present"] == named["rule"]  # the rule says 8; they have 4
    assert named["rule-mixed"]["layer.0"] == (2, 1, 128)
    assert baselines(sites, options)["largest"]["layer.0"].num_heads == 16
