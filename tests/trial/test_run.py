import math
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headtune.errors import Diverged, StopTrial, TaskError, TrialError
from headtune.trial.messages import Measurement
from headtune.trial.run import Run


class Recorder:
    """A channel that remembers its reports and says stop at one of them."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.reports: list[tuple[int, Mapping[str, float]]] = []
        self._stop_at = stop_at

    def measured(self, measurement: Measurement) -> None:
        raise AssertionError("a run measures nothing")

    def report(self, step: int, metrics: Mapping[str, float]) -> bool:
        self.reports.append((step, metrics))
        return step == self._stop_at


def test_what_it_was_given() -> None:
    run = Run(epochs=3, seed=5, params={"lr": 0.1}, device="cpu")
    assert (run.epochs, run.seed, run.params, run.device) == (3, 5, {"lr": 0.1}, torch.device("cpu"))
    assert (run.history, run.last) == ((), {})


def test_alone_it_takes_the_gpu_if_there_is_one() -> None:
    assert Run(epochs=1).device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert Run(epochs=1).params == {}


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({"epochs": 0}, ["Run: epochs: must be at least 1 (got 0)"]),
        ({"epochs": "3"}, ["Run: epochs: must be a whole number (got '3')"]),
        ({"epochs": None}, ["Run: epochs: must be a whole number (got None)"]),
        (
            {"epochs": 1, "device": ""},
            ["Run: device: must be a device that torch knows, such as cpu or cuda:0 (got '')"],
        ),
        (
            {"epochs": 1, "seed": 0.5, "device": "tpu", "params": 3, "folder": "runs"},
            [
                "Run: seed: must be a whole number (got 0.5)",
                "Run: device: must be a device that torch knows, such as cpu or cuda:0 (got 'tpu')",
                "Run: params: must be a mapping of names to values (got 3)",
                "Run: folder: must be a path (got 'runs')",
            ],
        ),
    ],
)
def test_what_has_no_meaning_is_refused(arguments: dict[str, Any], problems: list[str]) -> None:
    with pytest.raises(TaskError) as caught:
        Run(**arguments)
    assert list(caught.value.problems) == problems


def test_alone_each_report_is_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(epochs=2)
    run.report(val_accuracy=0.912345678, val_loss=2)
    run.report(val_accuracy=math.nan)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "report 1  val_accuracy 0.91235  val_loss 2\nreport 2  val_accuracy nan\n"


def test_steps_count_from_one(capsys: pytest.CaptureFixture[str]) -> None:
    channel = Recorder()
    run = Run(epochs=2, channel=channel)
    run.report(loss=3.0)
    run.report(loss=2.0, accuracy=0.5)
    assert channel.reports == [(1, {"loss": 3.0}), (2, {"loss": 2.0, "accuracy": 0.5})]
    assert run.history == ({"loss": 3.0}, {"loss": 2.0, "accuracy": 0.5})
    assert run.last == {"loss": 2.0, "accuracy": 0.5}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "value",
    [1, 1.0, True, np.float32(1), np.int64(1), np.array(1.0), torch.tensor(1), torch.tensor(1.0, dtype=torch.bfloat16)],
)
def test_anything_that_is_one_number_is_a_float(value: float) -> None:
    channel = Recorder()
    Run(epochs=1, channel=channel).report(loss=value)
    (_, metrics), *_ = channel.reports
    assert metrics == {"loss": 1.0}
    assert type(metrics["loss"]) is float


def test_a_tensor_that_needs_gradients_is_a_number_too() -> None:
    channel = Recorder()
    Run(epochs=1, channel=channel).report(loss=torch.tensor(1.5, requires_grad=True))
    assert channel.reports == [(1, {"loss": 1.5})]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0.5", "'0.5' (str)"),
        ([0.5], "an object of type list"),
        (None, "None"),
        (1j, "1j (complex)"),
        (torch.zeros(1), "a Tensor of shape (1,) and type torch.float32"),
        (torch.zeros((), dtype=torch.complex64), "a Tensor of shape () and type torch.complex64"),
        (np.zeros((2, 3)), "a ndarray of shape (2, 3) and type float64"),
    ],
)
def test_what_is_no_number_is_refused_by_its_name(value: float, said: str) -> None:
    channel = Recorder()
    with pytest.raises(TaskError) as caught:
        Run(epochs=1, channel=channel).report(good=1.0, bad=value)
    assert str(caught.value) == f"run.report: bad must be a number or a 0-d tensor, got {said}"
    assert channel.reports == []


def test_all_wrong_metrics_are_named_at_once() -> None:
    with pytest.raises(TaskError) as caught:
        Run(epochs=1).report(a="x", b=1.0, c="y")
    assert caught.value.problems == (
        "run.report: a must be a number or a 0-d tensor, got 'x' (str)",
        "run.report: c must be a number or a 0-d tensor, got 'y' (str)",
    )


def test_an_empty_report_is_refused() -> None:
    with pytest.raises(TaskError) as caught:
        Run(epochs=1).report()
    assert str(caught.value) == "run.report() was given no metric; name one, such as val_accuracy=…"


def test_stop_passes_the_persons_own_handler() -> None:
    run = Run(epochs=9, channel=Recorder(stop_at=2))
    seen = []
    with pytest.raises(StopTrial) as caught:  # noqa: PT012 -- the handler inside is what is tested
        for epoch in range(9):
            try:
                run.report(loss=1.0)
            except Exception:
                pytest.fail("StopTrial was swallowed")
            seen.append(epoch)
    assert seen == [0]
    assert type(caught.value) is StopTrial
    assert str(caught.value) == "stopped by the study at report 2"


@pytest.mark.parametrize(("value", "said"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_in_a_study_a_value_that_is_not_finite_ends_the_trial(value: float, said: str) -> None:
    channel = Recorder()
    run = Run(epochs=3, channel=channel)
    run.report(loss=1.0)
    with pytest.raises(Diverged) as caught:
        run.report(accuracy=0.5, loss=value)
    assert str(caught.value) == f"loss {said} after report 2: not finite"
    assert channel.reports == [(1, {"loss": 1.0})]


def test_finite_values_pass_the_check() -> None:
    Run(epochs=1).check_finite({"loss": 1e308, "accuracy": 0.0})


def test_a_state_comes_back_in_a_new_run(tmp_path: Path) -> None:
    Run(epochs=1, folder=tmp_path / "key").save({"weights": torch.arange(3.0), "epoch": 4, "more": {"a": [1, "x"]}})
    state = Run(epochs=1, folder=tmp_path / "key").restore()
    assert state is not None
    assert torch.equal(state.pop("weights"), torch.arange(3.0))
    assert state == {"epoch": 4, "more": {"a": [1, "x"]}}


def test_reports_count_on_after_a_restore(tmp_path: Path) -> None:
    first = Run(epochs=3, channel=Recorder(), folder=tmp_path)
    first.report(loss=3.0)
    first.report(loss=2.0)
    first.save({})
    first.report(loss=1.0)
    channel = Recorder()
    second = Run(epochs=3, channel=channel, folder=tmp_path)
    assert second.restore() == {}
    second.report(loss=1.5)
    assert channel.reports == [(3, {"loss": 1.5})]
    assert second.history == ({"loss": 3.0}, {"loss": 2.0}, {"loss": 1.5})


def test_random_draws_go_on_after_a_restore(tmp_path: Path) -> None:
    torch.manual_seed(0)
    run = Run(epochs=1, folder=tmp_path)
    run.save({})
    uninterrupted = torch.rand(4)
    torch.manual_seed(1)
    Run(epochs=1, folder=tmp_path).restore()
    assert torch.equal(torch.rand(4), uninterrupted)


def test_without_a_folder_nothing_is_kept() -> None:
    run = Run(epochs=1)
    run.save({"epoch": 1})
    run.clear()
    assert run.restore() is None


def test_a_run_that_never_saved_restores_nothing(tmp_path: Path) -> None:
    assert Run(epochs=1, folder=tmp_path / "never").restore() is None


def test_a_save_that_fails_leaves_the_state_before(tmp_path: Path) -> None:
    run = Run(epochs=1, folder=tmp_path)
    run.save({"epoch": 1})
    with pytest.raises(Exception, match="pickle"):
        run.save({"epoch": 2, "bad": lambda: None})
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert run.restore() == {"epoch": 1}


def test_a_kill_in_mid_write_leaves_the_state_before(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        import torch
        from headtune.trial.run import Run

        class Bomb:
            def __reduce__(self):
                os.kill(os.getpid(), signal.SIGKILL)

        run = Run(epochs=1, folder=Path(sys.argv[1]))
        run.save({"epoch": 1})
        run.save({"weights": torch.zeros(100_000), "bomb": Bomb()})
    """)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    run = Run(epochs=1, folder=tmp_path)
    assert run.restore() == {"epoch": 1}
    run.clear()
    assert not tmp_path.exists()


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(TrialError) as caught:
        Run(epochs=1, folder=tmp_path).restore()
    message = str(caught.value)
    assert message.startswith(f"the checkpoint {tmp_path / 'checkpoint.pt'} cannot be read (UnpicklingError: ")
    assert message.endswith("; delete it, and the trial starts anew")


