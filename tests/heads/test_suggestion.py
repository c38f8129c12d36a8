import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import InputError
from headtune.heads.suggestion import ALIGNMENTS, Split, helpful_paddings, splits, suggest


def test_a_good_width() -> None:
    suggestion = suggest(384, layers=6)
    assert (suggestion.rule, suggestion.heads) == (6, 6)
    assert suggestion.uniform == (6, 6, 6, 6, 6, 6)
    assert suggestion.mixed == (3, 3, 3, 6, 6, 6)
    assert Split(6, 64) in suggestion.legal
    assert len(suggestion.legal) == 16
    assert suggestion.paddings == ()


def test_a_width_with_poor_divisors_names_the_paddings_that_help() -> None:
    suggestion = suggest(147)
    assert (suggestion.rule, suggestion.heads) == (2, 1)
    assert [(split.num_heads, split.head_dim) for split in suggestion.legal] == [
        (1, 147),
        (3, 49),
        (7, 21),
        (21, 7),
        (49, 3),
        (147, 1),
    ]
    assert [(padding.d_model, padding.added, padding.alignment) for padding in suggestion.paddings] == [
        (150, 3, 2),
        (160, 13, 8),
    ]
    assert suggestion.paddings[1].splits == (Split(2, 80), Split(4, 40), Split(5, 32), Split(10, 16))


def test_a_suggestion_prints_for_people() -> None:
    assert str(suggest(147, layers=2)) == (
        "rule of thumb: max(1, min(8, round(147 / 64))) = 2, which does not divide 147; nearest legal count: 1\n"
        "uniform: 1 1\n"
        "mixed: 1 1\n"
        "legal, heads x head_dim: 1x147, 3x49, 7x21, 21x7, 49x3, 147x1\n"
        "padding: 150 (+3) gives even head_dims, which rotary positions need: 3x50, 5x30, 15x10\n"
        "padding: 160 (+13) gives head_dims in eights, at which fused kernels are fastest: 2x80, 4x40, 5x32, 10x16"
    )
    assert str(suggest(128, layers=2)) == (
        "rule of thumb: max(1, min(8, round(128 / 64))) = 2\n"
        "uniform: 2 2\n"
        "mixed: 1 2\n"
        "legal, heads x head_dim: 1x128, 2x64, 4x32, 8x16, 16x8, 32x4, 64x2, 128x1"
    )


@given(st.integers(1, 2000), st.integers(1, 8))
def test_every_suggested_count_divides_the_width(d_model: int, layers: int) -> None:
    suggestion = suggest(d_model, layers)
    assert len(suggestion.uniform) == len(suggestion.mixed) == layers
    assert all(d_model % heads == 0 for heads in (*suggestion.uniform, *suggestion.mixed))
    assert all(split.num_heads * split.head_dim == d_model for split in suggestion.legal)


@given(st.integers(1, 1500))
def test_a_padding_is_the_first_width_that_offers_a_choice_where_there_was_none(d_model: int) -> None:
    def useful(width: int, alignment: int) -> list[Split]:
        every = (Split(heads, width // heads) for heads in range(2, 17) if width % heads == 0)
        return [split for split in every if split.head_dim % alignment == 0]

    found = {padding.alignment: padding for padding in helpful_paddings(d_model)}
    for alignment in ALIGNMENTS:
        wider = range(d_model + 1, d_model + d_model // 4 + 1)
        helping = [width for width in wider if len(useful(width, alignment)) >= 2]
        if useful(d_model, alignment) or not helping:
            assert alignment not in found
        else:
            assert found[alignment].d_model == helping[0]
            assert list(found[alignment].splits) == useful(helping[0], alignment)


def test_splits_are_ordered_by_heads() -> None:
    assert list(map(str, splits(12))) == ["1x12", "2x6", "3x4", "4x3", "6x2", "12x1"]


def test_numbers_below_one_are_refused_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        suggest(0, layers=-1)
    assert str(caught.value) == (
        "2 problems:\n  - d_model is 0; it must be at least 1\n  - layers is -1; it must be at least 1"
    )


def test_what_is_no_whole_number_is_refused_all_at_once() -> None:
    with pytest.raises(InputError) as caught:
        suggest("384", layers=2.0)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "d_model is '384'; it must be a whole number",
        "layers is 2.0; it must be a whole number",
    )
