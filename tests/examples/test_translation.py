import gzip
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import sacrebleu
import torch
from torch import Tensor, nn

import headtune
from headtune.errors import MissingExtraError, TaskError
from headtune.trial.importing import import_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "translation.py"

WORDS = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four"}
"""A language of four words, translated word by word, in reverse order."""


@pytest.fixture(scope="module")
def translation() -> ModuleType:
    return import_file(EXAMPLE, "translation")


def sentences(count: int, seed: int) -> tuple[list[str], list[str]]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 5, (count,), generator=generator).tolist()
    german = list(WORDS)
    source = [[german[i] for i in torch.randint(4, (length,), generator=generator)] for length in lengths]
    return [" ".join(words) for words in source], [" ".join(WORDS[w] for w in reversed(words)) for words in source]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files plain, some gzipped, the test's with a year in its name."""
    path = tmp_path_factory.mktemp("texts")
    for seed, (split, count) in enumerate({"train": 512, "val": 20, "test_2030": 30}.items()):
        for language, text in zip(("de", "en"), sentences(count, seed), strict=True):
            data = "".join(f"{line}\n" for line in text).encode()
            if language == "de":
                (path / f"{split}.{language}.gz").write_bytes(gzip.compress(data))
            else:
                (path / f"{split}.{language}").write_bytes(data)
    return path


def small(translation: ModuleType, folder: Path, **args: object) -> headtune.Task:
    task: headtune.Task = translation.task(str(folder), max_len=8, d_model=32, heads=4, layers=1, **args)
    return task


@pytest.mark.parametrize(
    "sentence",
    ["Zwei Männer stehen am Herd.", "ein Hund-Katze-Spiel!", 'He said: "no" (twice).', "never seen: 你好 🙂"],
)
@pytest.mark.parametrize("pieces", [0, 300])
def test_what_is_written_is_read_back(translation: ModuleType, sentence: str, pieces: int) -> None:
    learnt = translation.tokenizer(["Zwei Männer", "ein Hund und ein Mann"], pieces)
    numbers = translation.encode(learnt, [sentence], 200)[0].tolist()
    assert translation.decode(learnt, numbers) == sentence


def test_what_is_frequent_is_one_piece(translation: ModuleType) -> None:
    learnt = translation.tokenizer(["one two", "one three"] * 3, 500)
    one, end = translation.encode(learnt, ["one"], 9)[0, :2].tolist()
    assert learnt.id_to_token(one) == "Ġone"
    assert end == translation.END


def test_every_learning_gives_the_same_pieces(translation: ModuleType) -> None:
    source, _ = sentences(50, 0)
    assert translation.tokenizer(source, 290).to_str() == translation.tokenizer(source, 290).to_str()


def test_text_after_the_end_is_not_read(translation: ModuleType) -> None:
    learnt = translation.tokenizer(["one two"] * 3, 500)
    one, two = (learnt.token_to_id(f"Ġ{word}") for word in ("one", "two"))
    assert translation.decode(learnt, [one, translation.END, two]) == "one"
    assert translation.decode(learnt, [one, two]) == "one two"


def test_sentences_are_cut_or_padded(translation: ModuleType) -> None:
    learnt = translation.tokenizer(["one two"] * 3, 500)
    one, two = (learnt.token_to_id(f"Ġ{word}") for word in ("one", "two"))
    table = translation.encode(learnt, ["one", "one two one two"], 3)
    assert table.tolist() == [[one, translation.END, translation.PAD], [one, two, one]]
    assert translation.trimmed(table[:1]).tolist() == [[one, translation.END]]


def test_the_corpus_is_what_the_files_hold(translation: ModuleType, folder: Path) -> None:
    most = {"train": 100, "val": 5, "test": None}
    corpus = translation.Corpus(folder, ("de", "en"), most, pieces=300, max_len=8)
    assert [len(pairs.source) for pairs in (corpus.train, corpus.val, corpus.test)] == [100, 5, 30]
    assert corpus.test.written == sentences(30, 2)[1]
    source, target = sentences(512, 0)
    for learnt, numbers, written in (
        (corpus.source, corpus.train.source, source),
        (corpus.target, corpus.train.target, target),
    ):
        assert [translation.decode(learnt, row) for row in numbers.tolist()] == written[:100]


