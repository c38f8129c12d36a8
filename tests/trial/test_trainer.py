import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from headtune.errors import InputError, MissingExtraError, StopTrial
from headtune.trial import Run, trainer_callback


class Channel:
    """What a study hears, and when it stops."""

    def __init__(self, stop_at: int) -> None:
        self.stop_at = stop_at
        self.heard: list[tuple[int, Mapping[str, float]]] = []

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self.heard.append((step, dict(metrics)))
        return step >= self.stop_at


def trained(folder: Path, channel: Channel, epochs: int) -> int:
    """Steps that a Trainer took under the callback, with one evaluation per epoch."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    rows = [{"input_ids": torch.tensor([1, 2, 3]), "labels": torch.tensor(n % 2)} for n in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        eval_strategy="epoch",
        per_device_train_batch_size=4,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    run = Run(epochs=epochs, seed=0, channel=channel)
    trainer = transformers.Trainer(
        transformers.BertForSequenceClassification(config),
        arguments,
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
        callbacks=[trainer_callback(run)],
    )
    try:
        trainer.train()
    finally:
        steps = trainer.state.global_step
    return int(steps)


def test_every_evaluation_is_a_report_of_the_qualities(tmp_path: Path) -> None:
    channel = Channel(stop_at=99)
    assert trained(tmp_path, channel, epochs=3) == 6
    assert [step for step, _ in channel.heard] == [1, 2, 3]
    assert {frozenset(metrics) for _, metrics in channel.heard} == {frozenset({"eval_loss", "eval_accuracy"})}
    assert all(0 <= metrics["eval_accuracy"] <= 1 for _, metrics in channel.heard)


def test_training_ends_after_the_evaluation_that_the_study_stops_at(tmp_path: Path) -> None:
    channel = Channel(stop_at=2)
    with pytest.raises(StopTrial, match="stopped by the study at report 2"):
        trained(tmp_path, channel, epochs=9)
    assert [step for step, _ in channel.heard] == [1, 2]


def test_without_transformers_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    with pytest.raises(MissingExtraError) as error:
        trainer_callback(Run(epochs=1))
    assert str(error.value) == (
        "trainer_callback: transformers is not imported; import transformers.Trainer first, "
        "or run pip install 'headtune[hf]'"
    )


def test_timings_are_no_qualities() -> None:
    pytest.importorskip("transformers")
    channel = Channel(stop_at=99)
    callback: Any = trainer_callback(Run(epochs=3, channel=channel))
    metrics = {"eval_loss": 0.5, "eval_runtime": 1.0, "eval_samples_per_second": 3.0, "epoch": 1.0}
    callback.on_evaluate(None, None, None, metrics=metrics)
    assert channel.heard == [(1, {"eval_loss": 0.5})]


@pytest.mark.parametrize("wrong", [None, 5, Run])
def test_only_a_run_is_taken(wrong: Any) -> None:
    with pytest.raises(InputError, match="trainer_callback: run must be the Run that a task's train is given"):
        trainer_callback(wrong)
