import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import headtune
from headtune.errors import MissingExtraError, StopTrial
from headtune.trial.importing import import_file
from headtune.trial.messages import Measurement

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

EXAMPLE = Path(__file__).parents[2] / "examples" / "hf_trainer.py"


@pytest.fixture(scope="module")
def hf_trainer() -> ModuleType:
    return import_file(EXAMPLE, "hf_trainer")


@pytest.fixture
def quick(hf_trainer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    whole = hf_trainer.Sequences
    monkeypatch.setattr(hf_trainer, "Sequences", lambda count, seed: whole(min(count, 1024), seed))
    return hf_trainer


class Channel:
    """Hears reports, and stops at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.heard: list[dict[str, float]] = []
        self._stop_at = stop_at

    def measured(self, measurement: Measurement) -> None:
        raise AssertionError("a training measures nothing")

    def report(self, step: int, metrics: Any) -> bool:
        self.heard.append(dict(metrics))
        return step == self._stop_at


def test_the_labels_are_what_they_say(hf_trainer: ModuleType) -> None:
    data = hf_trainer.Sequences(200, seed=3)
    for index in range(200):
        large = sum(token >= 6 for token in data[index]["input_ids"].tolist())
        assert data[index]["labels"].item() == int(large > 4)
    assert torch.equal(data.tokens, hf_trainer.Sequences(200, seed=3).tokens)
    assert not torch.equal(data.tokens, hf_trainer.Sequences(200, seed=4).tokens)
    assert 0.4 < data.labels.float().mean() < 0.6


def test_every_evaluation_is_a_report(quick: ModuleType) -> None:
    torch.manual_seed(0)
    channel = Channel()
    model = quick.build_model()
    quick.train(model, headtune.Run(epochs=4, channel=channel, device="cpu"))
    assert [metrics.keys() for metrics in channel.heard] == [{"eval_loss", "eval_accuracy"}] * 4
    assert channel.heard[-1]["eval_accuracy"] > 0.8  # guessing gives 0.5


def test_it_stops_when_the_study_says_so(quick: ModuleType) -> None:
    channel = Channel(stop_at=1)
    with pytest.raises(StopTrial):
        quick.train(quick.build_model(), headtune.Run(epochs=5, channel=channel, device="cpu"))
    assert len(channel.heard) == 1


def test_the_task_takes_plans(quick: ModuleType) -> None:
    task = quick.task()
    model, inputs = task.model(), task.inputs(3, None)
    sites = headtune.sites(model, inputs)
    assert [(site.num_heads, site.head_dim) for site in sites] == [(4, 8), (4, 8)]
    plan = headtune.HeadPlan.parse("*=2", sites, hold="width")
    small = headtune.apply(model, plan, inputs)
    task.train(small, headtune.Run(epochs=1, device="cpu"))
    assert 0 <= task.test(small)["test_accuracy"] <= 1


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    source = compile(EXAMPLE.read_text(), EXAMPLE, "exec")
    with pytest.raises(MissingExtraError) as caught:
        exec(source, {"__name__": "hf_trainer_without_transformers"})
    assert str(caught.value) == "hf_trainer needs transformers: pip install 'headtune[hf]'"


@pytest.mark.slow
def test_it_runs_alone() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], check=True, capture_output=True, text=True, timeout=600)
    assert float(done.stdout.removeprefix("test accuracy: ")) > 0.95
