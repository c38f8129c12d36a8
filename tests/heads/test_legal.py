from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.heads import legal
from headtune.heads.choice import HeadChoice
from headtune.heads.legal import divisors, head_counts, legal_heads, listing, nearest
from headtune.heads.site import AttentionSite, Hold


def site(num_heads: int = 8, num_kv_heads: int = 8, head_dim: int = 8) -> AttentionSite:
    return AttentionSite(
        path="encoder.layers.0.self_attn",
        role="self",
        embed_dim=64,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
    )


@given(st.integers(1, 3000))
def test_divisors_are_all_numbers_that_divide(number: int) -> None:
    assert divisors(number) == tuple(n for n in range(1, number + 1) if number % n == 0)


def test_a_width_with_poor_divisors() -> None:
    assert divisors(147) == (1, 3, 7, 21, 49, 147)


def test_under_hold_width_the_divisors_of_the_width_are_legal() -> None:
    assert head_counts(site(), "width") == (1, 2, 4, 8, 16, 32, 64)


def test_the_width_counts_not_the_embed_dim() -> None:
    assert head_counts(site(num_heads=3, num_kv_heads=3, head_dim=5), "width") == (1, 3, 5, 15)


def test_under_hold_head_dim_one_to_the_present_count_is_legal() -> None:
    assert head_counts(site(), "head_dim") == (1, 2, 3, 4, 5, 6, 7, 8)


@pytest.mark.parametrize(("maximum", "last"), [(None, 8), (4, 8), (8, 8), (12, 12)])
def test_a_maximum_extends_hold_head_dim_beyond_the_present(maximum: int | None, last: int) -> None:
    assert head_counts(site(), "head_dim", maximum=maximum) == tuple(range(1, last + 1))


def test_a_maximum_means_nothing_under_hold_width() -> None:
    assert head_counts(site(), "width", maximum=3) == head_counts(site(), "width")


@pytest.mark.parametrize(("hold", "counts"), [("width", (4, 8, 16, 32, 64)), ("head_dim", (4, 8))])
def test_legal_heads_keep_the_present_group_size(hold: Hold, counts: tuple[int, ...]) -> None:
    assert legal_heads(site(num_kv_heads=2), hold) == counts


@given(st.sampled_from(["width", "head_dim"]), st.integers(1, 12), st.integers(1, 6), st.integers(1, 24))
def test_the_present_count_is_always_legal(hold: Hold, groups: int, size: int, head_dim: int) -> None:
    here = site(num_heads=groups * size, num_kv_heads=groups, head_dim=head_dim)
    assert here.num_heads in legal_heads(here, hold)
    assert legal.problems(HeadChoice(*here.present), here, hold) == ()


@pytest.mark.parametrize(
    ("counts", "target", "expected"),
    [((1, 2, 4, 8), 6, 4), ((1, 2, 4, 8), 7, 8), ((1, 3), 2, 1), ((3, 1), 2, 1), ((1, 2, 4), 0.5, 1), ((2, 5), 99, 5)],
)
def test_nearest_takes_the_smaller_of_two_equally_near(counts: tuple[int, ...], target: float, expected: int) -> None:
    assert nearest(counts, target) == expected


@given(
    st.sampled_from(["width", "head_dim"]),
    st.integers(1, 70),
    st.none() | st.integers(1, 70),
    st.none() | st.integers(1, 70),
    st.sampled_from([(8, 8, 8), (8, 2, 8), (7, 7, 21), (16, 4, 9)]),
)
def test_a_choice_without_problems_keeps_the_rules_and_no_other_does(
    hold: Hold, heads: int, kv_heads: int | None, head_dim: int | None, counts: tuple[int, int, int]
) -> None:
    here = site(*counts)
    # The rules written down a second time, in exact fractions.
    kv = Fraction(heads, here.group_size) if kv_heads is None else Fraction(kv_heads)
    dim = (
        (Fraction(here.width, heads) if hold == "width" else Fraction(here.head_dim)) if head_dim is None else head_dim
    )
    kept = (
        kv.denominator == 1
        and (heads / kv).denominator == 1
        and Fraction(dim).denominator == 1
        and (heads * dim == here.width if hold == "width" else heads <= here.num_heads)
    )
    assert (legal.problems(HeadChoice(heads, kv_heads, head_dim), here, hold) == ()) == kept


@pytest.mark.parametrize(
    ("choice", "kv_heads", "hold", "maximum", "problem"),
    [
        (HeadChoice(7), 8, "width", None, "7 heads do not divide the width 64; legal: 1, 2, 4, 8, 16, 32, 64"),
        (HeadChoice(7), 2, "width", None, "7 heads do not divide the width 64; legal: 4, 8, 16, 32, 64"),
        (
            HeadChoice(2),
            2,
            "width",
            None,
            "2 heads cannot form groups of 4 as at present; legal: 4, 8, 16, 32, 64, "
            "or name the key/value heads, as in 2/1",
        ),
        (
            HeadChoice(4, None, 32),
            8,
            "width",
            None,
            "4 heads of 32 features make a width of 128, but hold: width keeps 64; write 4 or 4x16",
        ),
        (HeadChoice(8, 3), 8, "width", None, "3 key/value heads do not divide 8 heads; legal: 1, 2, 4, 8"),
        (HeadChoice(12), 8, "head_dim", None, "12 heads are more than the present 8; legal: 1, 2, …, 8"),
        (HeadChoice(13), 8, "head_dim", 12, "13 heads are more than the maximum of 12; legal: 1, 2, …, 12"),
        (HeadChoice(12), 4, "head_dim", None, "12 heads are more than the present 8; legal: 2, 4, 6, 8"),
        (HeadChoice(12, 12), 4, "head_dim", None, "12 heads are more than the present 8; legal: 1, 2, …, 8"),
    ],
)
def test_problems_say_what_came_and_what_is_legal(
    choice: HeadChoice, kv_heads: int, hold: Hold, maximum: int | None, problem: str
) -> None:
    found = legal.problems(choice, site(num_kv_heads=kv_heads), hold, maximum=maximum)
    assert found == (f"encoder.layers.0.self_attn: {problem}",)


def test_all_problems_of_a_choice_come_at_once() -> None:
    assert legal.problems(HeadChoice(7, 2), site(), "width") == (
        "encoder.layers.0.self_attn: 7 heads do not divide the width 64; legal: 1, 2, 4, 8, 16, 32, 64",
        "encoder.layers.0.self_attn: 2 key/value heads do not divide 7 heads; legal: 1, 7",
    )


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((1, 2, 3, 4, 5, 6), "1, 2, 3, 4, 5, 6"),
        ((1, 2, 3, 4, 5, 6, 7), "1, 2, …, 7"),
        ((4, 8, 12, 16, 20, 24, 28), "4, 8, …, 28"),
        ((1, 2, 4, 8, 16, 32, 64), "1, 2, 4, 8, 16, 32, 64"),
    ],
)
def test_listing_shortens_only_long_even_runs(numbers: tuple[int, ...], text: str) -> None:
    assert listing(numbers) == text
