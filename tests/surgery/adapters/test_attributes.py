import copy
from argparse import Namespace
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from headtune.errors import SurgeryError
from headtune.heads.count import HeadCount
from headtune.surgery.adapters.attributes import fields_of, held, set_counts, set_values, written

PRESENT, WANTED = HeadCount(8, 2, 16), HeadCount(4, 1, 32)


@dataclass(frozen=True, slots=True)
class Frozen:
    n_heads: int
    d_model: int = 128


class Plain:
    def __init__(self) -> None:
        self.n_heads, self.d_model = 8, 128


class Block(nn.Module):
    def __init__(self, **attributes: object) -> None:
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)


def after(**attributes: object) -> Block:
    block = Block(**attributes)
    set_counts(block, PRESENT, WANTED)
    return block


def test_every_quantity_is_set_where_name_and_value_agree() -> None:
    block = after(
        num_heads=8, n_kv_head=2, n_rep=4, head_dim=16, inner_dim=128, kv_dim=32, num_layers=8, hidden=16, n_groups=2
    )
    assert (block.num_heads, block.n_kv_head, block.n_rep, block.head_dim) == (4, 1, 4, 32)
    assert (block.inner_dim, block.kv_dim, block.n_groups) == (128, 32, 1)
    assert (block.num_layers, block.hidden) == (8, 16)


def test_a_value_that_is_not_the_present_one_stays() -> None:
    block = after(num_heads=6, head_dim=15, heads=True)
    assert (block.num_heads, block.head_dim, block.heads) == (6, 15, True)


def test_a_short_name_is_believed_only_when_alone() -> None:
    assert after(h=8, w=8).h == 4
    block = after(num_heads=8, h=8)
    assert (block.num_heads, block.h) == (4, 8)


def test_scales_follow_as_numbers_buffers_and_parameters() -> None:
    block = Block(scale=16**-0.5, temperature=4.0, dropout=0.25, scaling=0.3)
    block.register_buffer("attn_scale", torch.tensor(0.25))
    block.register_parameter("softmax_scale", nn.Parameter(torch.tensor(0.25)))
    block.register_buffer("mask", torch.tensor(0.25))
    block.dk_scale = torch.tensor([4.0])
    set_counts(block, PRESENT, WANTED)
    assert block.scale == pytest.approx(32**-0.5)
    assert block.temperature == pytest.approx(32**0.5)
    assert (block.dropout, block.scaling) == (0.25, 0.3)
    assert float(block.attn_scale) == pytest.approx(32**-0.5)
    assert float(block.softmax_scale) == pytest.approx(32**-0.5)
    assert isinstance(block.softmax_scale, nn.Parameter)
    assert float(block.dk_scale) == pytest.approx(32**0.5)
    assert float(block.mask) == 0.25
    assert list(block.state_dict()) == ["softmax_scale", "attn_scale", "mask"]


def test_submodules_are_set_too_but_not_those_of_torch() -> None:
    block = Block(num_heads=8)
    block.child = Block(temperature=4.0, heads=8)
    block.norm, block.conv = nn.GroupNorm(2, 8), nn.Conv1d(8, 8, 1, groups=2)
    set_counts(block, PRESENT, WANTED)
    assert block.child.temperature == pytest.approx(32**0.5)
    assert block.child.heads == 4
    assert (block.norm.num_groups, block.conv.groups) == (2, 2)
    assert set(written(block)) == {block, block.child}


@pytest.mark.parametrize(
    "config",
    [
        {"n_heads": 8, "d_model": 128},
        SimpleNamespace(n_heads=8, d_model=128),
        Namespace(n_heads=8, d_model=128),
        Frozen(n_heads=8),
        Plain(),
    ],
    ids=["dict", "namespace", "argparse", "frozen dataclass", "plain class"],
)
def test_a_configuration_is_replaced_by_a_changed_copy(config: object) -> None:
    """Two blocks read one configuration; only the first changes."""
    first, second = Block(config=config), Block(config=config)
    set_counts(first, PRESENT, WANTED)

    def read(block: Block) -> tuple[int, int]:
        held_by = block.config
        return (
            (held_by["n_heads"], held_by["d_model"])
            if isinstance(held_by, dict)
            else (held_by.n_heads, held_by.d_model)
        )

    assert read(first) == (4, 128)
    assert read(second) == (8, 128)
    assert second.config is config
    assert type(first.config) is type(config)


def test_the_scales_of_adapters_and_norms_are_their_own() -> None:
    block = Block(num_heads=8, scale=0.25, res_scale=0.25, lora=Block(scaling=4.0, down=nn.Linear(8, 2)))
    set_counts(block, PRESENT, WANTED)
    assert block.scale == pytest.approx(32**-0.5)
    assert (block.res_scale, block.lora.scaling) == (0.25, 4.0)


def test_what_a_block_holds() -> None:
    assert held(Block(num_heads=8, head_dim=16), PRESENT) == {"heads", "head_dim"}
    assert held(Block(num_heads=7), PRESENT) == set()
    assert held(Block(config=Frozen(8)), PRESENT) == {"heads"}
    assert held(Block(child=Block(n_rep=4, kv_heads=2)), PRESENT) == {"group_size", "kv_heads"}


def test_values_can_be_set_by_any_rule() -> None:
    block = Block(a=1, config={"b": 1, "c": 2})
    set_values(block, lambda values: {name: 5 for name, value in values.items() if value == 1 and name != "training"})
    assert (block.a, block.config) == (5, {"b": 5, "c": 2})


def test_a_dataclass_holds_what_was_added_to_it_as_well() -> None:
    @dataclass
    class Config:
        heads: int = 4

    config = Config()
    config.head_dim = 6  # type: ignore[attr-defined]
    assert fields_of(config) == {"heads": 4, "head_dim": 6}


def test_a_dataclass_without_a_dict_holds_its_fields() -> None:
    @dataclass(slots=True)
    class Config:
        heads: int = 4

    assert fields_of(Config()) == {"heads": 4}


def test_layers_of_einops_follow() -> None:
    layers = pytest.importorskip("einops.layers.torch")

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = 4
            self.split, self.cut = (
                layers.Rearrange("b n (h d) -> b h n d", h=4),
                layers.Rearrange("b n (h d) -> b h n d", d=6),
            )

    block, x = Block(), torch.ones(2, 5, 24)
    set_counts(block, HeadCount(4, 4, 6), HeadCount(3, 3, 8))
    for layer in (block.split, block.cut, copy.deepcopy(block.split), copy.deepcopy(block.cut)):
        assert layer(x).shape == (2, 3, 5, 8)


@pytest.mark.parametrize("fixed", ["num_heads", "scale", "config"])
def test_a_module_that_refuses_to_be_set_is_named_with_what_it_raises(fixed: str) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.num_heads, self.scale, self.config = 4, 6**-0.5, {"n_head": 4}

        def __setattr__(self, name: str, value: object) -> None:
            if name == fixed and name in vars(self):
                raise TypeError("fixed")
            super().__setattr__(name, value)

    with pytest.raises(SurgeryError, match=f"^Fixed does not let {fixed} be set: it raises TypeError: fixed; let it"):
        set_counts(Fixed(), HeadCount(4, 4, 6), HeadCount(2, 2, 12))
