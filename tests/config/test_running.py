from collections.abc import Callable
from typing import get_args

import pytest

from headtune.config.running import LatencySection, PruneSection, ResourcesSection, SearchSection, VerifySection
from headtune.config.section import Section
from headtune.rules import PRUNE_GOALS
from headtune.study.spec import ExecutorName, Resources, SamplerName, SearchOptions, VerifyOptions
from headtune.timing import LatencyProtocol
from headtune.trial.prune_options import Match, Order, Shrinking

Problems = Callable[..., dict[str, str]]


@pytest.mark.parametrize(
    ("keys", "where", "sentence"),
    [
        (
            {"latency": {"device": "gpu"}},
            "latency.device",
            "must be auto, cpu, cuda, cuda:<number>, mps, xpu or xpu:<number> (got 'gpu')",
        ),
        ({"latency": {"threads": 0}}, "latency.threads", "must be auto or a whole number of at least 1 (got 0)"),
        ({"latency": {"threads": 100000}}, "latency.threads", "must be at most 1024 (got 100000)"),
        (
            {"latency": {"dtype": "float64"}},
            "latency.dtype",
            "must be float32, float16 or bfloat16 (got 'float64'); did you mean float16?",
        ),
        ({"latency": {"batch_size": 0}}, "latency.batch_size", "must be at least 1 (got 0)"),
        ({"latency": {"seq_len": 0}}, "latency.seq_len", "must be at least 1 (got 0)"),
        ({"latency": {"seq_len": [128, 0]}}, "latency.seq_len.1", "must be at least 1 (got 0)"),
        (
            {"latency": {"seq_len": []}},
            "latency.seq_len",
            "must be a length of at least 1, or several (got a list)",
        ),
        (
            {"latency": {"seq_len": [128, 128]}},
            "latency.seq_len",
            "must be in ascending order, each length once (got a list)",
        ),
        ({"latency": {"mode": "backward"}}, "latency.mode", "must be forward, train_step or decode (got 'backward')"),
        (
            {"latency": {"device": "cpu", "cuda_graphs": True}},
            "latency.cuda_graphs",
            "must be false on cpu: only CUDA replays graphs",
        ),
        (
            {"latency": {"mode": "decode", "cuda_graphs": True}},
            "latency.cuda_graphs",
            "must be false under `mode: decode`: only a forward pass is captured",
        ),
        (
            {"latency": {"dtype": "bfloat16", "autocast": "bfloat16"}},
            "latency.autocast",
            "must be none beside `dtype: bfloat16`: autocast starts from float32",
        ),
        ({"latency": {"autocast": 3}}, "latency.autocast", "must be float16 or bfloat16 (got 3)"),
        ({"latency": {"precision": 0}}, "latency.precision", "must be a number above 0 (got 0)"),
        ({"search": {"trials": 0}}, "search.trials", "must be at least 1 (got 0)"),
        (
            {"search": {"sampler": "grdi"}},
            "search.sampler",
            "must be auto, ehvi, tpe, gp, nsga2, random or grid (got 'grdi'); did you mean grid?",
        ),
        ({"search": {"stop_early": "yes"}}, "search.stop_early", "must be true or false (got 'yes')"),
        ({"verify": {"seeds": -1}}, "verify.seeds", "must be at least 0 (got -1)"),
        ({"verify": {"top": 0}}, "verify.top", "must be at least 1 (got 0)"),
        ({"verify": {"seeds": 4, "max_seeds": 3}}, "verify.max_seeds", "must be at least seeds, 4 (got 3)"),
        (
            {"verify": {"seeds": 0, "max_seeds": 3}},
            "verify.max_seeds",
            "must be left out under `seeds: 0`, which retrains nothing (got 3)",
        ),
        ({"prune": {"heads": 0}}, "prune.heads", "must be at least 1 (got 0)"),
        ({"prune": {"latency_ratio": 1}}, "prune.latency_ratio", "must be a number above 0 and below 1 (got 1)"),
        ({"prune": {"quality_loss": -0.1}}, "prune.quality_loss", "must be a number of at least 0 (got -0.1)"),
        (
            {"prune": {"heads": 4, "quality_loss": 1}},
            "prune.quality_loss",
            "is one goal too many beside heads; keep one",
        ),
        ({"prune": {"share": 0}}, "prune.share", "must be a number above 0 and at most 1 (got 0)"),
        ({"prune": {"alpha": 1.5}}, "prune.alpha", "must be a number from 0 to 1 (got 1.5)"),
        ({"verify": {"max_seeds": 0}}, "verify.max_seeds", "must be auto or a whole number of at least 1 (got 0)"),
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
            {"resources": {"executor": "inline", "node": "far"}},
            "resources.node",
            "must be left out under `executor: inline`, which runs here (got 'far')",
        ),
        ({"resources": {"accelerator": ""}}, "resources.accelerator", "must not be empty (got '')"),
    ],
)
def test_what_is_wrong_is_said_with_its_key_and_the_way_out(
    problems: Problems, keys: dict[str, object], where: str, sentence: str
) -> None:
    assert problems(**keys) == {where: sentence}


def test_the_words_of_the_file_are_those_of_the_study() -> None:
    def words(section: type[Section], key: str) -> tuple[str, ...]:
        return get_args(section.model_fields[key].annotation)

    assert words(SearchSection, "sampler") == get_args(SamplerName)
    assert words(ResourcesSection, "executor") == get_args(ExecutorName)
    assert words(LatencySection, "dtype") == get_args(LatencyProtocol.__annotations__["dtype"])
    assert words(PruneSection, "order") == get_args(Order)
    assert words(PruneSection, "match") == get_args(Match)
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
    prune = PruneSection()
    assert prune.goals == {}
    assert Shrinking() == Shrinking(**prune.model_dump(exclude=set(PRUNE_GOALS)))
    assert (latency.threads, resources.concurrent, verify.max_seeds) == ("auto", "auto", "auto")
    assert LatencyProtocol() == LatencyProtocol(**{**latency.model_dump(), "threads": None})
    assert Resources() == Resources(
        cpus=resources.cpus, gpus=resources.gpus, cluster=resources.cluster, node=resources.node
    )
