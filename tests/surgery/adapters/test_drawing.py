"""Tensors of another shape, in models that draw their weights in ways of their own.

Deviations of some 6,000 numbers stray by 1 %; five times that may be.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from headtune.heads import HeadCount, HeadPlan
from headtune.nn import HeadedAttention
from headtune.surgery import apply_plan, find_sites
from headtune.surgery.adapters.linears import resize

E, H = 48, 4
CLOSE = 0.05
X = torch.randn(2, 5, E, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.head_dim = H, E // H
        self.qkv, self.out = nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Gpt(nn.Module):
    """Draws by a method of its own, and once more by name, as nanoGPT does."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Attention(), Attention())
        self.apply(self._draw)
        for name, parameter in self.named_parameters():
            if name.endswith("out.weight"):
                nn.init.normal_(parameter, 0.1, 0.008)

    def _draw(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def with_heads(model: nn.Module, inputs: tuple[Tensor, ...], heads: int, seed: int = 0) -> nn.Module:
    sites = find_sites(model, inputs)
    plan = HeadPlan.of({site.path: HeadCount(heads, heads, site.head_dim) for site in sites})
    return apply_plan(model, plan, inputs, hold="head_dim", seed=seed)


@pytest.mark.parametrize("heads", [2, 6])
def test_weights_look_as_the_model_draws_them(heads: int) -> None:
    torch.manual_seed(0)
    changed = with_heads(Gpt(), (X,), heads)
    for layer in changed.layers:
        assert layer.qkv.weight.shape == (3 * heads * E // H, E)
        assert layer.qkv.weight.std().item() == pytest.approx(0.02, rel=CLOSE)
        assert abs(layer.qkv.weight.mean()) < 5 * 0.02 / layer.qkv.weight.numel() ** 0.5
        assert not layer.qkv.bias.any()
        assert layer.out.weight.std().item() == pytest.approx(0.008, rel=CLOSE)
        assert layer.out.weight.mean().item() == pytest.approx(0.1, rel=CLOSE)


def test_another_seed_draws_other_weights() -> None:
    torch.manual_seed(0)
    model = Gpt()
    one, same, other = (with_heads(model, (X,), 2, seed).layers[0].qkv.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_what_the_layer_itself_draws_follows_the_new_width() -> None:
    """PyTorch draws from ±1/√(features read), which the output projection reads fewer of."""
    torch.manual_seed(0)
    changed = with_heads(nn.Sequential(Attention()), (X,), 2)
    out = changed[0].out.weight
    assert out.abs().max().item() == pytest.approx((E / 2) ** -0.5, rel=CLOSE)


def test_attention_of_torch_in_a_model_that_draws_anew() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 32, batch_first=True), 1)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.01)
    block = with_heads(model, (X,), 6).layers[0].self_attn
    assert isinstance(block, HeadedAttention)
    for weight in (block.q_proj.weight, block.k_proj.weight, block.v_proj.weight, block.out_proj.weight):
        assert weight.std().item() == pytest.approx(0.01, rel=CLOSE)


def test_attention_of_torch_as_torch_draws_it() -> None:
    """Xavier uniform, whose bound follows the rows: no values of the old weights are drawn again."""
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(E, H, 32, batch_first=True), 1)
    old = model.layers[0].self_attn.in_proj_weight
    block = with_heads(model, (X,), 2).layers[0].self_attn
    assert not torch.isin(block.q_proj.weight, old).any()
    assert block.q_proj.weight.abs().max().item() == pytest.approx((6 / (E + 1.5 * E)) ** 0.5, rel=CLOSE)


def test_a_constant_stays_one() -> None:
    linear = nn.Linear(4, 6)
    nn.init.zeros_(linear.bias)
    holder = nn.ModuleDict({"only": linear})
    resize(holder, "only.weight", made=40)
    assert not linear.bias.any()
    assert linear.weight.abs().max() <= 0.5
