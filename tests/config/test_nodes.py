import time

import pytest
import yaml

from headtune.config.document import Document
from headtune.config.nodes import survey
from headtune.errors import SpecError

BOMB = "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 9)}]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Lists of nine times the list above: 9**9 values in 350 bytes."""


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        Document.parse(text, "s")
    return [problem.removeprefix("s:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"a: &a [{', '.join('x' * 9)}]\n{BOMB}",
            "5: e: the aliases expand too far, to more than 50,000 values; use fewer",
        ),
        (
            "a: &a {x: 1}\n" + BOMB.replace("[", "{<<: [").replace("]", "]}"),
            "6: f.<<: the aliases expand too far, to more than 50,000 values; use fewer",
        ),
        (
            "a: &a {x: 1}\n" + BOMB.replace("[*", "{k: {l: [*").replace("]", "]}}"),
            "6: f.k.l: the aliases expand too far, to more than 50,000 values; use fewer",
        ),
    ],
)
def test_aliases_that_expand_without_end_are_refused_before_they_do(text: str, message: str) -> None:
    began = time.perf_counter()
    assert problems(text) == [message]
    assert time.perf_counter() - began < 5, "milliseconds on an idle machine; expanded it is an hour"


def test_a_bomb_as_a_key_is_refused_too() -> None:
    assert problems(f"a: &a [1]\n{BOMB}? *i\n: 1\n")[-1] == "9: ?: must be text, as every key; put it in quotes"


def test_as_many_values_as_are_allowed_are_allowed() -> None:
    hundred = f"a: &a [{', '.join(['1'] * 99)}]\n"
    assert Document.parse(f"{hundred}b: [{', '.join(['*a'] * 498)}]", "s").value["b"] == [[1] * 99] * 498
    assert problems(f"{hundred}b: [{', '.join(['*a'] * 500)}]") == [
        "2: b: the aliases expand too far, to more than 50,000 values; use fewer"
    ]


def test_how_deep_a_study_may_be() -> None:
    Document.parse(f"a: {'[' * 49}{']' * 49}", "s")
    assert problems(f"a: {'[' * 60}{']' * 60}") == [
        "1: a.0.0.0.0.0.0.0.…: is nested more than 50 levels deep; write it flatter"
    ]
    chain = "a: &a [[[[[[[[[[1]]]]]]]]]]\n" + "".join(
        f"{name}: &{name} [[[[[[[[[[*{below}]]]]]]]]]]\n" for below, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert problems(chain) == ["5: e: is nested more than 50 levels deep; write it flatter"]


def test_an_anchor_is_looked_at_once() -> None:
    assert problems("a: &a {k: 1, k: 2}\nb: [*a, *a, *a]") == ["1: a.k: is given twice, first on line 1; keep one"]


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "", "[a]", "{a: 1}"])
def test_every_key_is_text_however_deep(key: str) -> None:
    shown = "?" if key[:1] in ("[", "{") else key
    place = f"1: t.0.{shown}" if shown else "1: t.0."
    assert problems(f"t: [{{? {key} : x}}]") == [f"{place}: must be text, as every key; put it in quotes"]
    if shown:
        assert Document.parse(f"t: [{{'{key}': x}}]", "s").value == {"t": [{key: "x"}]}


@pytest.mark.parametrize("number", [".inf", "-.INF", ".nan", ".NaN", "1e999", "-2.0e999"])
def test_every_number_is_finite(number: str) -> None:
    assert problems(f"t: [{number}]") == [
        f"1: t.0: must be a finite number (got {number}); put it in quotes if it is a text"
    ]
    assert Document.parse(f"t: '{number}'", "s").value == {"t": number}


@pytest.mark.parametrize(("written", "code"), [(r"\0", "U+0000"), (r"\uD800", "U+D800"), (r"\uDFFF", "U+DFFF")])
def test_no_text_holds_what_no_file_name_can_hold(written: str, code: str) -> None:
    assert problems(f't: "a{written}b"') == [f"1: t: holds the character {code}; remove it"]
    assert problems(f'"a{written}b": 1')[0].endswith(f": holds the character {code}; remove it")


def test_every_problem_is_found_at_once() -> None:
    assert problems("a: .nan\nb: {1: x}\nc: [{d: 1, d: 2}]") == [
        "1: a: must be a finite number (got .nan); put it in quotes if it is a text",
        "2: b.1: must be text, as every key; put it in quotes",
        "3: c.0.d: is given twice, first on line 3; keep one",
    ]


def test_what_is_sound_has_no_problems() -> None:
    root = yaml.compose("a: &x {k: 1.5, l: [true, null, text]}\nb: {<<: *x, k: 2}\nc: *x")
    assert survey(root) == []
