"""Trainings that pause and go on, in a study from end to end."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import headtune
from headtune.heads import SpaceOptions
from headtune.pareto import Objective
from headtune.search.surrogate import decision
from headtune.study import Study, VerifyOptions
from headtune.trial import Outcome

sys.path.append(str(Path(__file__).parents[1] / "tasks"))
from tiny import Summer, data, inputs, score

GOALS = (Objective(metric="quality", direction="maximize"), Objective(metric="parameters", direction="minimize"))
EPOCHS = 3


def batches() -> list[tuple[Tensor, Tensor]]:
    x, y = data(0)
    return [(x[rows], y[rows]) for rows in torch.randperm(len(y)).split(32)]


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, y = batch
    return ((model(x) - y) ** 2).mean()


def evaluate(model: nn.Module) -> dict[str, float]:
    return {"quality": score(model, 1)}


TASK = headtune.Supervised(
    model=lambda: Summer(2, 0.1),
    inputs=inputs,
    batches=batches,
    loss=loss,
    evaluate=evaluate,
    monitor="quality",
    mode="max",
)


def study(tmp_path: Path, **changes: object) -> Study:
    return Study(
        TASK,
        space=SpaceOptions(hold="head_dim", heads=[1, 2, 3, 4]),
        weights="fresh",
        objectives=GOALS,
        epochs=EPOCHS,
        storage=f"sqlite:///{tmp_path}/study.db",
        **{"output": tmp_path / "out", **changes},  # type: ignore[arg-type]
    )


@pytest.fixture(autouse=True)
def _pausing_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision, "BLIND", 1)


def test_a_paused_training_ends_as_if_it_had_never_paused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = VerifyOptions(top=1, seeds=0)
    record = study(tmp_path).run(trials=9, executor="inline", verify=once)
    said = capsys.readouterr().err
    whole = study(tmp_path, name="whole", stop_early=False).run(trials=16, executor="inline", verify=once)
    curves = {trial.plan: trial.curve for trial in whole.trials}
    assert len(curves) == 16
    searched = [trial for trial in record.trials if trial.kind == "search"]
    assert {trial.outcome for trial in searched} <= {Outcome.OK, Outcome.STOPPED, Outcome.SET_ASIDE}
    assert any(trial.outcome is Outcome.OK for trial in searched), "some went on"
    for trial in searched:
        assert trial.curve == curves[trial.plan][: len(trial.curve)]
        assert (
            len(trial.curve) == {Outcome.OK: 3, Outcome.STOPPED: 2, Outcome.SET_ASIDE: 0}[trial.outcome or Outcome.OK]
        )
    assert not (tmp_path / "out" / "checkpoints").exists(), "nobody goes on with them"
    assert "[9 of 9]" in said
    assert "[10 of 9]" not in said, "a trial that goes on is one trial"


def test_without_a_folder_to_keep_states_in_nothing_pauses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = study(tmp_path, output=None).run(trials=9, executor="inline", verify=VerifyOptions(top=1, seeds=0))
    assert "no training pauses, since none would go on from where it was" in capsys.readouterr().err
    assert {len(trial.curve) for trial in record.trials if trial.outcome is not Outcome.SET_ASIDE} <= {1, EPOCHS}
