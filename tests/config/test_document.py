from pathlib import Path

import pytest
import yaml

from headtune.config.document import Document
from headtune.errors import SpecError


def value(text: str) -> object:
    return Document.parse(f"a: {text}", "s.yaml").value["a"]


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        Document.parse(text, "s.yaml")
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("-17", -17),
        ("1_000", 1000),
        ("1e-4", 1e-4),
        ("1E3", 1000.0),
        ("2.0e+6", 2e6),
        (".5", 0.5),
        ("1.", 1.0),
        ("-0.25", -0.25),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("010", "010"),
        ("0x10", "0x10"),
        ("e5", "e5"),
        ("1e", "1e"),
        ("'1e-4'", "1e-4"),
        ("2h", "2h"),
        ("9" * 5000, "9" * 5000),
        ("[1, 2.5, x]", [1, 2.5, "x"]),
        ("{b: 1}", {"b": 1}),
    ],
)
def test_plain_values_mean_what_they_look_like(text: str, expected: object) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_values_that_every_yaml_reader_agrees_on_are_the_same_as_safe_loads() -> None:
    text = "a: {b: [1, 2.5, true, null, text]}\nc: |\n  two\n  lines\nd: 'it''s'\ne: &x [1]\nf: *x\n"
    assert Document.parse(text, "s.yaml").value == yaml.safe_load(text)


def test_merge_keys_work_and_may_be_overridden() -> None:
    assert Document.parse("a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}", "s").value["b"] == {"k": 3, "l": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: is empty; `headtune init` writes a study to start from"),
        ("# only a comment\n", "s.yaml: is empty; `headtune init` writes a study to start from"),
        ("null", "s.yaml: is empty; `headtune init` writes a study to start from"),
        (
            "a:\n\tb: 1",
            "s.yaml:2: not valid YAML: found character '\\t' that cannot start any token; indent with spaces, not tabs",
        ),
        (
            "x: 1\na: b: c",
            "s.yaml:2: not valid YAML: mapping values are not allowed here; "
            "check the indentation, or quote a text that holds ': '",
        ),
        ("a: [1, 2", "s.yaml:1: not valid YAML: expected ',' or ']', but got '<stream end>'; close the list with ]"),
        ("a: {b: 1", "s.yaml:1: not valid YAML: expected ',' or '}', but got '<stream end>'; close the mapping with }"),
        ("a: 'x", "s.yaml:1: not valid YAML: found unexpected end of stream; close the quote"),
        (
            "a: *x",
            "s.yaml:1: not valid YAML: found undefined alias 'x'; "
            "define the anchor first, or quote the text that begins with *",
        ),
        (
            "a: @x",
            "s.yaml:1: not valid YAML: found character '@' that cannot start any token; "
            "quote the text that begins with this character",
        ),
        (
            "- 1\nb: 2",
            "s.yaml:2: not valid YAML: expected <block end>, but found '?'; check the indentation of this line",
        ),
        (
            "a: 1\n---\nb: 2",
            "s.yaml:2: not valid YAML: found another document; keep one document: remove the line `---`",
        ),
        ("? [a]\n: 2", "s.yaml:1: ?: must be text, as every key; put it in quotes"),
        ("a: 1\nb: \x07", "s.yaml:2: holds the character U+0007, which YAML does not allow; remove it"),
        ("a: 1\nb: !!str 2", "s.yaml:2: a tag such as !!str; write the plain value"),
        ("a: !!python/object/apply:os.system [ls]", "s.yaml:1: a tag such as !!str; write the plain value"),
        ("a: &x [1, *x]", "s.yaml:1: a.1: the anchor refers to itself; write the value out"),
        ("a: &x {k: {l: *x}}", "s.yaml:1: a.k.l: the anchor refers to itself; write the value out"),
        ("[" * 5000, "s.yaml: is nested too deeply to be a study"),
    ],
)
def test_what_is_no_study_is_refused_with_its_line_and_the_way_out(text: str, message: str) -> None:
    assert refusal(text) == message


def test_every_key_that_is_given_twice_is_named_with_both_lines() -> None:
    text = "a: 1\nb:\n  c: 1\n  d: [{e: 1, e: 2}]\n  c: 2\na: 3\n"
    assert refusal(text).split("\n") == [
        "s.yaml:4: b.d.0.e: is given twice, first on line 4; keep one",
        "s.yaml:5: b.c: is given twice, first on line 3; keep one",
        "s.yaml:6: a: is given twice, first on line 1; keep one",
    ]


def test_the_same_key_in_two_mappings_is_no_repetition() -> None:
    assert Document.parse("a: {x: 1}\nb: {x: 1}\nc: [{x: 1}, {x: 2}]", "s").value["c"] == [{"x": 1}, {"x": 2}]


def test_a_tag_never_constructs_anything(tmp_path: Path) -> None:
    target = tmp_path / "made"
    refusal(f"a: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{target}']]")
    assert not target.exists()


def test_lines() -> None:
    document = Document.parse("a: 1\nb:\n  c: 2\n  d:\n    - 3\n    - {e: 4}\n", "s")
    assert document.line(()) == 1
    assert document.line(("a",)) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", "c")) == 3
    assert document.line(("b", "d", 0)) == 5
    assert document.line(("b", "d", 1, "e")) == 6


@pytest.mark.parametrize("keys", [("b", "zzz"), ("b", "c", "zzz"), ("b", "d", 7), ("b", "zzz", "c")])
def test_the_line_of_what_is_missing_is_that_of_the_last_key_that_is_there(keys: tuple[str | int, ...]) -> None:
    document = Document.parse("a: 1\nb:\n  c: 2\n  d:\n    - 3\n", "s")
    assert document.line(keys) == {"c": 3, "d": 4}.get(str(keys[1]), 2)