def test_words_of_the_test_are_not_learnt(translation: ModuleType, tmp_path: Path) -> None:
    for split, text in {"train": "aa ab", "val": "ba", "test": "bb"}.items():
        for language in ("de", "en"):
            (tmp_path / f"{split}.{language}").write_text(f"{text}\n" * 3)
    corpus = translation.Corpus(tmp_path, ("de", "en"), dict.fromkeys(("train", "val", "test")), pieces=500, max_len=8)
    assert {piece for piece in corpus.source.get_vocab() if piece.startswith("Ġ") and len(piece) == 3} == {"Ġaa", "Ġab"}


def test_a_folder_without_the_files(translation: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "train.de").touch()
    with pytest.raises(TaskError) as caught:
        translation.task(str(tmp_path))
    assert str(caught.value) == (
        f"translation: {tmp_path} lacks train*.en, val*.de, val*.en, test*.de, test*.en, plain or .gz"
    )


def test_texts_that_do_not_go_in_pairs(translation: ModuleType, tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / f"{split}.de").write_text("eins\nzwei\n" if split == "val" else "eins\n")
        (tmp_path / f"{split}.en").write_text("one\n")
    with pytest.raises(TaskError) as caught:
        translation.task(str(tmp_path))
    assert str(caught.value) == "translation: val has 2 lines beside 1; they go in pairs"


def test_no_folder_at_all(translation: ModuleType) -> None:
    with pytest.raises(TaskError) as caught:
        translation.task()
    assert str(caught.value) == "translation needs a folder of parallel texts: --set task_args.data=PATH"


@pytest.mark.parametrize("missing", ["sacrebleu", "tokenizers"])
def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    source = compile(EXAMPLE.read_text(), str(EXAMPLE), "exec")
    with pytest.raises(MissingExtraError) as caught:
        exec(source, {"__name__": "translation_without_sacrebleu"})
    assert str(caught.value) == "translation needs sacrebleu and tokenizers: pip install 'headtune[translation]'"


@pytest.fixture
def translator(translation: ModuleType) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = translation.Translator((20, 30), 16, 4, 1, 12)
    return model


def texts(*shape: int, most: int = 20) -> Tensor:
    return torch.randint(4, most, shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("training", [True, False])
def test_the_targets_future_does_not_reach_its_past(translator: nn.Module, training: bool) -> None:
    translator.train(training)
    source, a = texts(2, 6), texts(2, 9)
    b = a.clone()
    b[:, 5:] = 4 + (b[:, 5:] - 3) % 16
    with torch.no_grad():
        x, y = translator(source, a), translator(source, b)
    assert torch.equal(x[:, :5], y[:, :5])
    assert (x[:, 5:] != y[:, 5:]).any(-1).all()


@pytest.mark.parametrize("training", [True, False])
def test_every_piece_of_the_source_reaches_the_target(translator: nn.Module, training: bool) -> None:
    translator.train(training)
    source, target = texts(1, 6), texts(1, 4)
    with torch.no_grad():
        before = translator(source, target)
        for position in range(6):
            other = source.clone()
            other[0, position] = 4 + (other[0, position] - 3) % 16
            assert (translator(other, target) != before).any(-1).all()


@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing(translator: nn.Module, translation: ModuleType, training: bool) -> None:
    translator.train(training)
    source, target = texts(2, 6), texts(2, 4)
    padded = nn.functional.pad(source, (0, 3), value=translation.PAD)
    padded[0, 6:] = texts(3)  # the other sentence of the batch is longer
    with torch.no_grad():
        alone, beside = translator(source[1:], target[1:]), translator(padded, target)[1:]
    # Float32 sums over another number of (masked) terms.
    torch.testing.assert_close(beside, alone, rtol=1e-4, atol=1e-5)


def test_translating_is_greedy(translator: nn.Module, translation: ModuleType) -> None:
    translator.eval()
    source = texts(3, 6)
    said = translator.translate(source)  # type: ignore[operator]
    assert said.shape[1] <= 11
    with torch.no_grad():
        given = nn.functional.pad(said[:, :-1], (1, 0), value=translation.START)
        assert torch.equal(translator(source, given).argmax(-1), said)


def test_translating_ends_when_every_sentence_has_ended(translator: nn.Module, translation: ModuleType) -> None:
    with torch.no_grad():
        translator.piece.bias[translation.END] = 1e3  # type: ignore[index, union-attr, operator]
    assert translator.eval().translate(texts(3, 6)).tolist() == [[translation.END]] * 3  # type: ignore[operator]


def test_the_loss_predicts_each_piece_from_those_before(translation: ModuleType) -> None:
    target = torch.tensor([[5, 6, translation.END, translation.PAD]])
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, source: Tensor, given: Tensor) -> Tensor:
            seen.append(given)
            return torch.zeros(*given.shape, 7)

    assert translation.loss(Spy(), (target, target)).item() == pytest.approx(torch.log(torch.tensor(7.0)).item())
    assert seen[0].tolist() == [[translation.START, 5, 6, translation.END]]


