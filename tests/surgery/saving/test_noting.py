import copy
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import nn

from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery.saving.edits import NONE, Edits, edits_of
from headtune.surgery.saving.noting import Earlier, noted

PLAN = HeadPlan.of({"attn": HeadCount(2, 2, 4)})


@dataclass(frozen=True)
class Config:
    heads: int
    width: int


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.scale, self.shape, self.config = 4, 0.5, (4, 8), Config(4, 32)
        self.proj = nn.Linear(32, 32)
        self.register_buffer("table", torch.zeros(4, 8))
        self.register_buffer("angles", torch.zeros(8), persistent=False)
        self.register_buffer("mask", torch.ones(3), persistent=False)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp = Block(), nn.Linear(32, 32)


def test_what_differs_is_noted_by_name_where_it_stands() -> None:
    model = Model()
    earlier = Earlier(model)
    block = model.attn
    block.num_heads, block.scale, block.shape, block.config = 2, 0.5, (4, 8), Config(2, 32)
    block.proj.weight, block.proj.in_features = nn.Parameter(torch.zeros(32, 8)), 8
    block.proj.bias = nn.Parameter(torch.ones(32))  # another tensor of the same shape is saved as any other
    block.table, block.angles, block.mask = torch.zeros(2, 8), torch.ones(8), torch.ones(3)
    model.eval()
    noted(model, earlier, PLAN)
    assert edits_of(block) == Edits(
        attributes=frozenset({"num_heads"}),
        fields=frozenset({("config", "heads")}),
        tensors=frozenset({"table", "angles"}),
        count=HeadCount(2, 2, 4),
    )
    assert edits_of(block.proj) == Edits(attributes=frozenset({"in_features"}), tensors=frozenset({"weight"}))
    assert edits_of(model) is edits_of(model.mlp) is NONE


def test_a_second_operation_adds_to_the_first() -> None:
    model = Model()
    for name in ("num_heads", "scale"):
        model = copy.deepcopy(model)
        earlier = Earlier(model)
        setattr(model.attn, name, 7)
        noted(model, earlier, PLAN)
    assert edits_of(model.attn).attributes == {"num_heads", "scale"}


def test_a_headed_attention_says_itself_how_it_is_built_and_another_module_cannot() -> None:
    model = Model()
    earlier = Earlier(model)
    model.attn = HeadedAttention(32, 2, head_dim=4)  # type: ignore[assignment]
    model.mlp = nn.Identity()  # type: ignore[assignment]
    noted(model, earlier, PLAN)
    assert edits_of(model.attn) == Edits(count=HeadCount(2, 2, 4))
    assert edits_of(model.attn.q_proj) is NONE  # type: ignore[arg-type]
    assert edits_of(model.mlp).attributes == {"__class__"}


def test_parameters_that_come_or_go_are_noted() -> None:
    model = Model()
    earlier = Earlier(model)
    model.mlp.bias = None  # type: ignore[assignment]
    model.attn.angles = None  # type: ignore[assignment]
    noted(model, earlier, PLAN)
    assert (edits_of(model.mlp).tensors, edits_of(model.attn).tensors) == ({"bias"}, {"angles"})


def test_objects_that_are_no_plain_values_are_the_same_only_by_identity() -> None:
    model = Model()
    kept = SimpleNamespace(n=1)
    model.attn.kept, model.attn.swapped, model.attn.lists = kept, object(), [1, {"a": torch.ones(1)}]  # type: ignore[assignment]
    earlier = Earlier(model)
    model.attn.swapped, model.attn.lists = object(), [1, {"a": torch.ones(1)}]  # type: ignore[assignment]
    noted(model, earlier, PLAN)
    assert edits_of(model.attn).attributes == {"swapped"}
