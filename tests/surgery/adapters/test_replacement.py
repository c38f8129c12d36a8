import pytest
import torch
from torch import nn

from headtune.heads.count import HeadCount
from headtune.nn import HeadedAttention
from headtune.surgery.adapters.replacement import named_tensors, replacement

X, Y = torch.randn(5, 2, 24), torch.randn(7, 2, 24)
OPTIONS = [
    {},
    {"bias": False},
    {"kdim": 24, "vdim": 24},
    {"add_bias_kv": True},
    {"add_zero_attn": True, "batch_first": True},
]


@pytest.mark.parametrize("kind", [nn.MultiheadAttention, HeadedAttention])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_counts_give_the_same_function(kind: type[nn.Module], options: dict[str, bool]) -> None:
    """Nothing changes its shape, so every tensor must have found its place."""
    old = kind(24, 4, **options)
    with torch.no_grad():
        for parameter in old.parameters():
            parameter.normal_(0, 0.3)
    new = replacement(old, HeadCount(4, 4, 6))
    query, key = (X.transpose(0, 1), Y.transpose(0, 1)) if old.batch_first else (X, Y)
    torch.testing.assert_close(new(query, key, key), old(query, key, key), rtol=0, atol=1e-6)


def test_separate_input_widths_are_kept() -> None:
    old = nn.MultiheadAttention(24, 4, kdim=10, vdim=14)
    new = replacement(old, HeadCount(4, 4, 6))
    key, value = torch.randn(7, 2, 10), torch.randn(7, 2, 14)
    torch.testing.assert_close(new(X, key, value), old(X, key, value), rtol=0, atol=1e-6)


def test_only_tensors_of_another_shape_are_new() -> None:
    old = nn.MultiheadAttention(24, 4, add_bias_kv=True)
    before = {name: tensor.detach().clone() for name, tensor in named_tensors(old).items()}
    new = replacement(old, HeadCount(4, 2, 6))
    kept = {name for name, tensor in new.named_parameters() if tensor.shape == before[name].shape}
    assert kept == {"q_proj.weight", "q_proj.bias", "out_proj.weight", "out_proj.bias"}
    assert all(torch.equal(dict(new.named_parameters())[name], before[name]) for name in kept)
    assert all(torch.equal(tensor, before[name]) for name, tensor in named_tensors(old).items())
    bound = (6 / (24 + 24 + 12 + 12)) ** 0.5  # Xavier over the stacked rows of q, k and v
    assert 0.9 * bound < new.k_proj.weight.abs().max() <= bound


def test_frozen_parts_stay_frozen() -> None:
    old = nn.MultiheadAttention(24, 4)
    old.in_proj_weight.requires_grad_(False)
    old.out_proj.bias.requires_grad_(False)
    with torch.no_grad():
        new = replacement(old, HeadCount(3, 3, 6))
    frozen = {name for name, parameter in new.named_parameters() if not parameter.requires_grad}
    assert frozen == {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.bias"}


def test_hooks_and_their_handles_move_along() -> None:
    old = nn.MultiheadAttention(24, 4).eval()
    calls: list[str] = []
    before = old.register_forward_pre_hook(lambda *_: calls.append("before"))
    old.register_forward_hook(lambda *_, **__: calls.append("after"), with_kwargs=True)
    old.register_full_backward_hook(lambda *_: calls.append("backward"))
    new = replacement(old, HeadCount(3, 3, 6))
    assert new.training is False
    new(X.requires_grad_(), X, X)[0].sum().backward()
    assert calls == ["before", "after", "backward"]
    before.remove()
    new(X, X, X)
    assert calls == ["before", "after", "backward", "after"]
