from headtune.heads.dead import dead_numbers
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.setting import HeadRange
from headtune.heads.site import AttentionSite, Role


def site(path: str, role: Role = "self", num_kv_heads: int = 8, head_dim: int = 8) -> AttentionSite:
    return AttentionSite(path=path, role=role, embed_dim=64, num_heads=8, num_kv_heads=num_kv_heads, head_dim=head_dim)


SITES = (site("a"), site("b", "cross", head_dim=12))


def dead(options: SpaceOptions, sites: tuple[AttentionSite, ...] = SITES) -> tuple[list[str], set[str]]:
    problems, explained = dead_numbers(sites, options.settings(sites), options)
    return problems, {here.path for here in explained}


def test_a_number_that_is_legal_somewhere_is_alive() -> None:
    assert dead(SpaceOptions(hold="width", heads=[1, 3, 64])) == ([], set())


def test_a_number_that_is_legal_nowhere_is_dead() -> None:
    assert dead(SpaceOptions(hold="width", heads=[4, 5])) == (
        ["heads: 5 is legal for none of these sites; legal: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96"],
        set(),
    )


def test_sites_whose_whole_list_is_dead_are_explained() -> None:
    options = SpaceOptions(hold="width", sites={"a": SiteOptions(heads=[3, 5])})
    assert dead(options) == (
        ["sites: a: heads: 3, 5 are legal for none of these sites; legal: 1, 2, 4, 8, 16, 32, 64"],
        {"a"},
    )


def test_a_list_is_judged_only_at_the_sites_that_it_is_for() -> None:
    options = SpaceOptions(hold="width", heads=[3], sites={"role=cross": SiteOptions(heads=[3])})
    assert dead(options, (SITES[1],)) == ([], set())
    overridden = SpaceOptions(hold="width", heads=[5], sites={"*": SiteOptions(heads=[1])})
    assert dead(overridden) == ([], set())


def test_key_value_heads_that_divide_no_wanted_count_are_dead() -> None:
    assert dead(SpaceOptions(hold="head_dim", heads=[2, 4], kv_heads=[1, 3])) == (
        ["kv_heads: 3 is legal for none of these sites; legal: 1, 2, 4"],
        set(),
    )


def test_heads_that_break_the_present_groups_are_dead_under_same_only() -> None:
    grouped = (site("a", num_kv_heads=2),)
    assert dead(SpaceOptions(hold="head_dim", heads=[2, 4]), grouped) == (
        ["heads: 2 is legal for none of these sites; legal: 4, 8"],
        set(),
    )
    assert dead(SpaceOptions(hold="head_dim", heads=[2, 4], kv_heads="auto"), grouped) == ([], set())


def test_words_and_ranges_name_nothing_in_vain() -> None:
    assert dead(SpaceOptions(hold="width", heads=HeadRange(min=5, max=7), kv_heads="auto")) == ([], set())


def test_the_largest_listed_count_extends_hold_head_dim() -> None:
    assert dead(SpaceOptions(hold="head_dim", heads=[12, 16])) == ([], set())


def test_key_value_heads_are_not_blamed_where_the_heads_are_dead() -> None:
    problems, explained = dead(SpaceOptions(hold="width", heads=[5], kv_heads=[1]))
    assert problems == [
        "heads: 5 is legal for none of these sites; legal: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96"
    ]
    assert explained == {"a", "b"}
