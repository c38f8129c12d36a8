from typing import Annotated, Literal

import pytest
from pydantic import Tag, TypeAdapter, ValidationError

from headtune.config.values import (
    EMPTY,
    LIST,
    MAPPING,
    SHAPES,
    WORD,
    AutoCount,
    Count,
    FolderName,
    Identifier,
    Number,
    Scalar,
    Seconds,
    Text,
    either,
)


def parse(kind: object, value: object) -> object:
    return TypeAdapter(kind).validate_python(value, strict=True)


def refusal(kind: object, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        parse(kind, value)
    return str(caught.value.errors()[0]["msg"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("90m", 5400), ("30s", 30), ("1h30m", 5400), ("1d", 86400), ("1d2h3m4s", 93784), ("0.5h", 1800)],
)
def test_times_in_seconds(text: str, seconds: float) -> None:
    assert parse(Seconds, text) == seconds


@pytest.mark.parametrize(
    "value", ["", "2", "h", "2 h", "2hours", "30m1h", "-2h", "0s", "0h0m", 7200, 1.5, None, True, [], {}]
)
def test_what_is_no_time(value: object) -> None:
    assert refusal(Seconds, value) == "must be a time with its unit, such as 2h, 90m, 30s or 1h30m"


@pytest.mark.parametrize("value", [0, -3, 2.5, 1e300])
def test_numbers_stay_as_they_are(value: float) -> None:
    assert parse(Number, value) is value
    assert parse(Scalar, value) is value


@pytest.mark.parametrize("value", [True, "1", None, [], {}, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number(value: object) -> None:
    assert refusal(Number, value) == "must be a number"


@pytest.mark.parametrize("value", ["a", "", True, False])
def test_scalars_may_be_text_and_truth_values_too(value: object) -> None:
    assert parse(Scalar, value) is value


@pytest.mark.parametrize("value", [None, [], {}, float("nan")])
def test_what_is_no_scalar(value: object) -> None:
    assert refusal(Scalar, value) == "must be text, a number, true or false"


@pytest.mark.parametrize("value", ["auto", 1, 64])
def test_auto_or_a_count(value: object) -> None:
    assert parse(AutoCount, value) == value


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", "Auto", None])
def test_neither_auto_nor_a_count(value: object) -> None:
    assert refusal(AutoCount, value) == "must be auto or a whole number of at least 1"


@pytest.mark.parametrize("value", [0, True, 1.5, "1", None])
def test_a_count_is_a_whole_number_from_1(value: object) -> None:
    assert parse(Count, 1) == 1
    refusal(Count, value)


@pytest.mark.parametrize("value", ["digits-vit", "a", "9.x_y-z", "a" * 100])
def test_folder_names(value: str) -> None:
    assert parse(FolderName, value) == value


@pytest.mark.parametrize("value", ["", "a b", "../x", ".hidden", "-x", "a/b", "ü", "a" * 101, "a\n"])
def test_what_cannot_name_a_folder(value: str) -> None:
    assert refusal(FolderName, value) == ("must be letters, digits, '.', '_' and '-', at most 100: it names a folder")


@pytest.mark.parametrize("value", ["", "a b", "1a", "a-b", "a.b", "lambda"])
def test_what_cannot_be_an_argument_of_a_function(value: str) -> None:
    assert parse(Identifier, "lr_2") == "lr_2"
    assert refusal(Identifier, value) == "must be a name as in Python code: letters, digits and '_'"


def test_text_is_not_empty() -> None:
    assert parse(Text, "x") == "x"
    refusal(Text, "")


def test_nothing_is_an_empty_mapping() -> None:
    kind = Annotated[dict[str, int], EMPTY]
    assert parse(kind, None) == {}
    assert parse(kind, {"a": 1}) == {"a": 1}


def test_either_tells_shapes_apart_and_names_them_all_when_none_fits() -> None:
    kind = Annotated[
        Annotated[Literal["a"], Tag(WORD)] | Annotated[list[int], Tag(LIST)] | Annotated[dict[str, int], Tag(MAPPING)],
        either("a, a list or a mapping", "a"),
    ]
    assert [parse(kind, value) for value in ("a", [1], {"k": 1})] == ["a", [1], {"k": 1}]
    assert {refusal(kind, value) for value in ("b", 1, None, True)} == {"must be a, a list or a mapping"}


def test_a_shape_that_the_key_cannot_have_is_refused_in_the_same_words() -> None:
    kind = Annotated[Annotated[Literal["a"], Tag(WORD)] | Annotated[list[int], Tag(LIST)], either("a or a list", "a")]
    assert refusal(kind, {"k": 1}) == "must be a or a list"


def test_shapes_cannot_be_taken_for_keys_of_a_study() -> None:
    assert not any(shape.isidentifier() for shape in SHAPES)
