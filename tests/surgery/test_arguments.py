"""Whatever a function of surgery is given by mistake is refused in words, and by what it must be."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import nn

from headtune.errors import PlanError, SurgeryError
from headtune.heads.count import HeadCount
from headtune.heads.plan import HeadPlan
from headtune.surgery import apply, apply_plan, captured, find_sites, gated, hold_of, merge_kv, possibilities, prune
from headtune.surgery.wiring import wirings

X = (torch.randn(2, 5, 24),)
MODEL = nn.TransformerEncoderLayer(24, 4, batch_first=True, dropout=0).eval()
PLAN = HeadPlan.of({"self_attn": HeadCount(4, 2, 6)})
Call = Callable[..., Any]


def opened(manager: AbstractContextManager[None]) -> None:
    with manager:
        pass


WATCHING: list[Call] = [
    lambda model, inputs: prune(model, {}, inputs),
    lambda model, inputs: apply(model, PLAN, inputs),
    lambda model, inputs: apply_plan(model, PLAN, inputs, hold="head_dim"),
    lambda model, inputs: merge_kv(model, PLAN, inputs),
    find_sites,
    captured,
    wirings,
    possibilities,
]
"""All that take a model and its inputs."""


@pytest.mark.parametrize("model", [None, "model", nn.Linear])
@pytest.mark.parametrize("call", [*WATCHING, lambda model, inputs: opened(gated(model, {}, {}))])
def test_a_model_is_a_module(call: Call, model: object) -> None:
    with pytest.raises(SurgeryError, match=r"the model came as .*: give a"):
        call(model, X)


@pytest.mark.parametrize("inputs", [None, 5, X[0], [X[0]]])
@pytest.mark.parametrize("call", WATCHING)
def test_inputs_are_a_tuple_or_a_mapping(call: Call, inputs: object) -> None:
    with pytest.raises(SurgeryError, match="inputs came as "):
        call(MODEL, inputs)


@pytest.mark.parametrize("plan", [None, "self_attn=2", {"self_attn": HeadCount(4, 2, 6)}])
@pytest.mark.parametrize(
    "call",
    [
        lambda plan: apply(MODEL, plan, X),
        lambda plan: apply_plan(MODEL, plan, X, hold="width"),
        lambda plan: merge_kv(MODEL, plan, X),
        lambda plan: hold_of(plan, find_sites(MODEL, X)),
    ],
)
def test_a_plan_is_no_text_and_no_mapping(call: Call, plan: object) -> None:
    with pytest.raises(SurgeryError, match=r"^plan: must be a HeadPlan: make it by"):
        call(plan)


@pytest.mark.parametrize("mask", [None, 5, [0], {5: [0]}, {"self_attn": None}, {"self_attn": ["0"]}])
def test_a_mask_is_a_mapping_of_paths_to_heads(mask: Any) -> None:
    with pytest.raises(PlanError, match="as in "):
        prune(MODEL, mask, X)


def test_every_wrong_argument_is_named_at_once() -> None:
    wrong: Any = {"hold": "depth", "seed": "0", "copy": "no", "sites": 5}
    with pytest.raises(SurgeryError) as caught:
        apply_plan(MODEL, PLAN, X, **wrong)
    assert caught.value.problems == (
        "hold: must be width or head_dim (got 'depth')",
        "seed: must be a whole number (got '0')",
        "copy: must be True or False (got 'no')",
        "sites: must be the model's, as headtune.sites(model, inputs) gives them (got 5)",
    )
    for call in (
        lambda: prune(MODEL, {}, X, copy=wrong["copy"]),
        lambda: merge_kv(MODEL, PLAN, X, copy=wrong["copy"]),
        lambda: apply(MODEL, PLAN, X, copy=wrong["copy"]),
    ):
        with pytest.raises(SurgeryError, match="copy: must be True or False"):
            call()


@pytest.mark.parametrize("gates", [None, torch.ones(4), {"self_attn": [1, 1, 1, 1]}])
def test_gates_are_tensors_by_path(gates: Any) -> None:
    with pytest.raises(
        SurgeryError, match=r"^2 problems:\n  - wirings: must be what .*\n  - gates: must be a mapping of"
    ):
        opened(gated(MODEL, None, gates))  # type: ignore[arg-type]
