from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from headtune.config.problems import explain
from headtune.config.schema import LatencySection, ResourcesSection, SearchSection, StudyFile, VerifySection
from headtune.config.section import Section
from headtune.config.space import SpaceSection
from headtune.heads import HeadDimConstraint, Limit
from headtune.pareto import Objective
from headtune.study.spec import ExecutorName, Resources, SamplerName, SearchOptions, VerifyOptions
from headtune.timing import LatencyProtocol

QUALITY = {"metric": "val_loss", "direction": "minimize"}
NEEDED: dict[str, Any] = {
    "version": 1,
    "name": "x",
    "task": "package.module:task",
    "space": {"hold": "width", "weights": "fresh"},
    "objectives": [QUALITY],
}


def parse(**keys: object) -> StudyFile:
    return StudyFile.model_validate({**NEEDED, **keys}, context=Path("/nowhere"))


def problems(**keys: object) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        parse(**keys)
    found = [problem for error in caught.value.errors() for problem in explain(error, StudyFile)]
    return {".".join(map(str, where)): sentence for where, sentence in found}


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


def test_sections_may_be_left_out_or_empty() -> None:
    empty = dict.fromkeys(["task_args", "constraints", "latency", "search", "verify", "resources"])
    assert parse(**empty) == parse()


@pytest.mark.parametrize(
    ("keys", "where", "sentence"),
    [
        ({"version": 2}, "version", "must be 1 (got 2)"),
        ({"version": "1"}, "version", "must be 1 (got '1')"),
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
        (
            {"objectives": [{"metric": "val_loss", "direction": "minimise"}]},
            "objectives.0.direction",
            "must be maximize or minimize (got 'minimise'); did you mean minimize?",
        ),
        (
            {"objectives": [QUALITY, {"metric": "latency_ms", "direction": "maximize"}]},
            "objectives.1.direction",
            "must be minimize: of latency_ms, less is better",
        ),
        (
            {"objectives": [QUALITY, {"metric": "latency_ms@128", "direction": "minimize"}]},
            "objectives.1.metric",
            "latency_ms@128: several sequence lengths are not available yet; write latency_ms",
        ),
        (
            {"objectives": [{"metric": "val acc", "direction": "maximize"}]},
            "objectives.0.metric",
            "must be a name as in Python code, as run.report(name=...) takes it (got 'val acc')",
        ),
        ({"objectives": [QUALITY, QUALITY]}, "objectives.1.metric", "val_loss is an objective already; keep one"),
        (
            {"objectives": [{"metric": "latency_ms", "direction": "minimize"}]},
            "objectives",
            "must name at least one metric that the task reports, beside what headtune measures",
        ),
        (
            {"constraints": {"latency_ms": {}}},
            "constraints.latency_ms",
            "give either max or max_ratio",
        ),
        (
            {"constraints": {"latency_ms": {"max": 0}}},
            "constraints.latency_ms",
            "max is 0; it must be a positive number",
        ),
        (
            {"constraints": {"parameters": {"max_ratio": 0.5}}},
            "constraints.parameters",
            "max_ratio needs what it is a ratio of; add of: present or of: rule",
        ),
        (
            {"constraints": {"latency": {"max": 3}}},
            "constraints.latency",
            "is not a known key; did you mean latency_ms?",
        ),
        (
            {"constraints": {"head_dim": {}}},
            "constraints.head_dim",
            "nothing is constrained; give min, max or multiple_of",
        ),
        (
            {"constraints": {"head_dim": {"min": 8, "max": 4}}},
            "constraints.head_dim",
            "min 8 is more than max 4; swap them",
        ),
        ({"latency": {"device": "gpu"}}, "latency.device", "must be auto, cpu, cuda or cuda:<number> (got 'gpu')"),
        ({"latency": {"threads": 0}}, "latency.threads", "must be auto or a whole number of at least 1 (got 0)"),
        (
            {"latency": {"dtype": "float64"}},
            "latency.dtype",
            "must be float32, float16 or bfloat16 (got 'float64'); did you mean float16?",
        ),
        ({"latency": {"batch_size": 0}}, "latency.batch_size", "must be at least 1 (got 0)"),
        (
            {"latency": {"seq_len": [128, 512]}},
            "latency.seq_len",
            "several sequence lengths are not available yet; write one number",
        ),
        (
            {"latency": {"mode": "decode"}},
            "latency.mode",
            "decode is not available yet: only forward is timed so far; write forward",
        ),
        ({"latency": {"mode": "backward"}}, "latency.mode", "must be forward (got 'backward')"),
        ({"search": {"trials": 0}}, "search.trials", "must be at least 1 (got 0)"),
        (
            {"search": {"sampler": "grdi"}},
            "search.sampler",
            "must be auto, tpe, gp, nsga2, random or grid (got 'grdi'); did you mean grid?",
        ),
        ({"search": {"stop_early": "yes"}}, "search.stop_early", "must be true or false (got 'yes')"),
        ({"verify": {"seeds": -1}}, "verify.seeds", "must be at least 0 (got -1)"),
        ({"verify": {"top": 0}}, "verify.top", "must be at least 1 (got 0)"),
        (
            {"resources": {"gpus": 1.5}},
            "resources.gpus",
            "must be 0, a share of one GPU such as 0.5, or a whole number of GPUs (got 1.5)",
        ),
        (
            {"resources": {"executor": "inline", "concurrent": 2}},
            "resources.concurrent",
            "must be 1 or auto under `executor: inline` (got 2)",
        ),
        (
            {"resources": {"executor": "inline", "cluster": "auto"}},
            "resources.cluster",
            "must be local under `executor: inline`",
        ),
        (
            {"latency": {"device": "cuda:1"}},
            "resources.gpus",
            "must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise",
        ),
        (
            {
                "search": {"sampler": "grid"},
                "space": {**NEEDED["space"], "params": {"lr": {"low": 0.1, "high": 0.2}, "o": ["a"]}},
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
def test_what_is_wrong_is_said_with_its_key_and_the_way_out(keys: dict[str, Any], where: str, sentence: str) -> None:
    assert problems(**keys) == {where: sentence}


def test_problems_of_several_sections_are_found_together_even_where_they_span_sections() -> None:
    assert problems(
        name="a b",
        latency={"device": "cuda"},
        constraints={"latency_ms": {"max": -1}, "parameters": {}, "head_dim": {}},
        search={"sampler": "grid"},
        space={**NEEDED["space"], "params": {"lr": {"low": 0.1, "high": 0.2}}},
    ).keys() == {
        "name",
        "constraints.head_dim",
        "constraints.latency_ms",
        "constraints.parameters",
        "search.sampler",
        "resources.gpus",
    }


def test_a_bad_storage_is_never_repeated_since_it_may_hold_a_password() -> None:
    assert "hunter2" not in str(problems(storage="user:hunter2@host"))


def test_a_gpu_under_the_inline_executor_is_the_processs_own() -> None:
    parse(latency={"device": "cuda"}, resources={"executor": "inline"})
    parse(latency={"device": "cuda"}, resources={"gpus": 0.25})
    parse(latency={"device": "cuda"}, resources={"gpus": 2})


def test_grid_can_list_whole_numbers_and_choices() -> None:
    params = {"layers": {"low": 1, "high": 4, "type": "int"}, "o": ["a", "b"]}
    parse(search={"sampler": "grid"}, space={**NEEDED["space"], "params": params})


def test_objectives_and_limits_as_values() -> None:
    file = parse(
        objectives=[QUALITY, {"metric": "latency_ms", "direction": "minimize"}],
        constraints={
            "head_dim": {"min": 4, "max": 64, "multiple_of": 4},
            "latency_ms": {"max_ratio": 1.5, "of": "rule"},
            "peak_memory_mb": {"max": 8000},
        },
    )
    assert [objective.build() for objective in file.objectives] == [
        Objective(metric="val_loss", direction="minimize"),
        Objective(metric="latency_ms", direction="minimize"),
    ]
    assert file.constraints.build() == (
        Limit(metric="latency_ms", max_ratio=1.5, of="rule"),
        Limit(metric="peak_memory_mb", max=8000),
    )
    assert file.constraints.head_dim is not None
    assert file.constraints.head_dim.build() == HeadDimConstraint(min=4, max=64, multiple_of=4)


def test_the_words_of_the_file_are_those_of_the_study() -> None:
    def words(section: type[Section], key: str) -> tuple[str, ...]:
        return get_args(section.model_fields[key].annotation)

    assert words(SearchSection, "sampler") == get_args(SamplerName)
    assert words(ResourcesSection, "executor") == get_args(ExecutorName)
    assert words(LatencySection, "dtype") == get_args(LatencyProtocol.__annotations__["dtype"])
    assert words(LatencySection, "mode") == get_args(LatencyProtocol.__annotations__["mode"])


def test_the_defaults_of_the_file_are_those_of_the_study() -> None:
    search, verify, latency, resources = SearchSection(), VerifySection(), LatencySection(), ResourcesSection()
    assert SearchOptions() == SearchOptions(
        trials=search.trials,
        timeout_s=search.timeout,
        sampler=search.sampler,
        epochs=search.epochs,
        stop_early=search.stop_early,
    )
    assert VerifyOptions() == VerifyOptions(top=verify.top, seeds=verify.seeds)
    assert (latency.threads, resources.concurrent) == ("auto", "auto")
    assert LatencyProtocol() == LatencyProtocol(
        device=latency.device,
        dtype=latency.dtype,
        batch_size=latency.batch_size,
        seq_len=latency.seq_len,
        mode=latency.mode,
    )
    assert Resources() == Resources(cpus=resources.cpus, gpus=resources.gpus, cluster=resources.cluster)


def test_every_required_key_is_described() -> None:
    for section in (StudyFile, SpaceSection):
        for name, field in section.model_fields.items():
            assert not field.is_required() or field.description, name
