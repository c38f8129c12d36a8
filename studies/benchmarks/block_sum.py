"""Does a model's latency equal the sum of its blocks?

The blocks of an encoder and of a Llama-shaped decoder are timed one at a time from a model without weights, and added
up; beside it the whole model, built and measured, before and after. Prints sum over whole.

    python studies/benchmarks/block_sum.py [--seconds 1.0]
"""

import argparse
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

import headtune
from headtune import LatencyProtocol
from headtune.timing.prediction import sum_blocks

try:
    from transformers import LlamaConfig, LlamaForCausalLM
except ModuleNotFoundError:
    sys.exit("pip install 'headtune[hf]'")

LENGTH, WIDTH, LAYERS = 128, 256, 6


def encoder() -> nn.Module:
    """Six layers of PyTorch's."""
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def llama() -> nn.Module:
    """Six layers with grouped heads."""
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=2,
    )
    model: nn.Module = LlamaForCausalLM(config)
    return model


def features(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random vectors."""
    return (torch.randn(batch_size, seq_len or LENGTH, WIDTH),)


def tokens(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
    """Random tokens."""
    return (torch.randint(1000, (batch_size, seq_len or LENGTH)),)


def compare(
    name: str, build: Callable[[], nn.Module], inputs: Callable[[int, int | None], tuple[Tensor]], seconds: float
) -> None:
    """Sum and whole, in turn."""
    protocol = LatencyProtocol(device="cpu", threads=1, batch_size=2, seq_len=LENGTH, max_seconds=seconds)
    whole = build().eval()
    paths = [site.path for site in headtune.sites(whole, inputs(3, LENGTH))]
    with torch.device("meta"):
        sized = build()
    before = headtune.measure(whole, inputs, protocol)
    found = sum_blocks(sized, inputs, protocol, paths)
    after = headtune.measure(whole, inputs, protocol)
    print(f"{name}: {len(found.blocks)} unlike blocks, {sum(len(one.paths) for one in found.blocks)} in all")
    print(f"  sum / whole before {found.match(before)}, after {found.match(after)}")


def main() -> None:
    """Both models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    asked = parser.parse_args()
    compare("nn.TransformerEncoder", encoder, features, asked.seconds)
    compare("Llama", llama, tokens, asked.seconds)


if __name__ == "__main__":
    main()
