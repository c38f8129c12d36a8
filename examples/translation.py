"""A translator (nn.Transformer) learnt from two parallel texts.

Alone:       python examples/translation.py FOLDER
In a study:  headtune search studies/translation.yaml --set task_args.data=FOLDER

FOLDER holds train*.LANGUAGE, val*.LANGUAGE and test*.LANGUAGE for both languages, one sentence a line, plain or .gz.
"""

import gzip
import io
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headtune
from headtune.errors import MissingExtraError, TaskError

try:
    import sacrebleu
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "translation needs sacrebleu and tokenizers: pip install 'headtune[translation]'"
    ) from error

SPECIAL = ["<pad>", "<start>", "<end>"]
PAD, START, END = range(len(SPECIAL))
BATCH = 64

warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")  # nn.TransformerEncoder uses them unasked


def tokenizer(sentences: Iterable[str], pieces: int) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al., 2016) of *pieces* pieces: any text can be written and read back."""
    learnt = Tokenizer(models.BPE())
    learnt.pre_tokenizer = pre_tokenizers.ByteLevel()
    learnt.decoder = decoders.ByteLevel()
    end = SPECIAL[END]
    learnt.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, END)])
    letters = pre_tokenizers.ByteLevel.alphabet()
    learnt.train_from_iterator(
        sentences,
        trainers.BpeTrainer(vocab_size=pieces, special_tokens=SPECIAL, initial_alphabet=letters, show_progress=False),
    )
    return learnt


def encode(learnt: Tokenizer, sentences: Sequence[str], max_len: int) -> Tensor:
    """All *sentences* as numbers, cut or padded to (N, max_len)."""
    rows = [encoded.ids[:max_len] for encoded in learnt.encode_batch(sentences)]
    return torch.tensor([row + [PAD] * (max_len - len(row)) for row in rows])


def decode(learnt: Tokenizer, numbers: Sequence[int]) -> str:
    """The sentence that *numbers* spell, up to the first END."""
    end = numbers.index(END) if END in numbers else len(numbers)
    sentence: str = learnt.decode(numbers[:end])
    return sentence.strip()


def find(folder: Path, split: str, language: str) -> Path | None:
    """The first file of *folder*, by name, that fits."""
    fitting = [file for file in folder.glob(f"{split}*") if file.name.removesuffix(".gz").endswith(f".{language}")]
    return min(fitting, default=None)


def read(file: Path, most: int | None) -> list[str]:
    """The first *most* lines of a plain or gzipped file."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return [line.rstrip("\n") for line in islice(io.StringIO(data.decode(), newline=None), most)]


@dataclass(frozen=True)
class Pairs:
    """Sentences in two languages: their numbers, (N, max_len) each, and the target as it was written."""

    source: Tensor
    target: Tensor
    written: list[str]


class Corpus:
    """Pairs to train on, to steer by and to judge by; both languages' pieces are learnt from the first alone."""

    def __init__(
        self, folder: Path, languages: tuple[str, str], most: dict[str, int | None], pieces: int, max_len: int
    ) -> None:
        """Read at most ``most[split]`` pairs of each split."""
        files = {(split, language): find(folder, split, language) for split in most for language in languages}
        missing = [f"{split}*.{language}" for (split, language), file in files.items() if file is None]
        if missing:
            raise TaskError(f"translation: {folder} lacks {', '.join(missing)}, plain or .gz")
        texts = {key: read(file, most[key[0]]) for key, file in files.items() if file is not None}
        self.source, self.target = (tokenizer(texts["train", language], pieces) for language in languages)

        def pairs(split: str) -> Pairs:
            source, target = (texts[split, language] for language in languages)
            if len(source) != len(target):
                raise TaskError(f"translation: {split} has {len(source)} lines beside {len(target)}; they go in pairs")
            return Pairs(encode(self.source, source, max_len), encode(self.target, target, max_len), target)

        self.train, self.val, self.test = pairs("train"), pairs("val"), pairs("test")


