import copy

import pytest
import torch
from torch import nn

from headtune.surgery.adapters.linears import (
    features,
    is_conv1d,
    made_by_features,
    resize,
    why_not_linear,
    why_not_plain,
)


def resize_linear(linear: nn.Linear, *, rows: int | None = None, columns: int | None = None) -> None:
    resize(linear, "weight", made=rows, read=columns)


@pytest.mark.parametrize("bias", [True, False])
def test_new_rows_are_drawn_as_the_module_draws_them(bias: bool) -> None:
    linear = nn.Linear(4, 6, bias)
    torch.manual_seed(3)
    resize_linear(linear, rows=9)
    torch.manual_seed(3)
    fresh = nn.Linear(4, 9, bias)
    assert (linear.out_features, linear.in_features) == (9, 4)
    assert torch.equal(linear.weight, fresh.weight)
    assert linear.bias is None if not bias else torch.equal(linear.bias, fresh.bias)


def test_new_columns_leave_the_bias() -> None:
    linear = nn.Linear(4, 6)
    bias = linear.bias
    resize_linear(linear, columns=3)
    assert linear.weight.shape == (6, 3)
    assert linear.bias is bias
    assert linear(torch.ones(2, 3)).shape == (2, 6)


def test_the_same_size_changes_nothing() -> None:
    linear = nn.Linear(4, 6)
    weight, before = linear.weight, copy.deepcopy(linear.state_dict())
    resize_linear(linear, rows=6, columns=4)
    assert linear.weight is weight
    assert all(torch.equal(value, before[name]) for name, value in linear.state_dict().items())


def test_old_parameters_keep_their_values() -> None:
    linear = nn.Linear(4, 6)
    weight, bias = linear.weight, linear.bias
    values = weight.detach().clone(), bias.detach().clone()
    resize_linear(linear, rows=2)
    assert torch.equal(weight, values[0])
    assert torch.equal(bias, values[1])


def test_type_device_gradients_and_hooks_are_kept() -> None:
    linear = nn.Linear(4, 6, dtype=torch.float64)
    linear.weight.requires_grad_(False)
    calls: list[int] = []
    linear.register_forward_hook(lambda *_: calls.append(1))
    resize_linear(linear, rows=2)
    assert linear.weight.dtype == torch.float64
    assert not linear.weight.requires_grad
    assert linear.bias.requires_grad
    linear(torch.ones(1, 4, dtype=torch.float64))
    assert calls == [1]
    meta = nn.Linear(4, 6, device="meta")
    resize_linear(meta, rows=2)
    assert meta.weight.is_meta


def test_a_subclass_keeps_its_class_and_its_own_distribution() -> None:
    class Zeroed(nn.Linear):
        def reset_parameters(self) -> None:
            nn.init.zeros_(self.weight)
            nn.init.ones_(self.bias)

    linear = Zeroed(4, 6)
    resize_linear(linear, rows=5)
    assert type(linear) is Zeroed
    assert not linear.weight.any()
    assert torch.equal(linear.bias, torch.ones(5))


class Drawing(nn.Module):
    """Draws its linear maps in a way of its own, as nanoGPT and transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 6))
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.weight, 0.5)
            nn.init.constant_(module.bias, -1.0)


def test_new_tensors_are_drawn_as_the_model_draws_them() -> None:
    model = nn.Sequential(Drawing(), nn.Linear(6, 6))
    resize(model, "0.block.0.weight", made=9)
    assert torch.equal(model[0].block[0].weight, torch.full((9, 4), 0.5))
    assert torch.equal(model[0].block[0].bias, torch.full((9,), -1.0))
    torch.manual_seed(3)
    resize(model, "1.weight", made=9)
    torch.manual_seed(3)
    assert torch.equal(model[1].weight, nn.Linear(6, 9).weight), "outside of it the module's own way holds"


def test_a_transposed_map_of_transformers_is_a_linear_map() -> None:
    pytorch_utils = pytest.importorskip("transformers.pytorch_utils")
    conv = pytorch_utils.Conv1D(6, 4)
    assert is_conv1d(conv)
    assert features(conv) == (6, 4)
    assert made_by_features(conv) == (("weight", 1), ("bias", 0))
    assert why_not_linear(conv, "weight") is None


def test_a_transposed_map_changes_its_size() -> None:
    gpt2 = pytest.importorskip("transformers.models.gpt2.modeling_gpt2")
    model = gpt2.GPT2Model(gpt2.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=4))
    attention = model.h[0].attn
    bias = attention.c_proj.bias
    resize(model, "h.0.attn.c_attn.weight", made=48)
    resize(model, "h.0.attn.c_proj.weight", read=16)
    assert (attention.c_attn.weight.shape, attention.c_attn.bias.shape) == ((8, 48), (48,))
    assert attention.c_proj.weight.shape == (16, 8)
    assert attention.c_proj.bias is bias
    assert attention.c_attn(torch.ones(1, 8)).shape == (1, 48)
    # Drawn with the model's standard deviation of 0.02: that of 384 numbers strays by 3.6 %; five times that may be.
    assert attention.c_attn.weight.std().item() == pytest.approx(0.02, rel=0.18)


def test_what_is_no_linear_map_is_named() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))
    nn.utils.parametrizations.weight_norm(model[1])
    assert why_not_linear(model, "0.weight") == (
        "0.weight belongs to LayerNorm, and only nn.Linear and Conv1D can change their size"
    )
    assert why_not_linear(model, "1.parametrizations.weight.original1") is not None


def test_rows_and_a_bias_belong_to_what_is_put_out() -> None:
    assert made_by_features(nn.Linear(4, 6)) == (("weight", 0), ("bias", 0))
    assert made_by_features(nn.Linear(4, 6, bias=False)) == (("weight", 0),)


def test_what_is_no_plain_tensor_is_named() -> None:
    class Int8Tensor(nn.Parameter):
        pass

    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert why_not_plain(model, "0.weight") is None
    model[1].weight = Int8Tensor(torch.ones(4, 4))
    assert why_not_plain(model, "1.weight") == (
        "1.weight is a Int8Tensor, not a plain tensor of numbers; cut before sharding or quantisation"
    )


def test_a_linear_map_of_another_package_is_told_from_pytorchs() -> None:
    class Linear(nn.Module):
        pass

    assert why_not_linear(nn.Sequential(Linear()), "0.weight") == (
        f"0.weight belongs to {__name__}.Linear, and only nn.Linear and Conv1D can change their size"
    )
