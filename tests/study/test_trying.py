"""Which plans are tried before anything is paid, and what is said of those that a model does not take."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads import AttentionSite, HeadPlan, SearchSpace, SpaceOptions
from headtune.study import StudySpec
from headtune.study.checking import check
from headtune.study.trying import try_plans
from headtune.timing import LatencyProtocol
from headtune.trial import Task, TaskObject

SITES = tuple(
    AttentionSite(path=f"layer.{n}", role="self", embed_dim=16, num_heads=4, num_kv_heads=4, head_dim=4)
    for n in range(3)
)
OPTIONS = SpaceOptions(hold="width")


def tried(options: SpaceOptions, refused: Callable[[HeadPlan], bool]) -> tuple[list[str], list[str]]:
    """The plans that were built, by their labels, and what was said of those that were refused."""
    built: list[str] = []

    def build(plan: HeadPlan) -> None:
        built.append(plan.label)
        if refused(plan):
            raise SurgeryError(f"{plan.label} is refused")

    try:
        try_plans(SearchSpace.of(SITES, options), build)
    except SurgeryError as error:
        return built, list(error.problems)
    return built, []


def test_both_ends_and_unlike_counts_are_tried() -> None:
    assert tried(OPTIONS, lambda plan: False) == (["1-1-1", "16-16-16", "2-1-1"], [])


def test_where_all_counts_are_equal_there_are_no_unlike_ones() -> None:
    assert tried(SpaceOptions(hold="width", tie="uniform"), lambda plan: False)[0] == ["1-1-1", "16-16-16"]


def test_every_end_that_is_refused_is_named_with_what_leaves_it_out() -> None:
    built, said = tried(OPTIONS, lambda plan: True)
    assert built == ["1-1-1", "16-16-16"]
    assert [one.split(";")[0] for one in said] == ["1-1-1 is refused", "16-16-16 is refused"]
    remedy = "; or leave such counts out of the space, by space.heads or by constraints.head_dim"
    assert all(one.endswith(remedy) for one in said)


def test_unlike_counts_that_are_refused_are_told_how_to_be_equal() -> None:
    _, said = tried(OPTIONS, lambda plan: plan.label == "2-1-1")
    assert said == [
        "2-1-1 is refused; or let the counts change together, by `tie: uniform` in space, "
        "since plans with equal counts are taken"
    ]


def test_a_decoder_whose_layers_share_their_rotary_angles(make_spec: Callable[..., StudySpec]) -> None:
    transformers: Any = pytest.importorskip("transformers", reason="pip install 'headtune[hf]'")

    def model() -> nn.Module:
        built: nn.Module = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4
            )
        )
        return built

    task = Task(
        model=model,
        inputs=lambda batch_size, seq_len: (torch.zeros(batch_size, seq_len or 4, dtype=torch.long),),
        train=lambda model, run: None,
    )
    source, latency = TaskObject(task), LatencyProtocol(device="cpu", threads=1)
    with pytest.raises(SurgeryError, match=r"with 2x8.*`tie: uniform`"):
        check(make_spec(task=source, latency=latency, space=SpaceOptions(hold="width", heads=(1, 2, 4, 8))))
    tied = SpaceOptions(hold="width", heads=(1, 2, 4, 8), tie="uniform")
    assert check(make_spec(task=source, latency=latency, space=tied)).space.size == 4