class Translator(nn.Module):
    """The source, and the target so far, to the logits of the target's next pieces."""

    def __init__(self, sizes: tuple[int, int], d_model: int, heads: int, layers: int, max_len: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.source = nn.Embedding(sizes[0], d_model)
        self.target = nn.Embedding(sizes[1], d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.transformer = nn.Transformer(d_model, heads, layers, layers, 2 * d_model, dropout=0.0, batch_first=True)
        self.piece = nn.Linear(d_model, sizes[1])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # (B, S), (B, T)
        """Return logits, (B, T, pieces)."""
        logits: Tensor = self.piece(self.decode(self.encode(source), source == PAD, target))
        return logits

    def encode(self, source: Tensor) -> Tensor:  # (B, S)
        """Read the source; return (B, S, C)."""
        x = self.source(source) + self.position.weight[: source.shape[1]]
        memory: Tensor = self.transformer.encoder(x, src_key_padding_mask=source == PAD)
        return memory

    def decode(self, memory: Tensor, pads: Tensor, target: Tensor) -> Tensor:  # (B, S, C), (B, S), (B, T)
        """Return what is known of each next piece, (B, T, C)."""
        x = self.target(target) + self.position.weight[: target.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=x.device)
        y: Tensor = self.transformer.decoder(x, memory, mask, tgt_is_causal=True, memory_key_padding_mask=pads)
        return y

    @torch.no_grad()
    def translate(self, source: Tensor) -> Tensor:  # (B, S)
        """Take the likeliest next piece until each sentence has its END; return (B, at most max_len)."""
        memory, pads = self.encode(source), source == PAD
        target = torch.full((len(source), 1), START, device=source.device)
        while target.shape[1] < self.max_len and not (target == END).any(1).all():
            logits = self.piece(self.decode(memory, pads, target)[:, -1])
            target = torch.cat([target, logits.argmax(1, keepdim=True)], 1)
        return target[:, 1:]


def trimmed(numbers: Tensor) -> Tensor:
    """Without the columns that only pad."""
    return numbers[:, : int((numbers != PAD).sum(1).max())]


def batches(pairs: Pairs) -> list[tuple[Tensor, Tensor]]:
    """Batches of about equally long sentences, in random order."""
    lengths = (pairs.source != PAD).sum(1) + (pairs.target != PAD).sum(1) + 2 * torch.rand(len(pairs.source))
    groups = lengths.argsort().split(BATCH)
    shuffled = [groups[i] for i in torch.randperm(len(groups))]
    return [(trimmed(pairs.source[rows]), trimmed(pairs.target[rows])) for rows in shuffled]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Cross-entropy of each piece of the target, given the source and the pieces before it."""
    source, target = batch
    logits = model(source, F.pad(target[:, :-1], (1, 0), value=START))
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1)


def bleu(model: nn.Module, pairs: Pairs, learnt: Tokenizer) -> float:
    """BLEU of greedy translations, 0 to 100."""
    assert isinstance(model, Translator)
    device = next(model.parameters()).device
    rows = [row for part in pairs.source.split(250) for row in model.translate(trimmed(part).to(device)).tolist()]
    return float(sacrebleu.corpus_bleu([decode(learnt, row) for row in rows], [pairs.written]).score)


def task(
    data: str | None = None,
    source: str = "de",
    target: str = "en",
    pairs: int | None = None,
    val_pairs: int = 250,
    pieces: int = 2000,
    max_len: int = 32,
    d_model: int = 128,
    heads: int = 8,
    layers: int = 2,
) -> headtune.Task:
    """The translator from *source* to *target*, as the files in the folder *data* name their languages.

    It learns from the first *pairs* pairs (all by default), is steered by the first *val_pairs*, judged by the whole
    test. Sentences are cut after *max_len* pieces; each language has *pieces* of them.
    """
    if data is None:
        raise TaskError("translation needs a folder of parallel texts: --set task_args.data=PATH")
    most = {"train": pairs, "val": val_pairs, "test": None}
    corpus = Corpus(Path(data), (source, target), most, pieces, max_len)
    sizes = (corpus.source.get_vocab_size(), corpus.target.get_vocab_size())

    def inputs(batch_size: int, seq_len: int | None) -> tuple[Tensor, Tensor]:
        text = torch.randint(len(SPECIAL), min(sizes), (2, batch_size, seq_len or max_len))
        return text[0], text[1]

    return headtune.Supervised(
        model=lambda: Translator(sizes, d_model, heads, layers, max_len),
        inputs=inputs,
        batches=lambda: batches(corpus.train),
        loss=loss,
        evaluate=lambda model: {"val_bleu": bleu(model, corpus.val, corpus.target)},
        test=lambda model: {"test_bleu": bleu(model, corpus.test, corpus.target)},
        monitor="val_bleu",
        mode="max",
        lr=2e-3,
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    translation = task(sys.argv[1] if len(sys.argv) > 1 else None)
    assert translation.train is not None
    assert translation.test is not None
    model = translation.model()
    translation.train(model, headtune.Run(epochs=5))
    print(translation.test(model))
