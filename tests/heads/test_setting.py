import pytest
from hypothesis import given
from hypothesis import strategies as st

from headtune.errors import SpaceError
from headtune.heads.setting import HeadRange, Settings, Stages, setting_problems, words


@given(st.integers(1, 40), st.none() | st.integers(1, 40), st.integers(1, 5), st.integers(1, 50))
def test_a_range_holds_what_its_three_numbers_allow(low: int, high: int | None, step: int, heads: int) -> None:
    listed = [n for n in range(1, 200) if n >= low and (high is None or n <= high) and n % step == 0]
    if not listed:
        with pytest.raises(SpaceError):
            HeadRange(min=low, max=high, divisible_by=step)
        return
    assert (heads in HeadRange(min=low, max=high, divisible_by=step)) == (heads in listed)


def test_a_range_of_numbers_below_one_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadRange(min=0, max=-1, divisible_by=0)
    assert str(caught.value) == (
        "3 problems:\n"
        "  - heads: min is 0; it must be at least 1\n"
        "  - heads: max is -1; it must be at least 1\n"
        "  - heads: divisible_by is 0; it must be at least 1"
    )


def test_a_range_without_a_count_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadRange(min=5, max=7, divisible_by=4)
    assert str(caught.value) == "heads: no count from 5 to 7 is divisible by 4"


def test_stages_below_one_are_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        Stages(0)
    assert str(caught.value) == "tie: stages is 0; it must be at least 1"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("auto", "auto"),
        ((1, 2, 4), "[1, 2, 4]"),
        (HeadRange(), "{min: 1}"),
        (HeadRange(min=2, max=16, divisible_by=2), "{min: 2, max: 16, divisible_by: 2}"),
    ],
)
def test_words_are_those_of_a_study_file(setting: HeadRange | tuple[int, ...], text: str) -> None:
    assert words(setting) == text


def test_stages_print_as_in_a_study_file() -> None:
    assert str(Stages(3)) == "{stages: 3}"


@pytest.mark.parametrize(
    ("heads", "maximum"), [("auto", None), ((1, 16, 4), 16), (HeadRange(max=12), 12), (HeadRange(min=2), None)]
)
def test_the_maximum_is_the_largest_count_that_is_named(
    heads: HeadRange | tuple[int, ...], maximum: int | None
) -> None:
    assert Settings(heads, "same", "same").maximum == maximum


def test_settings_know_what_they_want() -> None:
    listed = Settings((1, 2), (1,), "same")
    assert [listed.wants_heads(heads) for heads in (1, 2, 3)] == [True, True, False]
    assert [listed.wants_kv_heads(heads) for heads in (1, 2)] == [True, False]
    free = Settings("auto", "auto", "same")
    assert free.wants_heads(99)
    assert free.wants_kv_heads(99)


@pytest.mark.parametrize(
    ("setting", "problems"),
    [
        ("auto", []),
        ((1, 2), []),
        ("all", ["heads: 'all' is not known; write auto, or a list of whole numbers"]),
        (8, ["heads: '8' is not known; write auto, or a list of whole numbers"]),
        ((), ["heads: the list is empty; name at least one number, or write auto"]),
        (
            (0, 2, 2.0, True, "4"),
            [
                "heads: 0 is not a whole number of at least 1",
                "heads: 2.0 is not a whole number of at least 1",
                "heads: True is not a whole number of at least 1",
                "heads: '4' is not a whole number of at least 1",
            ],
        ),
    ],
)
def test_setting_problems_name_every_wrong_value(setting: object, problems: list[str]) -> None:
    assert setting_problems("heads", setting, ("auto",)) == problems


def test_setting_problems_offer_every_word() -> None:
    assert setting_problems("kv_heads", "all", ("same", "auto")) == [
        "kv_heads: 'all' is not known; write same or auto, or a list of whole numbers"
    ]


def test_what_is_no_whole_number_is_refused() -> None:
    with pytest.raises(SpaceError) as caught:
        HeadRange(min="1", max=True, divisible_by=1.5)  # type: ignore[arg-type]
    assert caught.value.problems == (
        "heads: min is '1'; it must be a whole number",
        "heads: max is True; it must be a whole number",
        "heads: divisible_by is 1.5; it must be a whole number",
    )
    with pytest.raises(SpaceError, match=r"^tie: stages is '2'; it must be a whole number$"):
        Stages("2")  # type: ignore[arg-type]
