"""Layers of peft, and stand-ins of the same shape where it is not installed."""

import pytest
import torch
from torch import Tensor, nn

from headtune.errors import SurgeryError
from headtune.surgery import find_sites, gated, prune
from headtune.surgery.adapters.peft import adapted, holds_adapters, why_not_cut, why_not_gated
from headtune.surgery.wiring import wirings

REMEDY = "merge its adapters first, by merge_and_unload()"
INPUTS = (torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(0)),)


class BaseTunerLayer:  # peft's own, by its name
    pass


class Lora(nn.Module, BaseTunerLayer):
    adapter_layer_names = ("lora_A", "lora_B")

    def __init__(self, base_layer: nn.Linear, *adapters: str) -> None:
        super().__init__()
        self.base_layer = base_layer
        self.lora_A = nn.ModuleDict({name: nn.Linear(base_layer.in_features, 3, False) for name in adapters})
        self.lora_B = nn.ModuleDict({name: nn.Linear(3, base_layer.out_features, False) for name in adapters})
        self.active_adapters, self.merged_adapters, self.disable_adapters = list(adapters), list[str](), False

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base_layer(x)
        for name in [] if self.disable_adapters else self.active_adapters:
            y = y + self.lora_B[name](self.lora_A[name](x))
        return y


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads = 4
        self.q, self.k, self.v, self.out = (nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for one in (self.q, self.k, self.v))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def model_with(*adapters: str) -> nn.Sequential:
    torch.manual_seed(0)
    block = Block()
    block.q, block.v, block.out = Lora(block.q, *adapters), Lora(block.v, *adapters), Lora(block.out, *adapters)
    return nn.Sequential(block).eval()


def test_the_layer_that_a_weight_is_a_part_of() -> None:
    model = model_with("one")
    assert adapted(model, "0.q.base_layer.weight") == ("0.q", model[0].q)
    assert adapted(model, "0.out.lora_A.one.weight") == ("0.out", model[0].out)
    assert adapted(model, "0.k.weight") is None
    assert holds_adapters(model)
    assert not holds_adapters(Block())


def test_adapters_that_are_used_are_cut_with_their_map() -> None:
    model = model_with("one")
    pruned = prune(model, {"0": [0, 2, 3]}, INPUTS)
    model[0].out.register_forward_pre_hook(lambda _, args: (args[0].index_fill(-1, torch.arange(6, 12), 0.0),))
    assert torch.allclose(pruned(*INPUTS), model(*INPUTS), atol=1e-6)


def test_an_adapter_that_is_not_used_is_in_the_way() -> None:
    model = model_with("one", "two")
    for layer in (model[0].q, model[0].v, model[0].out):
        layer.active_adapters = ["one"]
    with pytest.raises(SurgeryError) as caught:
        prune(model, {"0": [0, 2, 3]}, INPUTS)
    assert str(caught.value) == (
        f"0: 0.q has an adapter two that this forward pass does not use; delete it, or {REMEDY}"
    )
    model[0].q.disable_adapters = True
    assert why_not_cut(model, "0.q.base_layer.weight") == (
        f"0.q has an adapter one that this forward pass does not use; delete it, or {REMEDY}"
    )


def test_an_adapter_that_can_be_taken_out_again_is_in_the_way() -> None:
    model = model_with("one")
    model[0].q.merged_adapters.append("one")
    assert why_not_cut(model, "0.q.base_layer.weight") == (
        f"0.q holds the adapter one in its weight, to be taken out again; {REMEDY}"
    )
    assert why_not_cut(model, "0.k.weight") is None
    assert why_not_gated(model, "0.q.base_layer.weight") is None


def test_norms_of_whole_weights_are_in_the_way() -> None:
    model = model_with("one")
    model[0].out.lora_magnitude_vector = nn.ModuleDict({"one": nn.Linear(1, 24, False)})
    assert why_not_cut(model, "0.out.lora_A.one.weight") == (
        f"0.out has a number for each of its features (lora_magnitude_vector), which would not follow; {REMEDY}"
    )
    with pytest.raises(SurgeryError) as caught, gated(model, wirings(model, INPUTS), {"0": torch.ones(4)}):
        pass
    reason = f"0: 0.out divides by the norm of its whole weight (DoRA), gates and all; {REMEDY}"
    assert set(caught.value.problems) == {reason}


def test_peft_itself() -> None:
    peft = pytest.importorskip("peft")
    names = ["q", "v", "out"]
    model = peft.get_peft_model(nn.Sequential(Block()), peft.LoraConfig(target_modules=names, r=3)).eval()
    path = find_sites(model, INPUTS)[0].path
    unloaded = prune(model, {path: [0, 2, 3]}, INPUTS)
    before = unloaded(*INPUTS)
    assert torch.allclose(unloaded.merge_and_unload()(*INPUTS), before, atol=1e-6)
    config = peft.LoraConfig(target_modules=names, r=3, use_dora=True)
    dora = peft.get_peft_model(nn.Sequential(Block()), config).eval()
    with pytest.raises(SurgeryError, match="lora_magnitude_vector"):
        prune(dora, {path: [0, 2, 3]}, INPUTS)


def test_pytorchs_own_block_in_the_hands_of_peft() -> None:
    peft = pytest.importorskip("peft")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(24, 4, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.attn(x, x, x)[0]
            return y

    model = peft.get_peft_model(Model(), peft.LoraConfig(target_modules=["attn"], r=3)).eval()
    path = find_sites(model, INPUTS)[0].path
    with pytest.raises(SurgeryError) as caught:
        prune(model, {path: [0, 2, 3]}, INPUTS)
    assert str(caught.value) == (f"{path}: its out_proj is a peft.tuners.lora.layer.Linear, not an nn.Linear; {REMEDY}")
