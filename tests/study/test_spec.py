"""A study's description: everything that is wrong in it is told at once, in the words of Python."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from headtune.errors import SpecError
from headtune.heads import Limit
from headtune.pareto import Objective
from headtune.search import SamplerName
from headtune.study import ExecutorName, Resources, SearchOptions, StudySpec, VerifyOptions
from headtune.timing import LatencyProtocol
from headtune.trial import ChoiceParam, FloatParam, IntParam

MakeSpec = Callable[..., StudySpec]
QUALITY = Objective(metric="quality", direction="maximize")
LATENCY = Objective(metric="latency_ms", direction="minimize")


def refusals(make: Callable[..., object], **values: Any) -> tuple[str, ...]:
    with pytest.raises(SpecError) as caught:
        make(**values)
    assert caught.value.exit_code == 2
    return caught.value.problems


@pytest.mark.parametrize(
    ("kind", "values", "problems"),
    [
        (
            SearchOptions,
            {"trials": 0, "timeout_s": 0, "sampler": "bayes", "epochs": True, "stop_early": "no"},
            (
                "trials: must be at least 1 (got 0)",
                "timeout_s: must be a number above 0 (got 0)",
                "sampler: must be auto, ehvi, tpe, gp, nsga2, random or grid (got 'bayes')",
                "epochs: must be a whole number (got True)",
                "stop_early: must be True or False (got 'no')",
            ),
        ),
        (SearchOptions, {"trials": 1.5}, ("trials: must be a whole number (got 1.5)",)),
        (SearchOptions, {"epochs": -1}, ("epochs: must be at least 1 (got -1)",)),
        (SearchOptions, {"epochs": 2**31}, ("epochs: must be at most 2147483647 (got 2147483648)",)),
        (
            VerifyOptions,
            {"top": 0, "seeds": -1},
            ("VerifyOptions.top: must be at least 1 (got 0)", "VerifyOptions.seeds: must be at least 0 (got -1)"),
        ),
        (
            Resources,
            {"cpus": 0, "gpus": 1.5, "concurrent": 0, "cluster": "", "node": "", "accelerator": 3},
            (
                "Resources.cpus: must be at least 1 (got 0)",
                "Resources.gpus: must be 0, a share of one GPU such as 0.5, or a whole number of GPUs (got 1.5)",
                "Resources.concurrent: must be at least 1 (got 0)",
                "Resources.cluster: must not be empty (got '')",
                "Resources.node: must not be empty (got '')",
                "Resources.accelerator: must be text (got 3)",
            ),
        ),
    ],
)
def test_options_refuse_what_has_no_meaning(
    kind: Callable[..., object], values: dict[str, Any], problems: tuple[str, ...]
) -> None:
    assert refusals(kind, **values) == problems


def test_the_ends_of_what_is_allowed_are_allowed() -> None:
    for sampler in get_args(SamplerName):
        SearchOptions(trials=1, epochs=1, timeout_s=1e-9, sampler=sampler)
    VerifyOptions(top=1, seeds=0)
    Resources(cpus=1, gpus=0.25, concurrent=1)


def test_values_of_the_wrong_kind_are_told_at_once(make_spec: MakeSpec) -> None:
    wrong = dict.fromkeys(("space", "latency", "search", "verify", "resources", "output", "params"), 3)
    assert refusals(
        make_spec,
        **wrong,
        name="a/b",
        weights="kept",
        objectives=(),
        limits=[],
        executor="dask",
        seed=-1,
        storage="x.db",
    ) == (
        "name: must be letters, digits, '.', '_' and '-', at most 100: it names a folder (got 'a/b')",
        "space: must be SpaceOptions, such as SpaceOptions(hold='width') (got 3)",
        "weights: must be fresh or keep (got 'kept')",
        "objectives: must be a list of Objective(metric=..., direction=...), 1 at least (got ())",
        "constraints: must be a list of Limit(metric=..., max=...) or HeadDimConstraint(...) (got [])",
        "params: must be a mapping of name to FloatParam, IntParam or ChoiceParam (got 3)",
        "latency: must be a LatencyProtocol (got 3)",
        "search: must be SearchOptions (got 3)",
        "verify: must be VerifyOptions (got 3)",
        "resources: must be Resources (got 3)",
        "executor: must be ray or inline (got 'dask')",
        "output: must be a path (got 3)",
        "seed: must be at least 0 (got -1)",
        "storage: must be a URL: sqlite:///study.db for a file, or postgresql://user@host/name",
    )


def test_names_that_no_file_can_have_are_told(make_spec: MakeSpec) -> None:
    with pytest.raises(SpecError) as caught:
        replace(make_spec(), output=Path("a\0"), storage="sqlite:///a\0.db")
    assert caught.value.problems == (
        "output: must be a path (got PosixPath('a\\x00'))",
        "storage: must hold no character that no file name can have",
    )


def test_a_password_is_not_shown(make_spec: MakeSpec) -> None:
    assert not any("secret" in problem for problem in refusals(make_spec, storage="me:secret@host", seed=-1))


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        (
            {"objectives": (LATENCY,)},
            ("objectives: must name at least one metric that the task reports, beside what headtune measures",),
        ),
        ({"objectives": (QUALITY, QUALITY)}, ("objectives.1.metric: quality is an objective already; keep one",)),
        (
            {
                "objectives": (QUALITY, replace(LATENCY, metric="latency_ms@8")),
                "limits": (Limit(metric="latency_ms@9", max=1),),
                "latency": LatencyProtocol(seq_len=(9, 16)),
            },
            ("latency.seq_len: must list 8, the length that latency_ms@8 names (got 9, 16)",),
        ),
        (
            {"objectives": (replace(QUALITY, metric="a b"), replace(LATENCY, metric="latency_ms@08"))},
            (
                "objectives.0.metric: must be a name as in Python code, as run.report(name=...) takes it (got 'a b')",
                "objectives.1.metric: must name a sequence length as in latency_ms@128 (got 'latency_ms@08')",
            ),
        ),
        (
            {"limits": tuple(Limit(metric=metric, max=1) for metric in ("quality", "latency_ms", "latency_ms"))},
            (
                "constraints.0.metric: must be latency_ms, parameters or peak_memory_mb (got 'quality')",
                "constraints: latency_ms is limited twice; keep one",
            ),
        ),
        (
            {"params": {"a b": IntParam(low=1, high=2), "lr": 0.1, 3: ChoiceParam(choices=(1,))}},
            (
                "params: 'a b': must be a name as in Python code: letters, digits and '_' (got 'a b')",
                "params: 3: must be a name as in Python code: letters, digits and '_' (got 3)",
                "params: lr: must be a FloatParam, an IntParam or a ChoiceParam (got 0.1)",
            ),
        ),
        (
            {"sampler": "grid", "params": {"lr": FloatParam(low=0, high=1)}},
            ("sampler: grid cannot list the real numbers of lr; give choices",),
        ),
        (
            {"executor": "ray", "latency": LatencyProtocol(device="cuda")},
            ("resources.gpus: must be more than 0 for `latency.device: cuda`: trials see no GPU otherwise",),
        ),
        (
            {"resources": Resources(concurrent=2, cluster="auto", accelerator="A100")},
            (
                "resources.accelerator: must be left out under `executor: inline`, which runs here (got 'A100')",
                "resources.concurrent: must be 1 or auto under `executor: inline` (got 2)",
                "resources.cluster: must be local under `executor: inline`",
            ),
        ),
    ],
)
def test_contradictions_are_told(make_spec: MakeSpec, changes: dict[str, Any], problems: tuple[str, ...]) -> None:
    assert refusals(make_spec, **changes) == problems


def test_it_is_a_value_that_crosses_processes(make_spec: MakeSpec) -> None:
    spec = make_spec(
        params={"lr": FloatParam(low=0.1, high=1.0, log=True)}, limits=(Limit(metric="parameters", max=9),)
    )
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert [
        executor for executor in get_args(ExecutorName) if replace(spec, executor=executor).executor != executor
    ] == []