def test_clear_deletes_what_was_saved_and_nothing_else(tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    for folder in (alone, shared):
        Run(epochs=1, folder=folder).save({})
    (shared / "notes.txt").touch()
    for folder in (alone, shared):
        Run(epochs=1, folder=folder).clear()
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "shared",
        "shared/notes.txt",
    ]


def test_two_processes_write_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / f"checkpoint.{os.getpid() + 1}.tmp").write_bytes(b"half a checkpoint of another process")
    run = Run(epochs=1, folder=tmp_path)
    run.save({"epoch": 1})
    assert run.restore() == {"epoch": 1}


def test_a_metric_may_be_called_like_an_argument_of_report() -> None:
    channel = Recorder()
    Run(epochs=1, channel=channel).report(self=1.0, metrics=2.0)
    assert channel.reports == [(1, {"self": 1.0, "metrics": 2.0})]


def test_a_forked_process_cannot_report_to_the_study() -> None:
    channel = Recorder()
    run = Run(epochs=1, channel=channel)
    child = os.fork()
    if child == 0:
        try:
            run.report(loss=1.0)
        except TaskError as error:
            os._exit(7 if "a process that train forked" in str(error) else 8)
        finally:
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_state_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    run = Run(epochs=1, folder=tmp_path / "kept")
    with pytest.raises(TaskError, match=r"^run.save cannot write the state \(.*\); keep tensors, numbers and text"):
        run.save({"schedule": lambda step: step})
    assert not (tmp_path / "kept").exists()
    run.save({"epoch": 1})
    with pytest.raises(TaskError):
        run.save({"schedule": lambda step: step})
    assert Run(epochs=1, folder=tmp_path / "kept").restore() == {"epoch": 1}, "what was kept before stays"
