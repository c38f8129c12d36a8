from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.heads.choice import HeadChoice
from headtune.heads.count import HeadCount
from headtune.heads.setting import Stages, Tie
from headtune.heads.site import AttentionSite, Role
from headtune.heads.tie import Equal, Ramp, stack_sites, tied


def site(path: str, role: Role = "self", head_dim: int = 8) -> AttentionSite:
    return AttentionSite(path=path, role=role, embed_dim=64, num_heads=8, num_kv_heads=8, head_dim=head_dim)


ENCODER = tuple(site(f"encoder.{layer}") for layer in range(5))
DECODER = tuple(
    site(f"decoder.{layer}.{name}", role)
    for layer in range(2)
    for name, role in (("self", "causal"), ("cross", "cross"))
)
CHOICES = tuple(HeadChoice(heads) for heads in (1, 2, 4, 8, 16))


def names(tie: Tie) -> dict[str, list[str]]:
    return {name: [here.path for here in sites] for name, sites in tied((*ENCODER, *DECODER), tie).items()}


def test_without_a_tie_every_site_is_its_own_group() -> None:
    assert names("none") == {here.path: [here.path] for here in (*ENCODER, *DECODER)}


def test_a_uniform_tie_is_one_group() -> None:
    assert names("uniform") == {"all": [here.path for here in (*ENCODER, *DECODER)]}


def test_a_ramp_goes_over_each_stack_and_role() -> None:
    assert names("ramp") == {
        "encoder.*": ["encoder.0", "encoder.1", "encoder.2", "encoder.3", "encoder.4"],
        "decoder.*.self": ["decoder.0.self", "decoder.1.self"],
        "decoder.*.cross": ["decoder.0.cross", "decoder.1.cross"],
    }


def test_stages_cut_each_stack_and_role_by_depth() -> None:
    assert names(Stages(2)) == {
        "encoder.*.stage1": ["encoder.0", "encoder.1", "encoder.2"],
        "encoder.*.stage2": ["encoder.3", "encoder.4"],
        "decoder.*.self.stage1": ["decoder.0.self"],
        "decoder.*.self.stage2": ["decoder.1.self"],
        "decoder.*.cross.stage1": ["decoder.0.cross"],
        "decoder.*.cross.stage2": ["decoder.1.cross"],
    }


@given(st.integers(1, 30), st.integers(1, 40))
def test_stages_are_contiguous_and_near_equal(layers: int, count: int) -> None:
    stack = tuple(site(f"layers.{layer}") for layer in range(layers))
    stages = list(tied(stack, Stages(count)).values())
    sizes = [len(stage) for stage in stages]
    assert sum(stages, ()) == stack
    assert len(stages) == min(count, layers)
    assert max(sizes) - min(sizes) <= 1


def test_stacks_with_equal_paths_are_told_apart_by_role() -> None:
    alternating = [site("layers.0", "self"), site("layers.1", "causal"), site("layers.2", "self"), site("head")]
    assert {name: [here.path for here in sites] for name, sites in stack_sites(alternating).items()} == {
        "layers.* (self)": ["layers.0", "layers.2"],
        "layers.* (causal)": ["layers.1"],
        "head": ["head"],
    }


def test_a_model_that_is_itself_the_site_has_a_name() -> None:
    assert list(tied([site("")], "none")) == list(tied([site("")], "ramp")) == ["(model)"]


def test_equal_sites_share_the_count_each_in_its_own_width() -> None:
    sites = (site("a"), site("b", head_dim=16))
    group = Equal(name="all", sites=sites, choices=CHOICES, hold="width")
    assert group.counts((2,)) == {"a": HeadCount(4, 4, 16), "b": HeadCount(4, 4, 32)}
    assert [dimension.name for dimension in group.dimensions] == ["all"]
    assert group.dimensions[0].paths == ("a", "b")


def test_equal_sites_with_other_counts_have_no_index() -> None:
    group = Equal(name="all", sites=ENCODER[:2], choices=CHOICES, hold="head_dim")
    counts = {"encoder.0": HeadCount(4, 4, 8), "encoder.1": HeadCount(2, 2, 8)}
    assert group.index(counts) is None
    assert group.index(dict.fromkeys(counts, HeadCount(4, 4, 8))) == (2,)


@pytest.mark.parametrize(
    ("ends", "counts"),
    [
        ((0, 0), [1, 1, 1, 1, 1]),
        ((0, 4), [1, 4, 8, 16, 16]),  # the line is at 1, 4.75, 8.5, 12.25, 16
        ((4, 0), [16, 16, 8, 4, 1]),
        ((1, 3), [2, 4, 4, 8, 8]),  # the line is at 2, 3.5, 5, 6.5, 8
        ((2, 3), [4, 4, 4, 8, 8]),  # the line is at 4, 5, 6, 7, 8: 6 is as near to 4 as to 8, the smaller is taken
    ],
)
def test_a_ramp_snaps_the_line_to_the_choices(ends: tuple[int, int], counts: list[int]) -> None:
    group = Ramp(name="encoder.*", sites=ENCODER, choices=CHOICES, hold="width")
    assert [count.num_heads for count in group.counts(ends).values()] == counts


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8, unique=True).map(sorted),
    st.integers(2, 9),
    st.data(),
)
def test_a_ramp_is_nowhere_farther_from_the_line_than_any_other_choice(
    heads: list[int], layers: int, data: st.DataObject
) -> None:
    choices = tuple(HeadChoice(count) for count in heads)
    stack = tuple(site(f"layers.{layer}") for layer in range(layers))
    group = Ramp(name="layers.*", sites=stack, choices=choices, hold="head_dim")
    first, last = (data.draw(st.integers(0, len(heads) - 1)) for _ in range(2))
    counts = [count.num_heads for count in group.counts((first, last)).values()]
    for depth, count in enumerate(counts):
        line = heads[first] + Fraction(heads[last] - heads[first], layers - 1) * depth
        assert (abs(count - line), count) == min((abs(other - line), other) for other in heads)
    assert (counts[0], counts[-1]) == (heads[first], heads[last])
    assert group.index(group.counts((first, last))) == (first, last)


def test_a_ramp_of_groups_follows_heads_first_then_key_value_heads() -> None:
    choices = tuple(HeadChoice(heads, kv) for heads, kv in ((2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 8)))
    group = Ramp(name="s", sites=ENCODER[:3], choices=choices, hold="head_dim")
    first, last = choices.index(HeadChoice(2, 1)), choices.index(HeadChoice(8, 1))
    # The line is at 5 heads in the middle, nearest 4, with 1 key/value head all along.
    assert list(group.counts((first, last)).values()) == [HeadCount(2, 1, 8), HeadCount(4, 1, 8), HeadCount(8, 1, 8)]
    assert [dimension.name for dimension in group.dimensions] == ["s.first", "s.last"]


@pytest.mark.parametrize("heads", [[1, 1, 2], [3, 2, 1], [1, 2, 3]])
def test_counts_that_are_on_no_line_have_no_index(heads: list[int]) -> None:
    group = Ramp(name="s", sites=ENCODER[:3], choices=CHOICES, hold="head_dim")
    counts = {here.path: HeadCount(n, n, 8) for here, n in zip(ENCODER[:3], heads, strict=True)}
    expected = (0, 1) if heads == [1, 1, 2] else None
    assert group.index(counts) == expected
