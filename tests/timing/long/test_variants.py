import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import InputError
from headtune.nn import HeadedAttention
from headtune.timing import LatencyProtocol, LongVariant, long_sequence_variants, measure, peak_memory_mb, windowed

E, H, T, W = 16, 4, 256, 64
PROTOCOL = LatencyProtocol(device="cpu", threads=1, min_samples=6, max_seconds=0.3)


def encoder() -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(E, H, 2 * E, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2)


class WrittenOut(nn.Module):
    """One block that keeps its scores, so that what a window saves is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = HeadedAttention(E, H, batch_first=True, num_kv_heads=2)

    def forward(self, x: Tensor) -> Tensor:
        attended: Tensor = self.attention(x, x, x, need_weights=True)[0]
        return attended


@pytest.mark.parametrize("mode", ["forward", "train_step"])
def test_both_are_timed_beside_the_model_as_it_is(mode: Any) -> None:
    model, inputs = encoder(), (torch.randn(1, T, E),)
    protocol = LatencyProtocol(device="cpu", threads=1, min_samples=6, max_seconds=0.3, mode=mode)
    sites = headtune.sites(model, inputs)
    local, again = long_sequence_variants(model, inputs, protocol, sites, window=W)
    assert (local.name, local.mode, local.window, local.refused) == ("window", mode, W, None)
    assert (again.name, again.mode, again.window, again.refused) == ("checkpointing", "train_step", None, None)
    training = LatencyProtocol(device="cpu", threads=1, mode="train_step")
    for one, timed in ((local, protocol), (again, training)):
        assert one.left_out == {}
        assert one.ratio is not None
        assert one.ratio_interval is not None
        assert one.ratio_interval[0] <= one.ratio <= one.ratio_interval[1]
        assert one.memory_without_mb == peak_memory_mb(model, inputs, timed)
        assert LongVariant.from_json(json.loads(json.dumps(one.to_json()))) == one
    switched = windowed(model, sites, inputs, W)
    assert local.memory_mb == peak_memory_mb(switched.model, inputs, protocol)
    assert again.memory_mb is not None
    assert again.memory_without_mb is not None
    assert again.memory_mb < again.memory_without_mb


def test_what_cannot_be_switched_is_refused_with_its_reason() -> None:
    model, inputs = WrittenOut(), (torch.randn(1, T, E),)
    sites = headtune.sites(model, inputs)
    local, again = long_sequence_variants(model, inputs, PROTOCOL, sites, window=W)
    reason = "it is called for its weights, all of which no window computes; call it with need_weights=False"
    assert local == LongVariant(
        name="window", mode="forward", window=W, refused=f"attention: {reason}", left_out={"attention": reason}
    )
    assert again.refused == (
        "attention: no nn.ModuleList or nn.Sequential holds a layer with it; keep the layers in one"
    )


def test_a_decoded_token_has_no_window_and_a_frozen_model_no_step() -> None:
    model, inputs = encoder().requires_grad_(False), (torch.randn(1, T, E),)
    protocol = LatencyProtocol(device="cpu", threads=1, mode="decode")
    local, again = long_sequence_variants(model, inputs, protocol, headtune.sites(model, inputs), window=W)
    assert local.refused == "a decoded token reads a cache, and no window makes that shorter"
    assert again.refused is not None
    assert again.refused.endswith("has no parameter that requires gradients, so it takes no training step")


def test_the_loss_is_what_is_trained_on() -> None:
    model, inputs = encoder(), (torch.randn(1, T, E),)
    seen: list[type[nn.Module]] = []

    def loss(given: nn.Module) -> Tensor:
        seen.append(type(given))
        value: Tensor = given(*inputs).abs().mean()
        return value

    protocol = LatencyProtocol(device="cpu", threads=1, min_samples=6, max_seconds=0.05, mode="train_step")
    sites = headtune.sites(model, inputs)
    assert all(
        one.refused is None for one in long_sequence_variants(model, inputs, protocol, sites, window=W, loss=loss)
    )
    assert len(seen) > 4 * 6


def test_arguments_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(InputError) as wrong:
        long_sequence_variants(encoder(), (), PROTOCOL, ["layers"], window=0)  # type: ignore[list-item]
    assert wrong.value.problems == (
        "long_sequence_variants: sites: must be the model's, as headtune.sites(model, inputs) gives them "
        "(got ['layers'])",
        "long_sequence_variants: window: must be at least 1 (got 0)",
    )


def test_a_window_takes_less_time_and_memory_where_the_sequence_is_long() -> None:
    model, x = HeadedAttention(32, 8, batch_first=True), torch.randn(1, 4096, 32)
    inputs = {"query": x, "key": x, "value": x, "need_weights": False}
    switched = windowed(model, headtune.sites(model, inputs), inputs, W)
    profile = measure(switched.model, inputs, PROTOCOL, reference=model)
    assert profile.ratio < 0.5  # it computes 3 * 64 of 4096 scores of a query
