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
        "search.trials=4", "search.epochs=2", "new.deep.key=1", "empty.a=1", "objectives.1.metric=c", "search.trials=5"
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
