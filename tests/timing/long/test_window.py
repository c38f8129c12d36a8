import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import InputError, SurgeryError
from headtune.nn import HeadedAttention
from headtune.timing import windowed

B, T, E, H, W = 2, 11, 16, 4, 3
BAND = (torch.arange(T)[:, None] - torch.arange(T)).abs() >= W
CAUSAL = torch.ones(T, T, dtype=torch.bool).triu(1)


class Decoder(nn.Module):
    """Causal attention to itself, under a mask of its own, and attention to a memory."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(E, H, 32, dropout=0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.mask = torch.zeros(T, T).masked_fill(CAUSAL, float("-inf"))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        decoded: Tensor = self.decoder(x, memory, tgt_mask=self.mask)
        return decoded


class Blocks(nn.Module):
    """Blocks in a list, each called with the same options."""

    def __init__(self, *blocks: nn.Module, **options: Any) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.options = {"need_weights": False, **options}

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x, x, x, **self.options)[0]
        return x


class Handwritten(nn.Module):
    """Attention of its own making, called as the others are."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads = H
        self.q, self.k, self.v, self.o = (nn.Linear(E, E) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, need_weights: bool) -> tuple[Tensor, None]:
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer, x in ((self.q, query), (self.k, key), (self.v, value))
        )
        out = ((q @ k.transpose(-1, -2)) / 2).softmax(-1) @ v
        return self.o(out.transpose(1, 2).flatten(2)), None


def mha(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(E, H, batch_first=True, **options)


@pytest.mark.parametrize("training", [False, True])
def test_an_encoder_computes_as_under_a_band_mask(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(E, H, 32, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).train(training)
    x = torch.randn(B, T, E)
    before = copy.deepcopy(model.state_dict())
    sites = headtune.sites(model, (x,))
    switched = windowed(model, sites, (x,), W)
    assert switched.paths == ("layers.0.self_attn", "layers.1.self_attn")
    assert switched.left_out == {}
    torch.testing.assert_close(switched.model(x), model(x, mask=BAND), rtol=0, atol=2e-6)
    assert not torch.allclose(switched.model(x), model(x), atol=1e-3)
    assert all(module.training == training for module in switched.model.modules())
    assert type(model.layers[0].self_attn) is nn.MultiheadAttention
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    padding = torch.zeros(B, T, dtype=torch.bool)
    padding[0, -2:] = True
    expected = model(x, mask=BAND, src_key_padding_mask=padding)[~padding]
    torch.testing.assert_close(switched.model(x, src_key_padding_mask=padding)[~padding], expected, rtol=0, atol=2e-6)


def test_a_decoder_keeps_its_cross_attention() -> None:
    model, inputs = Decoder().eval(), (torch.randn(B, T, E), torch.randn(B, 7, E))
    state = torch.get_rng_state()
    switched = windowed(model, headtune.sites(model, inputs), inputs, W)
    assert torch.equal(torch.get_rng_state(), state)
    assert switched.paths == ("decoder.layers.0.self_attn", "decoder.layers.1.self_attn")
    reason = "it attends to another sequence, in which a query has no neighbours"
    assert switched.left_out == {f"decoder.layers.{i}.multihead_attn": reason for i in range(2)}
    banded = copy.deepcopy(model)
    banded.mask = torch.zeros(T, T).masked_fill(CAUSAL | BAND, float("-inf"))
    torch.testing.assert_close(switched.model(*inputs), banded(*inputs), rtol=0, atol=2e-6)


def test_each_block_that_cannot_be_switched_says_why() -> None:
    class Own(nn.MultiheadAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    class OwnHeaded(HeadedAttention):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return super().forward(*args, **kwargs)

    headed = HeadedAttention(E, H, batch_first=True, num_kv_heads=2)
    model = Blocks(
        mha(),
        Own(E, H, batch_first=True),
        OwnHeaded(E, H, batch_first=True),
        mha(add_bias_kv=True),
        mha(add_zero_attn=True),
        HeadedAttention(E, H, batch_first=True, window=5),
        Handwritten(),
        headed,
    )
    x = torch.randn(B, T, E)
    switched = windowed(model, headtune.sites(model, (x,)), (x,), W)
    assert switched.paths == ("blocks.0", "blocks.7")
    assert switched.left_out == {
        "blocks.1": "Own has a forward of its own, which a replacement would lose; "
        "use nn.MultiheadAttention itself, or headtune.nn.HeadedAttention",
        "blocks.2": "OwnHeaded has a forward of its own",
        "blocks.3": "its add_bias_kv appends a key without a position",
        "blocks.4": "its add_zero_attn appends a key without a position",
        "blocks.5": "it has a window of 5 already",
        "blocks.6": "Handwritten has no window that headtune knows; "
        "let nn.MultiheadAttention or headtune.nn.HeadedAttention stand there",
    }
    assert [getattr(block, "window", None) for block in switched.model.blocks] == [W, *[None] * 4, 5, None, W]
    assert headed.window is None
    switched.model(x).sum().backward()
    assert headed.q_proj.weight.grad is None


def test_how_a_block_is_called_decides_too() -> None:
    x = torch.randn(B, T, E)
    model = Blocks(mha(), need_weights=True)
    switched = windowed(model, headtune.sites(model, (x,)), (x,), W)
    assert switched.paths == ()
    assert switched.left_out == {
        "blocks.0": "it is called for its weights, all of which no window computes; call it with need_weights=False"
    }
    assert type(switched.model.blocks[0]) is nn.MultiheadAttention
    torch.testing.assert_close(switched.model(x), model(x), rtol=0, atol=0)
    model = Blocks(mha())
    assert windowed(model, headtune.sites(model, (x,)), (x,), T).left_out == {
        "blocks.0": "its sequence of 11 positions is no longer than the window of 11"
    }


def test_a_model_that_is_itself_the_block() -> None:
    model, x = mha(), torch.randn(B, T, E)
    inputs = {"query": x, "key": x, "value": x, "need_weights": False}
    switched = windowed(model, headtune.sites(model, inputs), inputs, W)
    assert switched.paths == ("",)
    expected = model(**inputs, attn_mask=BAND)[0]
    torch.testing.assert_close(switched.model(**inputs)[0], expected, rtol=0, atol=2e-6)


def test_what_is_wrong_is_said() -> None:
    model, x = Blocks(mha()), torch.randn(B, T, E)
    sites = headtune.sites(model, (x,))
    with pytest.raises(InputError, match=r"windowed: window: must be at least 1 \(got 0\)"):
        windowed(model, sites, (x,), 0)
    with pytest.raises(SurgeryError, match=r"the forward pass of Blocks raised .*; give inputs that its forward takes"):
        windowed(model, sites, (torch.randn(B, T, E + 1),), W)
