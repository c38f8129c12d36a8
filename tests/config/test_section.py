from collections.abc import Iterable

import pytest
from pydantic import ValidationError

from headtune.config.section import RULES, Problem, Section
from headtune.errors import SpaceError


class Plain(Section):
    """A section without rules."""

    count: int = 1
    """how many"""


class Ruled(Section):
    """A section with rules of its own, and rules of the value it builds."""

    low: int
    high: int

    def problems(self) -> Iterable[Problem]:
        if self.low > self.high:
            yield ("low",), "is too high"
            yield (), "is upside down"

    def build(self) -> object:
        if self.high > 9:
            raise SpaceError("high: above 9", "nothing fits: really")
        return self


def errors(section: type[Section], value: object) -> list[tuple[str, tuple[str | int, ...]]]:
    with pytest.raises(ValidationError) as caught:
        section.model_validate(value)
    return [(error["type"], error["loc"]) for error in caught.value.errors()]


def problems(value: object) -> list[Problem]:
    with pytest.raises(ValidationError) as caught:
        Ruled.model_validate(value)
    (error,) = caught.value.errors()
    assert error["type"] == RULES
    return list(error["ctx"]["problems"])


def test_no_value_is_converted_and_no_key_is_ignored() -> None:
    assert Plain.model_validate({"count": 3}).count == 3
    assert errors(Plain, {"count": "3", "conut": 3}) == [("int_type", ("count",)), ("extra_forbidden", ("conut",))]
    assert errors(Plain, {"count": True}) == [("int_type", ("count",))]


def test_nothing_after_a_key_is_a_section_of_defaults() -> None:
    assert Plain.model_validate(None) == Plain()


def test_sections_are_values() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Plain().count = 2  # type: ignore[misc]


def test_what_stands_under_a_key_describes_it() -> None:
    assert Plain.model_fields["count"].description == "how many"


def test_every_broken_rule_comes_with_its_key() -> None:
    assert problems({"low": 3, "high": 2}) == [(("low",), "is too high"), ((), "is upside down")]


def test_what_the_value_refuses_comes_with_the_key_it_begins_with() -> None:
    assert problems({"low": 3, "high": 12}) == [(("high",), "above 9"), ((), "nothing fits: really")]


def test_rules_are_asked_only_when_every_key_is_sound() -> None:
    assert errors(Ruled, {"low": 99}) == [("missing", ("high",))]
