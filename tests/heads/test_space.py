import pickle
from collections import Counter
from itertools import islice, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtune.errors import SpaceError
from headtune.heads import legal
from headtune.heads.choice import HeadChoice
from headtune.heads.constraint import HeadDimConstraint
from headtune.heads.count import HeadCount
from headtune.heads.options import SiteOptions, SpaceOptions
from headtune.heads.plan import HeadPlan
from headtune.heads.setting import HeadRange, Stages
from headtune.heads.site import AttentionSite, Role
from headtune.heads.space import SearchSpace


def site(path: str, role: Role = "self", num_heads: int = 8, num_kv_heads: int = 8, head_dim: int = 8) -> AttentionSite:
    return AttentionSite(
        path=path, role=role, embed_dim=64, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim
    )


SITES = (
    site("encoder.0"),
    site("encoder.1"),
    site("encoder.2"),
    site("decoder.0.self", "causal", num_heads=4, num_kv_heads=2),
    site("decoder.0.cross", "cross"),
)


def heads(plan: HeadPlan) -> list[int]:
    return [count.num_heads for _, count in plan]


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Small spaces of every kind of option; those that are left empty are drawn again."""
    hold = draw(st.sampled_from(["width", "head_dim"]))
    sites = [
        site(f"s{number % 2}.{number}", draw(st.sampled_from(["self", "cross"])), *draw(st.sampled_from(COUNTS)))
        for number in range(draw(st.integers(1, 4)))
    ]
    options = SpaceOptions(
        hold=hold,
        heads=draw(st.sampled_from(["auto", (1, 2, 4), HeadRange(max=6), HeadRange(min=2, max=8, divisible_by=2)])),
        kv_heads=draw(st.sampled_from(["same", "auto", (1, 2)])),
        head_dims="same" if hold == "width" else draw(st.sampled_from(["same", (8, 16)])),
        tie=draw(st.sampled_from(["none", "uniform", "ramp", Stages(2)])),
        sites=draw(st.sampled_from([{}, {"*1": SiteOptions(heads=(2, 4, 6))}])),
        head_dim=draw(st.sampled_from([None, HeadDimConstraint(min=2, multiple_of=2)])),
    )
    try:
        return SearchSpace.of(sites, options)
    except SpaceError:
        return draw(st.nothing())


COUNTS = [(8, 8, 8), (8, 4, 8), (6, 6, 16), (4, 1, 12)]


@given(spaces())
@settings(deadline=None, max_examples=150)
def test_every_plan_is_listed_once_counted_and_found_again(space: SearchSpace) -> None:
    indices = product(*(range(len(dimension.choices)) for dimension in space.dimensions))
    plans = list(islice(zip(space, indices, strict=False), 300))
    assert len({plan for plan, _ in plans}) == len(plans) == min(space.size, 300)
    for plan, index in plans:
        assert space.index(plan) == index
        assert space.plan(index) == plan
        assert plan in space


@given(spaces(), st.integers(0, 2**32))
@settings(deadline=None, max_examples=150)
def test_every_plan_keeps_every_rule(space: SearchSpace, seed: int) -> None:
    plan, options = space.sample(Random(seed)), space.options
    settings_of = options.settings(space.sites)
    assert plan in space
    assert plan.paths == tuple(here.path for here in space.sites)
    for here in space.sites:
        count, wanted = plan[here.path], settings_of[here.path]
        assert legal.problems(HeadChoice(*count), here, options.hold, maximum=options.maximum) == ()
        assert wanted.wants_heads(count.num_heads)
        assert wanted.wants_kv_heads(count.num_kv_heads) or wanted.kv_heads == "same"
        assert wanted.kv_heads != "same" or count.num_heads == count.num_kv_heads * here.group_size
        assert options.head_dim is None or options.head_dim.violation(count.head_dim) <= 0
        if options.hold == "head_dim":
            assert count.head_dim in ((here.head_dim,) if wanted.head_dims == "same" else wanted.head_dims)


@given(spaces())
@settings(deadline=None)
def test_an_index_is_ordinal(space: SearchSpace) -> None:
    for dimension in space.dimensions:
        counts = [choice.num_heads for choice in dimension.choices]
        assert counts == sorted(counts)
    assert space.plan([0] * len(space.dimensions)) == space.smallest
    assert space.plan([len(dimension.choices) - 1 for dimension in space.dimensions]) == space.largest


def test_without_a_tie_the_size_is_the_product_of_the_sites() -> None:
    space = SearchSpace.of(SITES, SpaceOptions(hold="width"))
    # 7 divisors of 64, at the grouped site (width 32) the 5 even ones of 6
    assert space.size == 7 * 7 * 7 * 5 * 7
    assert [dimension.name for dimension in space.dimensions] == [here.path for here in SITES]


@pytest.mark.parametrize(
    ("tie", "size", "names"),
    [
        ("uniform", 5, ["all"]),
        (
            "ramp",
            7**2 * 5 * 7,
            ["encoder.*.first", "encoder.*.last", "decoder.*.self", "decoder.*.cross"],
        ),
        (
            Stages(2),
            7**2 * 5 * 7,
            ["encoder.*.stage1", "encoder.*.stage2", "decoder.*.self.stage1", "decoder.*.cross.stage1"],
        ),
    ],
)
def test_ties_shrink_the_space(tie: Stages, size: int, names: list[str]) -> None:
    space = SearchSpace.of(SITES, SpaceOptions(hold="width", tie=tie))
    assert space.size == size
    assert [dimension.name for dimension in space.dimensions] == names


def test_ninety_six_sites_are_counted_without_listing() -> None:
    sites = [site(f"layers.{layer}.attn", num_heads=16, num_kv_heads=16) for layer in range(96)]
    space = SearchSpace.of(sites, SpaceOptions(hold="width"))
    assert space.size == 8**96
    assert heads(next(iter(space))) == [1] * 96
    sample = space.sample(Random(0))
    assert sample in space
    assert space.plan(space.index(sample) or ()) == sample


def test_samples_are_uniform() -> None:
    space = SearchSpace.of(SITES[:2], SpaceOptions(hold="width", heads=[1, 2, 4]))
    rng, draws = Random(0), 9000
    drawn = Counter(space.sample(rng) for _ in range(draws))
    assert set(drawn) == set(space)
    # Chi-squared with 8 degrees of freedom: beyond 26.1 with a chance of 0.001 (the seed is fixed).
    assert sum((count - draws / 9) ** 2 / (draws / 9) for count in drawn.values()) < 26.1


def test_samples_repeat_with_the_seed() -> None:
    space = SearchSpace.of(SITES, SpaceOptions(hold="width"))
    assert [space.sample(rng) for rng in (Random(3), Random(3))] == [space.sample(Random(3))] * 2


def test_a_plan_outside_is_not_contained() -> None:
    space = SearchSpace.of(SITES, SpaceOptions(hold="width", heads=[2, 4], tie=Stages(1)))
    inside = space.smallest
    changed = {**dict(inside.counts), "encoder.1": HeadCount(4, 4, 16)}
    assert inside in space
    assert HeadPlan.of(changed) not in space  # one stage, two counts
    assert HeadPlan.of({**dict(inside.counts), "encoder.1": HeadCount(8, 8, 8)}) not in space
    assert HeadPlan.of(dict(inside.counts[1:])) not in space
    assert HeadPlan.of(dict(reversed(inside.counts))) not in space


def test_overrides_by_glob_and_role_hold_at_their_sites_only() -> None:
    options = SpaceOptions(
        hold="width", heads=[2], sites={"encoder.*": SiteOptions(heads=[4]), "role=cross": SiteOptions(heads=[8, 16])}
    )
    space = SearchSpace.of(SITES, options)
    assert [[str(choice) for choice in dimension.choices] for dimension in space.dimensions] == [
        ["4"],
        ["4"],
        ["4"],
        ["2"],
        ["8", "16"],
    ]


def test_a_space_survives_pickling() -> None:
    space = SearchSpace.of(SITES, SpaceOptions(hold="width", tie="ramp"))
    assert pickle.loads(pickle.dumps(space)) == space


def test_an_index_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of(SITES[:2], SpaceOptions(hold="width")).plan((0,))
    assert str(caught.value) == "an index of 1 numbers; the space has 2 dimensions"


def test_an_index_outside_the_choices_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of(SITES[:2], SpaceOptions(hold="width")).plan((7, -1))
    assert str(caught.value) == (
        "2 problems:\n"
        "  - encoder.0: there is no choice 7; choices go from 0 to 6\n"
        "  - encoder.1: there is no choice -1; choices go from 0 to 6"
    )


def test_a_model_without_sites_has_no_space() -> None:
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of([], SpaceOptions(hold="width"))
    assert str(caught.value) == "the model has no attention site, so there is nothing to search"


def test_all_problems_of_a_space_come_at_once() -> None:
    options = SpaceOptions(
        hold="width",
        heads=[2, 5],
        sites={
            "vit.*": SiteOptions(heads=[1]),
            "role=cross": SiteOptions(heads=[7]),
            "role=causal": SiteOptions(heads=[32]),
        },
        head_dim=HeadDimConstraint(min=2, max=16),
    )
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of(SITES, options)
    assert str(caught.value) == (
        "5 problems:\n"
        "  - sites: 'vit.*' matches no site; sites: encoder.0, encoder.1, encoder.2, decoder.0.self, decoder.0.cross\n"
        "  - heads: 5 is legal for none of these sites; legal: 1, 2, 4, 8, 16, 32, 64\n"
        "  - sites: role=cross: heads: 7 is legal for none of these sites; legal: 1, 2, 4, 8, 16, 32, 64\n"
        "  - encoder.0, encoder.1, encoder.2: no choice is left of 1, 2, 4, 8, 16, 32, 64 heads, because heads: [2, 5] "
        "rules out 6 of 7, head_dim ≤ 16 rules out 2 of 7, head_dim ≥ 2 rules out 1 of 7; loosen the first\n"
        "  - decoder.0.self: no choice is left of 1, 2, 4, 8, 16, 32 heads, because heads: [32] rules out 5 of 6, "
        "kv_heads: same (groups of 2) rules out 1 of 6, head_dim ≥ 2 rules out 1 of 6, head_dim ≤ 16 rules out 1 of 6; "
        "loosen the first"
    )


def test_a_common_set_that_is_empty_names_its_sites() -> None:
    sites = [site(f"layers.{layer}.attn") for layer in range(6)]
    options = SpaceOptions(hold="width", tie="uniform", heads=[1, 2], sites={"layers.5.*": SiteOptions(heads=[4])})
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of(sites, options)
    assert str(caught.value) == (
        "layers.0.attn, layers.1.attn, layers.2.attn and 3 more: no common choice (tie: uniform) is left of "
        "1, 2, 4, 8, 16, 32, 64 heads, because heads: [4] rules out 6 of 7, heads: [1, 2] rules out 5 of 7; "
        "loosen the first"
    )


def test_trained_heads_only_become_fewer_whatever_is_named() -> None:
    options = SpaceOptions(hold="head_dim", heads=HeadRange(max=16), kv_heads="auto")
    space = SearchSpace.of([site("a", num_heads=4, num_kv_heads=2)], options, trained=True)
    counts = sorted(tuple(plan["a"])[:2] for plan in space)
    # Two key/value heads of two query heads each; 3 heads would need unequal groups, or one group that has three.
    assert counts == [(1, 1), (2, 1), (2, 2), (4, 1), (4, 2)]
    assert space.size == 5
    assert SearchSpace.of([site("a", num_heads=4, num_kv_heads=2)], options).size > 5


def test_trained_heads_without_groups_may_have_every_smaller_count() -> None:
    space = SearchSpace.of([site("a"), site("b")], SpaceOptions(hold="head_dim"), trained=True)
    assert space.size == 64
    assert heads(space.largest) == [8, 8]


def test_listed_counts_that_trained_heads_cannot_have_are_named() -> None:
    one = site("a", num_heads=4, num_kv_heads=2)
    with pytest.raises(SpaceError) as caught:
        SearchSpace.of([one], SpaceOptions(hold="head_dim", heads=(2, 8), kv_heads=(1, 4)), trained=True)
    assert caught.value.problems == (
        "heads: 8 is legal for none of these sites; legal: 1, 2, 3, 4",
        "kv_heads: 4 is legal for none of these sites; legal: 1, 2",
    )


def test_a_space_that_trained_heads_leave_empty_says_so() -> None:
    one = site("a", num_heads=4, num_kv_heads=4)
    with pytest.raises(SpaceError, match="because weights: keep rules out all 4"):
        SearchSpace.of([one], SpaceOptions(hold="head_dim", head_dims=(16,)), trained=True)
