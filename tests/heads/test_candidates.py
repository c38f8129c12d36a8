from headtune.heads.candidates import Candidates
from headtune.heads.choice import HeadChoice
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.setting import HeadRange, Stages
from headtune.heads.site import AttentionSite


def site(path: str, num_heads: int = 8, num_kv_heads: int = 8, head_dim: int = 8) -> AttentionSite:
    return AttentionSite(
        path=path, role="self", embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim
    )


def candidates(sites: tuple[AttentionSite, ...], options: SpaceOptions) -> Candidates:
    return Candidates.of(sites, options.settings(sites), options)


def choices(sites: tuple[AttentionSite, ...], options: SpaceOptions) -> list[str]:
    return [str(choice) for choice in candidates(sites, options).choices]


def test_auto_is_every_legal_count() -> None:
    assert choices((site("a"),), SpaceOptions(hold="width")) == ["1", "2", "4", "8", "16", "32", "64"]
    assert choices((site("a"),), SpaceOptions(hold="head_dim")) == ["1", "2", "3", "4", "5", "6", "7", "8"]


def test_a_list_and_a_range_keep_what_they_name_in_ascending_order() -> None:
    assert choices((site("a"),), SpaceOptions(hold="width", heads=[8, 2, 8])) == ["2", "8"]
    even = HeadRange(min=3, max=12, divisible_by=2)
    assert choices((site("a"),), SpaceOptions(hold="width", heads=even)) == ["4", "8"]
    assert choices((site("a"),), SpaceOptions(hold="head_dim", heads=even)) == ["4", "6", "8", "10", "12"]


def test_groups_stay_under_same() -> None:
    assert choices((site("a", num_kv_heads=2),), SpaceOptions(hold="head_dim")) == ["4", "8"]


def test_key_value_heads_divide_the_heads_under_auto_and_lists() -> None:
    options = SpaceOptions(hold="width", heads=[1, 4, 8], kv_heads="auto")
    assert choices((site("a", num_kv_heads=2),), options) == ["1/1", "4/1", "4/2", "4/4", "8/1", "8/2", "8/4", "8/8"]
    options = SpaceOptions(hold="width", heads=[1, 4, 8], kv_heads=[2, 4])
    assert choices((site("a"),), options) == ["4/2", "4/4", "8/2", "8/4"]


def test_head_dims_are_free_of_the_heads() -> None:
    options = SpaceOptions(hold="head_dim", heads=[2, 3], head_dims=[32, 16])
    assert choices((site("a"),), options) == ["2x16", "2x32", "3x16", "3x32"]


def test_heads_key_value_heads_and_head_dims_combine() -> None:
    options = SpaceOptions(hold="head_dim", heads=[2], kv_heads="auto", head_dims=[16, 32])
    assert choices((site("a"),), options) == ["2/1x16", "2/1x32", "2/2x16", "2/2x32"]


def test_the_head_dim_constraint_filters() -> None:
    options = SpaceOptions(hold="width", head_dim=HeadDimConstraint(min=4, max=32, multiple_of=4))
    assert choices((site("a"),), options) == ["2", "4", "8", "16"]


def test_tied_sites_have_what_is_legal_for_each() -> None:
    sites = (site("a"), site("b", num_heads=6, num_kv_heads=6, head_dim=16))
    assert choices(sites, SpaceOptions(hold="width", tie="uniform")) == ["1", "2", "4", "8", "16", "32"]
    assert choices(sites, SpaceOptions(hold="head_dim", tie="uniform")) == ["1", "2", "3", "4", "5", "6"]


def test_tied_sites_of_which_one_searches_more_spell_out_both() -> None:
    sites = (site("a", num_kv_heads=4), site("b"))
    options = SpaceOptions(hold="head_dim", tie="uniform", heads=[4], sites={"b": SiteOptions(kv_heads=[1, 2, 4])})
    assert choices(sites, options) == ["4/2"]
    options = SpaceOptions(hold="head_dim", tie="uniform", heads=[4], sites={"b": SiteOptions(head_dims=[8, 16])})
    assert choices(sites, options) == ["4x8"]


def test_counts_are_those_of_each_site() -> None:
    sites = (site("a"), site("b", head_dim=16))
    found = candidates(sites, SpaceOptions(hold="width", tie="uniform"))
    assert {path: str(count) for path, count in found.counts[HeadChoice(4)].items()} == {"a": "4x16", "b": "4x32"}
    assert list(found.counts[HeadChoice(128)]) == ["b"]


def test_why_empty_names_the_tightest_rule_first() -> None:
    odd = (site("a", num_heads=7, num_kv_heads=7, head_dim=21),)
    options = SpaceOptions(hold="width", heads=HeadRange(max=8), head_dim=HeadDimConstraint(min=4, multiple_of=4))
    assert candidates(odd, options).choices == ()
    assert candidates(odd, options).why_empty() == (
        "no choice is left of 1, 3, 7, 21, 49, 147 heads, because head_dim multiple of 4 rules out all 6, "
        "heads: {min: 1, max: 8} rules out 3 of 6, head_dim ≥ 4 rules out 2 of 6; loosen the first"
    )


def test_why_empty_counts_combinations() -> None:
    options = SpaceOptions(hold="width", heads=[1, 2], kv_heads=[4])
    assert candidates((site("a"),), options).why_empty() == (
        "no choice is left of 1, 2, 4, 8, 16, 32, 64 heads, because heads: [1, 2] rules out 25 of 28, "
        "kv_heads: [4] rules out 23 of 28; loosen the first"
    )


def test_why_empty_names_the_tie() -> None:
    sites = (site("a"), site("b", num_heads=3, num_kv_heads=3, head_dim=9))
    options = SpaceOptions(hold="width", tie=Stages(1), heads=HeadRange(min=2))
    assert candidates(sites, options).why_empty() == (
        "no common choice (tie: {stages: 1}) is left of 1, 2, 3, 4, 8, 9, 16, 27, 32, 64 heads, because "
        "being legal at one of them but not at another rules out 9 of 10, heads: {min: 2} rules out 1 of 10; "
        "loosen the first"
    )


def test_why_empty_names_groups_that_do_not_fit() -> None:
    options = SpaceOptions(hold="head_dim", heads=HeadRange(max=3))
    assert candidates((site("a", num_kv_heads=2),), options).why_empty() == (
        "no choice is left of 1, 2, …, 8 heads, because kv_heads: same (groups of 4) rules out 6 of 8, "
        "heads: {min: 1, max: 3} rules out 5 of 8; loosen the first"
    )