def test_batches_hold_every_pair_once_and_little_padding(translation: ModuleType, folder: Path) -> None:
    corpus = translation.Corpus(folder, ("de", "en"), dict.fromkeys(("train", "val", "test")), pieces=300, max_len=8)
    torch.manual_seed(0)
    first, second = translation.batches(corpus.train), translation.batches(corpus.train)
    rows = [(source, target) for batch in first for source, target in zip(*batch, strict=True)]
    read = translation.decode
    pairs = [(read(corpus.source, x.tolist()), read(corpus.target, y.tolist())) for x, y in rows]
    assert Counter(pairs) == Counter(zip(*sentences(512, 0), strict=True))
    assert not all(torch.equal(a[0], b[0]) for a, b in zip(first, second, strict=True))
    padding = sum(int((x == translation.PAD).sum()) for x, _ in first)
    assert padding < 0.25 * int((corpus.train.source == translation.PAD).sum())


def test_bleu_of_the_references_themselves_is_100(
    translation: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = translation.Corpus(folder, ("de", "en"), dict.fromkeys(("train", "val", "test")), pieces=300, max_len=8)
    model = translation.Translator((20, 20), 16, 4, 1, 8)
    said = corpus.test.target
    monkeypatch.setattr(translation.Translator, "translate", lambda self, source: said)
    assert translation.bleu(model, corpus.test, corpus.target) == pytest.approx(100.0)
    said = said.roll(1, 0)
    wrong = [translation.decode(corpus.target, row) for row in said.tolist()]
    expected = sacrebleu.corpus_bleu(wrong, [corpus.test.written]).score
    assert translation.bleu(model, corpus.test, corpus.target) == pytest.approx(expected)
    assert expected < 60


def test_the_task_keeps_its_contract(translation: ModuleType, folder: Path) -> None:
    task = small(translation, folder)
    model = task.model()
    source, target = task.inputs(3, 5)
    assert model(source, target).shape[:2] == (3, 5)
    assert source.min() > translation.END
    assert [tuple(x.shape) for x in task.inputs(2, None)] == [(2, 8), (2, 8)]
    assert [(site.role, site.num_heads) for site in headtune.sites(model, task.inputs(3, 5))] == [
        ("self", 4),
        ("causal", 4),
        ("cross", 4),
    ]


def test_it_learns_to_translate_and_to_turn_around(translation: ModuleType, folder: Path) -> None:
    task = small(translation, folder)
    torch.manual_seed(0)
    model = task.model()
    assert task.train is not None
    assert task.test is not None
    assert task.test(model)["test_bleu"] < 20
    task.train(model, headtune.Run(epochs=40, device="cpu"))
    assert task.test(model)["test_bleu"] > 80
