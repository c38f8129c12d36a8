"""A recommender of each user's next item: causal self-attention over the items that the user had (SASRec).

Alone:       python examples/next_item.py FILE
In a study:  headtune search studies/next_item.yaml --set task_args.data=FILE

FILE holds lines of a user and an item, each user's in the order of time, plain or .gz. Each user's last item is held
out to judge by, the one before it to steer by. Quality is NDCG and hit rate at 10 among all items that the user has not
had. That is what a recommender does; ranks among 100 random items, which many papers give, can order models otherwise
(Krichene and Rendle, On sampled metrics for item recommendation, 2020). They stand beside it in the test, to compare.

References: Kang and McAuley, Self-attentive sequential recommendation, 2018, https://arxiv.org/abs/1808.09781
"""

import gzip
import random
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import headtune
from headtune.errors import TaskError

PAD = 0  # after a user's items, which are numbered from 1
TOP = 10  # of a list that a user is shown
DRAWN = 100  # items that the held-out one is ranked among in many papers
TARGETS = 1024  # about as many items to predict in a batch
CHUNK = 256  # users ranked at once


class CausalSelfAttention(nn.Module):
    """Each item attends to itself and to those before it."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        """Return what each item gathered, (B, T, C)."""
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        gathered = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, D)
        y: Tensor = self.proj(gathered.transpose(1, 2).flatten(2))
        return y


class Block(nn.Module):
    """Attention between items, then a perceptron on each."""

    def __init__(self, d_model: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, num_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (B, T, C)
        """Return the refined items, (B, T, C)."""
        x = x + self.dropout(self.attn(self.norm1(x)))
        y: Tensor = x + self.dropout(self.mlp(self.norm2(x)))
        return y


class SASRec(nn.Module):
    """What users had, in the order of time, to scores of what they take next."""

    def __init__(self, items: int, context: int, d_model: int, heads: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.item = nn.Embedding(1 + items, d_model)
        self.position = nn.Embedding(context, d_model)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(d_model, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(d_model)
        for table in (self.item, self.position):
            nn.init.normal_(table.weight, std=d_model**-0.5 / 2)

    def forward(self, history: Tensor, candidates: Tensor | None = None) -> Tensor:  # (B, T), (N,)
        """Score what comes next.

        Args:
            history: each user's items, then PAD; as attention is causal, no item sees a PAD.
            candidates: item numbers.

        Returns:
            The scores of every item number after each user's last item, (B, 1 + items), which is what a recommender
            serves; given *candidates*, their scores after each item of the histories, (items in history, N): what it
            learns from.
        """
        x = self.dropout(self.item(history) + self.position.weight[: history.shape[1]])
        states = self.norm(self.blocks(x))  # (B, T, C)
        if candidates is not None:
            among: Tensor = states[history != PAD] @ self.item(candidates).T
            return among
        last = (history != PAD).sum(1) - 1
        scores: Tensor = states[torch.arange(len(last), device=last.device), last] @ self.item.weight.T
        return scores


@dataclass(frozen=True)
class HeldOut:
    """Items held out, each its user's next one, (N,), and what stands beside each, (N, …), padded.

    Attributes:
        item: what was held out.
        before: all that the user had.
        history: the latest of these, at most as many as the model sees.
        drawn: DRAWN random others, or as many as there are.
    """

    item: Tensor
    before: Tensor
    history: Tensor
    drawn: Tensor

    @classmethod
    def of(cls, sequences: list[list[int]], items: int, context: int) -> "HeldOut":
        """The last of each sequence is held out; *items* is how many there are."""
        draw = random.Random(0)
        before, drawn = [], []
        for sequence in sequences:
            before.append(torch.tensor(sequence[:-1]))
            several = draw.sample(range(1, 1 + items), min(items, DRAWN + len(sequence)))
            had = set(sequence)
            drawn.append(torch.tensor([item for item in several if item not in had][:DRAWN], dtype=torch.long))
        return cls(
            item=torch.tensor([sequence[-1] for sequence in sequences]),
            before=pad_sequence(before, batch_first=True),
            history=pad_sequence([items[-context:] for items in before], batch_first=True),
            drawn=pad_sequence(drawn, batch_first=True),
        )


class Purchases:
    """Sequences to train on, (N, at most 1 + context), and what was held out of *judged* users, or of all."""

    def __init__(self, users: list[list[int]], context: int, judged: int | None) -> None:
        self.items = max(max(sequence) for sequence in users)
        seen = [torch.tensor(sequence[:-2] if len(sequence) > 2 else sequence) for sequence in users]
        self.train = pad_sequence(
            [sequence[-1 - context :] for sequence in seen if len(sequence) > 1], batch_first=True
        )
        whole = [sequence for sequence in users if len(sequence) > 2]
        if judged is not None and judged < len(whole):
            whole = random.Random(0).sample(whole, judged)
        whole.sort(key=len)  # beside others of its length, a history is little padded
        self.val = HeldOut.of([sequence[:-1] for sequence in whole], self.items, context)
        self.test = HeldOut.of(whole, self.items, context)


def read(path: Path) -> list[list[int]]:
    """Each user's items, numbered from 1 as they first appear."""
    if not path.is_file():
        raise TaskError(f"next_item: there is no file {path}; give purchases by --set task_args.data=FILE")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = [line.split() for line in data.decode().split("\n")]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TaskError(f"next_item: {path} cannot be read as text: {error}") from error
    wrong = [f"line {n} is {' '.join(words)[:60]!r}" for n, words in enumerate(lines, 1) if len(words) not in (0, 2)]
    if wrong:
        shown = "; ".join(wrong[:3]) + (f"; and {len(wrong) - 3} more" if len(wrong) > 3 else "")
        raise TaskError(f"next_item: {path} must hold a user and an item in each line, but {shown}")
    numbers: dict[str, int] = {}
    users: dict[str, list[int]] = {}
    for user, item in filter(None, lines):
        users.setdefault(user, []).append(numbers.setdefault(item, 1 + len(numbers)))
    if max(map(len, users.values()), default=0) < 4:
        raise TaskError(
            f"next_item: no user of {path} has 4 items, which it takes: 2 to learn from, 1 to steer by, 1 to judge by"
        )
    return list(users.values())


Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""Histories, (B, T); candidates, (N,), and the logarithm of how probable each was, (N,); which comes next after each
item of the histories, as its place among the candidates."""


def batches(purchases: Purchases, negatives: int) -> list[Batch]:
    """Batches of about equally long sequences, in random order.

    Candidates are the items that come next anywhere in the batch, and *negatives* random ones.
    """
    sequences, items = purchases.train, purchases.items
    lengths = (sequences != PAD).sum(1) - 1
    share = torch.bincount(sequences[:, 1:].flatten(), minlength=1 + items) / lengths.sum()
    order = (lengths + 2 * torch.rand(len(lengths))).argsort()
    _, sizes = (lengths[order].cumsum(0) // TARGETS).unique_consecutive(return_counts=True)
    groups = order.split(sizes.tolist())
    made = []
    for place in torch.randperm(len(groups)).tolist():
        sequence = trimmed(sequences[groups[place]])
        following = sequence[:, 1:]
        targets = following[following != PAD]
        drawn = torch.randint(1, 1 + items, (negatives,))
        candidates, places = torch.cat([targets, drawn]).unique(return_inverse=True)
        expected = len(targets) * share[candidates] + negatives / items  # how often each is there: about Poisson
        log_q = expected.neg().expm1().neg().log()
        made.append((sequence[:, :-1] * (following != PAD), candidates, log_q, places[: len(targets)]))
    return made


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """Cross-entropy of the next item among the candidates, in place of all items (sampled softmax).

    What is often a candidate counts less each time, by log Q (Yi et al., Sampling-bias-corrected neural modeling for
    large corpus item recommendations, 2019).
    """
    history, candidates, log_q, following = batch
    return F.cross_entropy(model(history, candidates) - log_q, following)


def trimmed(rows: Tensor) -> Tensor:
    """Without the columns that only pad."""
    return rows[:, : int((rows != PAD).sum(1).max())]


@torch.no_grad()
def ranks(model: nn.Module, held: HeldOut) -> tuple[Tensor, Tensor]:
    """How many items score at least as high as each held-out one: of all new to its user, and of those drawn, (N,)."""
    model.eval()
    device = next(model.parameters()).device
    among_all, among_drawn = [], []
    for rows in torch.arange(len(held.item)).split(CHUNK):
        scores = model(trimmed(held.history[rows]).to(device)).cpu()
        item = held.item[rows, None]
        ahead = ~(scores < scores.gather(1, item))  # so that what is not a number helps nobody
        ahead.scatter_(1, torch.cat([held.before[rows], item, torch.full_like(item, PAD)], 1), False)
        among_all.append(ahead.sum(1))
        among_drawn.append(ahead.gather(1, held.drawn[rows]).sum(1))
    return torch.cat(among_all), torch.cat(among_drawn)


def quality(split: str, rank: Tensor) -> dict[str, float]:
    """Normalised discounted cumulative gain and hit rate of lists of TOP, each with one item that is right."""
    shown = (rank < TOP).double()
    return {
        f"{split}_ndcg{TOP}": (shown / (rank + 2.0).log2()).mean().item(),
        f"{split}_hr{TOP}": shown.mean().item(),
    }


def task(
    data: str | None = None,
    users: int | None = 3000,
    context: int = 50,
    d_model: int = 64,
    heads: int = 1,
    layers: int = 2,
    dropout: float = 0.2,
    negatives: int = 512,
    lr: float = 3e-3,
) -> headtune.Task:
    """The recommender of what stands in the file *data*.

    It learns from all users, and is steered and judged by the same *users* of them, drawn at random (null: by all). The
    model sees the latest *context* items; *negatives* random items are candidates in each batch.
    """
    sizes = {"users": 1 if users is None else users, "context": context, "d_model": d_model, "heads": heads}
    sizes |= {"layers": layers, "negatives": negatives}
    problems = [
        f"{name} must be a whole number from 1, got {size!r}"
        for name, size in sizes.items()
        if type(size) is not int or size < 1
    ]
    if not problems and d_model % heads:
        problems.append(f"d_model must be a multiple of heads, got {d_model} and {heads}")
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        problems.append(f"dropout must be a number from 0 to below 1, got {dropout!r}")
    if data is None:
        problems.append("data must be a file of purchases: --set task_args.data=FILE")
    if problems or data is None:
        raise TaskError(*(f"next_item: {problem}" for problem in problems))
    purchases = Purchases(read(Path(data)), context, users)

    def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor]:
        if (seq_len or context) > context:
            raise TaskError(f"next_item: seq_len must be at most context, which is {context}; got {seq_len}")
        return (torch.randint(1, 1 + purchases.items, (batch_size, seq_len or context)),)

    def test(model: nn.Module) -> dict[str, float]:
        among_all, among_drawn = ranks(model, purchases.test)
        return quality("test", among_all) | quality("test_sampled", among_drawn)

    return headtune.Supervised(
        model=lambda: SASRec(purchases.items, context, d_model, heads, layers, dropout),
        inputs=inputs,
        batches=lambda: batches(purchases, negatives),
        loss=loss,
        evaluate=lambda model: quality("val", ranks(model, purchases.val)[0]),
        test=test,
        monitor=f"val_ndcg{TOP}",
        mode="max",
        lr=lr,
    )


def main(data: str | None) -> None:
    """Train once."""
    torch.manual_seed(0)
    alone = task(data)
    assert alone.train is not None
    assert alone.test is not None
    model = alone.model()
    alone.train(model, headtune.Run(epochs=10))
    print(alone.test(model))


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
    except TaskError as error:
        sys.exit(str(error))
