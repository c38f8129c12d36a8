from typing import Annotated, Any

import pytest
from pydantic import Field, ValidationError

from headtune.config.problems import explain
from headtune.config.section import Problem, Section
from headtune.config.values import EMPTY, Text


class Leaf(Section):
    """The innermost section."""

    size: int = 1
    shape: Annotated[str, Field(pattern="^(auto|cpu)$")] = "auto"


class Other(Section):
    """Another kind of the same item."""

    weight: float
    """a weight in kg"""


class Root(Section):
    """A file."""

    leaf: Leaf = Leaf()
    leaves: Annotated[dict[str, Leaf | Other], EMPTY] = Field(default_factory=dict)
    items: list[Leaf] = []  # noqa: RUF012 - read only
    text: Text = "x"
    flag: bool = False
    storage: Text = "x"


def problems(value: object) -> list[Problem]:
    with pytest.raises(ValidationError) as caught:
        Root.model_validate(value)
    return [problem for error in caught.value.errors() for problem in explain(error, Root)]


@pytest.mark.parametrize(
    ("value", "keys", "sentence"),
    [
        ({"leaf": {"size": "x"}}, ("leaf", "size"), "must be a whole number (got 'x')"),
        ({"leaf": {"size": None}}, ("leaf", "size"), "must be a whole number (got nothing)"),
        ({"leaf": {"size": [1]}}, ("leaf", "size"), "must be a whole number (got a list)"),
        ({"leaf": {"size": {}}}, ("leaf", "size"), "must be a whole number (got a mapping)"),
        ({"leaf": {"size": True}}, ("leaf", "size"), "must be a whole number (got true)"),
        ({"leaf": 3}, ("leaf",), "must be a mapping of `key: value` (got 3)"),
        ({"items": {"a": 1}}, ("items",), "must be a list (got a mapping)"),
        ({"items": [{}, {"size": 1.5}]}, ("items", 1, "size"), "must be a whole number (got 1.5)"),
        ({"items": [{"sise": 1}]}, ("items", 0, "sise"), "is not a known key; did you mean size?"),
        ({"leaf": {"zzz": 1}}, ("leaf", "zzz"), "is not a known key; known: size, shape"),
        ({"flag": "on"}, ("flag",), "must be true or false (got 'on')"),
        ({"text": 5}, ("text",), "must be text (got 5); put it in quotes"),
        ({"text": None}, ("text",), "must be text (got nothing)"),
        ({"text": ""}, ("text",), "must not be empty (got '')"),
        ({"storage": 5}, ("storage",), "must be text"),
        ({5: 1}, ("5",), "must be text, as every key (got 5)"),
    ],
)
def test_one_problem(value: dict[Any, Any], keys: tuple[str | int, ...], sentence: str) -> None:
    assert [(tuple(str(key) if keys == ("5",) else key for key in found), said) for found, said in problems(value)] == [
        (keys, sentence)
    ]


def test_long_values_are_cut() -> None:
    ((_, sentence),) = problems({"leaf": {"size": "x" * 500}})
    assert sentence == f"must be a whole number (got '{'x' * 56}…)"


def test_the_known_keys_of_a_union_are_those_of_all_its_kinds() -> None:
    found = dict(problems({"leaves": {"a": {"wieght": 1.0}}}))
    assert "is not a known key; did you mean weight?" in found.values()


def test_a_key_of_a_mapping_that_is_called_like_a_field_does_not_confuse_the_search_for_known_keys() -> None:
    found = [sentence for _, sentence in problems({"leaves": {"size": {"siez": 1}}})]
    assert "is not a known key; did you mean size?" in found
