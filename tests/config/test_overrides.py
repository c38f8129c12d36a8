import copy

import pytest

from headtune.config.overrides import Override, overridden, parse_all
from headtune.errors import SpecError

CONTENT = {"search": {"trials": 40}, "objectives": [{"metric": "a"}, {"metric": "b"}], "empty": None, "name": "x"}


def apply(*texts: str) -> object:
    content, problems = overridden(CONTENT, [Override.parse(text) for text in texts])
    assert problems == []
    return content


@pytest.mark.parametrize(
    ("text", "keys", "value"),
    [
        ("search.trials=4", ("search", "trials"), 4),
        ("lr=1e-4", ("lr",), 1e-4),
        ("a=", ("a",), None),
        ("a=b=c", ("a",), "b=c"),
        ("space.heads=[1, 2]", ("space", "heads"), [1, 2]),
        ("space.heads={min: 2}", ("space", "heads"), {"min": 2}),
        ('space.sites."encoder.*".heads=[4]', ("space", "sites", "encoder.*", "heads"), [4]),
        ('space.sites."role=cross".heads=auto', ("space", "sites", "role=cross", "heads"), "auto"),
        ("storage=postgresql://u:p@h/d?x=1", ("storage",), "postgresql://u:p@h/d?x=1"),
        ("objectives.0.metric=acc", ("objectives", "0", "metric"), "acc"),
    ],
)
def test_a_setting_is_a_path_and_a_yaml_value(text: str, keys: tuple[str, ...], value: object) -> None:
    override = Override.parse(text)
    assert (override.keys, override.value) == (keys, value)
    assert override.place == ("--set storage=…" if keys == ("storage",) else f"--set {text}")


@pytest.mark.parametrize(
    "text", ["", "=", "=4", "search.trials", ".a=1", "a.=1", "a..b=1", '""=1', 'a"b=1', "trials 4"]
)
def test_what_is_no_setting(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Override.parse(text)
    assert caught.value.problems == (f"--set {text}: is no key=value; write it as in --set search.trials=4",)


def test_a_value_that_is_no_yaml() -> None:
    with pytest.raises(SpecError) as caught:
        Override.parse("space.heads=[1, 2")
    assert str(caught.value) == (
        "--set space.heads=[1, 2: not valid YAML: expected ',' or ']', but got '<stream end>'; close the list with ]"
    )


def test_settings_replace_add_and_follow_one_another_and_leave_the_original_alone() -> None:
    before = copy.deepcopy(CONTENT)
    found = apply(
        "search={trials: 4}",
        "search.epochs=2",
        "new.deep.key=1",
        "empty.a=1",
        "objectives.1.metric=c",
        "search.trials=5",
    )
    assert found == {
        "search": {"trials": 5, "epochs": 2},
        "objectives": [{"metric": "a"}, {"metric": "c"}],
        "empty": {"a": 1},
        "name": "x",
        "new": {"deep": {"key": 1}},
    }
    assert before == CONTENT


def test_a_whole_section_and_an_item_can_be_replaced() -> None:
    found = apply("search={trials: 1}", "objectives.0={metric: z}")
    assert isinstance(found, dict)
    assert (found["search"], found["objectives"][0]) == ({"trials": 1}, {"metric": "z"})


def test_all_settings_that_do_not_fit_are_named() -> None:
    texts = ["name.first=x", "search.trials=4", "objectives.2.metric=c", "objectives.metric=c", "name.a.b=1"]
    content, problems = overridden(CONTENT, parse_all(texts)[0])
    assert content == {**CONTENT, "search": {"trials": 4}}
    assert problems == [
        "--set name.first=x: name is no mapping, so it has no key first",
        "--set objectives.2.metric=c: objectives has 2 items; name one by its number, from 0",
        "--set objectives.metric=c: objectives has 2 items; name one by its number, from 0",
        "--set name.a.b=1: name is no mapping, so it has no key a",
    ]


def test_texts_that_are_no_settings_are_all_named_beside_those_that_are() -> None:
    overrides, problems = parse_all(["trials", "search.trials=4", "x=["])
    assert [override.keys for override in overrides] == [("search", "trials")]
    assert [problem.partition(": ")[0] for problem in problems] == ["--set trials", "--set x=["]


def test_an_override_answers_for_its_key_what_is_below_and_the_mappings_it_made() -> None:
    override = Override.parse("search.trials=4")
    assert [override.covers(keys) for keys in [("search", "trials"), ("search", "trials", "x", 0), ("search",)]] == [
        True
    ] * 3
    assert [override.covers(keys) for keys in [("search", "epochs"), ("name",), ()]] == [False] * 3
    assert Override.parse("objectives.0.metric=a").covers(("objectives", 0, "metric"))


@pytest.mark.parametrize(
    "value",
    ["1\nfoo: 2", "1\nfoo: 2\nbar: 3", "runs #1", "#1", "[1] # all", "|\n  a\nb: 1", "1\n...", "x\n#y\n"],
)
def test_nothing_behind_a_value_is_ignored(value: str) -> None:
    assert parse_all([f"a.b={value}"])[1] == [
        f"--set a.b={value}: holds more than one value; put the value in quotes, and give each key its own --set"
    ]


@pytest.mark.parametrize("value", ["  3  ", "'a # b'", "a#b", "\n  - 1\n  - 2\n", "|\n  one\n  two\n", "one\n  two"])
def test_all_of_a_value_counts(value: str) -> None:
    assert Override.parse(f"a={value}").value in (3, "a # b", "a#b", [1, 2], "one\ntwo\n", "one two")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a={x: 1, x: 2}", "x: is given twice, first on line 1; keep one"),
        ("a={x: {1: 2}}", "x.1: must be text, as every key; put it in quotes"),
        ("a=.nan", "must be a finite number (got .nan); put it in quotes if it is a text"),
        ('a="\\0"', "holds the character U+0000; remove it"),
        ("a=1\n---\nb: 2", "not valid YAML: found another document; keep one document: remove the line `---`"),
        (
            "a=b: 2",
            "not valid YAML: mapping values are not allowed here; "
            "check the indentation, or quote a text that holds ': '",
        ),
    ],
)
def test_what_is_wrong_within_a_value(text: str, problem: str) -> None:
    assert parse_all([text])[1] == [f"--set {text}: {problem}"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.b=1", "a.b=2"), ("a.b=1", "a.b=1"), ("a.b=1", "a={c: 2}"), ("a.b.c=1", "a.b=3"), ("a.0.b=1", "a.0=2")],
)
def test_a_setting_that_would_undo_an_earlier_one_is_refused(first: str, second: str) -> None:
    _, problems = parse_all([first, "other=1", second])
    assert problems == [f"--set {second}: would undo --set {first}; keep one"]


