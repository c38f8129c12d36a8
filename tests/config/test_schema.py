from collections.abc import Callable

import pytest
from pydantic import ValidationError

from headtune.config.problems import explain
from headtune.config.schema import StudyFile
from headtune.config.space import SpaceSection

Problems = Callable[..., dict[str, str]]
Parse = Callable[..., StudyFile]

QUALITY = {"metric": "val_loss", "direction": "minimize"}
SPACE = {"hold": "width", "weights": "fresh"}


def test_every_required_key_is_asked_for_with_what_to_write() -> None:
    with pytest.raises(ValidationError) as caught:
        StudyFile.model_validate({})
    found = [problem for error in caught.value.errors() for problem in explain(error, StudyFile)]
    assert found == [
        (("version",), "is missing; write 1"),
        (("name",), "is missing; write what the study and its folder are called, such as digits-vit"),
        (
            ("task",),
            "is missing; write train.py:task or package.module:task, where `task` is a headtune.Task or a function "
            "that returns one",
        ),
        (("space",), "is missing; write what is searched; begin with `hold` and `weights`"),
        (
            ("objectives",),
            "is missing; write what is optimised, such as {metric: val_accuracy, direction: maximize}",
        ),
    ]


def test_sections_may_be_left_out_or_empty(parse: Parse) -> None:
    empty = dict.fromkeys(["task_args", "constraints", "latency", "search", "verify", "prune", "resources"])
    assert parse(**empty) == parse()


@pytest.mark.parametrize(
    ("keys", "where", "sentence"),
    [
        ({"version": 2}, "version", "must be 1 (got 2)"),
        ({"version": "1"}, "version", "must be 1 (got '1')"),
        ({"version": True}, "version", "must be 1 (got true)"),
        ({"version": 1.0}, "version", "must be 1 (got 1.0)"),
        ({"version": None}, "version", "must be 1 (got nothing)"),
        (
            {"name": "postgresql://u:" + "secret" * 9 + "@h/d"},
            "name",
            "must be letters, digits, '.', '_' and '-', at most 100: it names a folder (got 'postgresql://u:***@h/d')",
        ),
        (
            {"output": "~no_such_user/x"},
            "output",
            "there is no home folder for ~no_such_user; write the path out, or begin it with ./",
        ),
        (
            {"task": "~no_such_user/t.py:task"},
            "task",
            "there is no home folder for ~no_such_user; write the path out, or begin it with ./",
        ),
        (
            {"storage": "sqlite:///~no_such_user/x.db"},
            "storage",
            "there is no home folder for ~no_such_user; write the path out, or begin it with ./",
        ),
        ({"search": {"trials": True}}, "search.trials", "must be a whole number (got true)"),
        ({"search": {"trials": 4.0}}, "search.trials", "must be a whole number (got 4.0)"),
        ({"search": {"trials": "010"}}, "search.trials", "must be a whole number (got '010')"),
        (
            {"space": {"hold": "width", "weights": "frsh"}},
            "space.weights",
            "must be fresh or keep (got 'frsh'); did you mean fresh?",
        ),
        ({"space": {"hold": "width", "weights": None}}, "space.weights", "must be fresh or keep (got nothing)"),
        ({"seed": -1}, "seed", "must be at least 0 (got -1)"),
        ({"seed": 2**32}, "seed", "must be less than 4294967296 (got 4294967296)"),
        ({"name": 5}, "name", "must be text (got 5); put it in quotes"),
        (
            {"task": "train.py"},
            "task",
            "must name a file or a module and a name in it: train.py:task or package.module:task (got 'train.py')",
        ),
        (
            {"task": "sub/train.py:task"},
            "task",
            "there is no file /nowhere/sub/train.py; the path starts from the study file's folder",
        ),
        ({"task_args": [1]}, "task_args", "must be a mapping of `key: value` (got a list)"),
        ({"objectives": []}, "objectives", "must not be empty (got a list)"),
        ({"objectives": QUALITY}, "objectives", "must be a list (got a mapping)"),
        ({"objectives": [QUALITY, QUALITY]}, "objectives.1.metric", "val_loss is an objective already; keep one"),
        (
            {"objectives": [{"metric": "latency_ms", "direction": "minimize"}]},
            "objectives",
            "must name at least one metric that the task reports, beside what headtune measures",
        ),
        (
            {"latency": {"device": "cuda:1"}},
            "resources.gpus",
            "must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise",
        ),
        (
            {
                "search": {"sampler": "grid"},
                "space": {**SPACE, "params": {"lr": {"low": 0.1, "high": 0.2}, "o": ["a"]}},
            },
            "search.sampler",
            "grid cannot list the real numbers of lr; give choices",
        ),
        ({"output": ""}, "output", "must not be empty (got '')"),
        (
            {"storage": "study.db"},
            "storage",
            "must be a URL: sqlite:///study.db for a file, or postgresql://user@host/name",
        ),
        ({"storage": "sqlite:///:memory:"}, "storage", "must keep what it is given: write sqlite:///study.db"),
        ({"serach": {}}, "serach", "is not a known key; did you mean search?"),
    ],
)
def test_what_is_wrong_is_said_with_its_key_and_the_way_out(
    problems: Problems, keys: dict[str, object], where: str, sentence: str
) -> None:
    assert problems(**keys) == {where: sentence}


def test_problems_of_several_sections_are_found_together_even_where_they_span_sections(problems: Problems) -> None:
    assert problems(
        name="a b",
        latency={"device": "cuda"},
        constraints={"latency_ms": {"max": -1}, "parameters": {}, "head_dim": {}},
        search={"sampler": "grid"},
        space={**SPACE, "params": {"lr": {"low": 0.1, "high": 0.2}}},
    ).keys() == {
        "name",
        "constraints.head_dim",
        "constraints.latency_ms",
        "constraints.parameters",
        "search.sampler",
        "resources.gpus",
    }


def test_a_bad_storage_is_never_repeated_since_it_may_hold_a_password(problems: Problems) -> None:
    assert "hunter2" not in str(problems(storage="user:hunter2@host"))


def test_a_gpu_under_the_inline_executor_is_the_processs_own(parse: Parse) -> None:
    parse(latency={"device": "cuda"}, resources={"executor": "inline"})
    parse(latency={"device": "cuda"}, resources={"gpus": 0.25})
    parse(latency={"device": "cuda"}, resources={"gpus": 2})


def test_grid_can_list_whole_numbers_and_choices(parse: Parse) -> None:
    params = {"layers": {"low": 1, "high": 4, "type": "int"}, "o": ["a", "b"]}
    parse(search={"sampler": "grid"}, space={**SPACE, "params": params})


def test_every_required_key_is_described() -> None:
    for section in (StudyFile, SpaceSection):
        for name, field in section.model_fields.items():
            assert not field.is_required() or field.description, name
