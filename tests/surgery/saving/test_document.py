import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headtune.errors import StorageError
from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.saving.document import described_edits, headed_options, plan_of
from headtune.surgery.saving.edits import Edits, mark


def test_a_model_that_was_never_changed_has_nothing_to_say(zoo: SimpleNamespace) -> None:
    model = zoo.build("lucid")
    assert described_edits(model) == {}
    assert plan_of(model) == HeadPlan.of({})


def test_a_changed_model_is_described_by_names_and_present_values(zoo: SimpleNamespace) -> None:
    model = zoo.build("lucid")
    sites = find_sites(model, zoo.inputs())
    plan = HeadPlan.of({sites[0].path: HeadCount(2, 2, 6), sites[1].path: sites[1].present})
    small = apply_plan(model, plan, zoo.inputs(), hold="head_dim")
    assert json.loads(json.dumps(described_edits(small))) == {
        "layers.0.attn": {"count": [2, 2, 6], "attributes": {"heads": 2}},
        "layers.0.attn.to_out.0": {"attributes": {"in_features": 12}, "tensors": {"weight": [24, 12]}},
        "layers.0.attn.to_qkv": {"attributes": {"out_features": 36}, "tensors": {"weight": [36, 24]}},
        "layers.1.attn": {"count": [4, 4, 6]},
    }
    assert plan_of(small) == plan
    small.get_submodule("layers.0.attn").heads = 3
    assert described_edits(small)["layers.0.attn"]["attributes"] == {"heads": 3}


def test_a_disguise_is_described(zoo: SimpleNamespace) -> None:
    model = zoo.build("nano cross")
    sites = find_sites(model, zoo.inputs("nano cross"))
    plan = HeadPlan.of({site.path: HeadCount(3, 3, 6) for site in sites})
    small = apply_plan(model, plan, zoo.inputs("nano cross"), hold="head_dim")
    assert described_edits(small)[""]["disguise"] == {"width": 18, "linears": ["q", "kv"]}


def test_a_headed_attention_is_described_by_what_builds_it_again() -> None:
    block = HeadedAttention(
        8, 4, 0.1, bias=False, add_bias_kv=True, kdim=5, batch_first=True, head_dim=3, num_kv_heads=2
    )
    options = headed_options(block)
    assert described_edits(nn.Sequential(block)) == {"0": {"headed": options}}
    again = HeadedAttention(**json.loads(json.dumps(options)))
    assert headed_options(again) == options
    assert {name: tensor.shape for name, tensor in again.state_dict().items()} == {
        name: tensor.shape for name, tensor in block.state_dict().items()
    }


def test_tensors_that_went_and_buffers_outside_the_state_are_described_whole() -> None:
    module = nn.Linear(2, 2, bias=False)
    module.register_buffer("angles", torch.tensor([0.5, 1.0]), persistent=False)
    mark(module, Edits(tensors=frozenset({"bias", "angles"})))
    assert described_edits(module)[""]["tensors"] == {
        "angles": {"tensor": [0.5, 1.0], "shape": [2], "dtype": "float32"},
        "bias": None,
    }


def test_everything_that_cannot_be_written_is_named() -> None:
    model = nn.Sequential(nn.Identity(), nn.Identity())
    for module in model:
        mark(module, Edits(attributes=frozenset({"__class__"})))
    with pytest.raises(StorageError) as caught:
        described_edits(model)
    assert caught.value.problems == (
        "0: surgery put a type there, which cannot be written down",
        "1: surgery put a type there, which cannot be written down",
    )