@pytest.mark.parametrize("index", ["-1", "2", "01", "٣", "9" * 5000, "x"])
def test_an_item_that_is_not_there(index: str) -> None:
    _, problems = overridden(CONTENT, parse_all([f"objectives.{index}=1"])[0])
    assert problems == [f"--set objectives.{index}=1: objectives has 2 items; name one by its number, from 0"] or (
        len(index) > 100 and "objectives has 2 items" in problems[0]
    )


def test_one_item() -> None:
    _, problems = overridden({"a": [1]}, parse_all(["a.1=2"])[0])
    assert problems == ["--set a.1=2: a has 1 item; name one by its number, from 0"]


def test_what_an_alias_repeats_is_set_in_one_place_alone() -> None:
    shared = {"heads": [1]}
    content, _ = overridden({"a": shared, "b": [shared]}, parse_all(["a.heads=[2]"])[0])
    assert content == {"a": {"heads": [2]}, "b": [{"heads": [1]}]}
    assert shared == {"heads": [1]}


@pytest.mark.parametrize(
    "text",
    [
        "storage=postgresql://u:secret@h/db\nx: 1",
        "storge=postgresql://u:secret@h/db\nx: 1",
        "storage=[secret",
        "storage.url=[secret",
        "storage postgresql://u:secret@h/db",
        "search.storge=[postgresql://u@h/db?password=secret&x",
        "storge=postgresql://u:secret word@h/db\nx: 1",
        "storge=postgresql://u:p #secret@h/db",
    ],
)
def test_no_password_is_repeated(text: str) -> None:
    problems = parse_all([text])[1]
    assert len(problems) == 1
    assert "secret" not in SpecError(*problems).problems[0]
