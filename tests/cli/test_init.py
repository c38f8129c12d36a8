import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headtune.cli.init import STARTER, write_starter
from headtune.config import load_study
from headtune.errors import StorageError
from headtune.trial import Task

Run = Callable[..., tuple[int, str, str]]


def test_it_writes_a_study_and_says_what_to_do_next(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "study"
    assert run("init", folder) == (
        0,
        f"wrote {folder / 'study.yaml'}\nwrote {folder / 'train.py'}\n",
        f"next: headtune check {folder / 'study.yaml'}, then headtune search {folder / 'study.yaml'}\n",
    )
    assert sorted(path.name for path in folder.iterdir()) == sorted(STARTER)


def test_it_writes_into_the_current_folder_by_default(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("init")
    assert (code, out) == (0, "wrote study.yaml\nwrote train.py\n")


def test_it_overwrites_nothing_and_names_all_that_is_there(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path)
    (tmp_path / "train.py").write_text("mine")
    assert run("init", tmp_path) == (
        2,
        "",
        f"error: {tmp_path / 'study.yaml'}: is there already; name another folder, or move it away\n"
        f"error: {tmp_path / 'train.py'}: is there already; name another folder, or move it away\n",
    )
    assert (tmp_path / "train.py").read_text() == "mine"


def test_where_one_file_is_there_the_other_is_not_written_either(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine")
    with pytest.raises(StorageError):
        write_starter(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_folder_that_cannot_be_made(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run("init", tmp_path / "file" / "x") == (
        2,
        "",
        f"error: {tmp_path / 'file' / 'x'}: cannot be written (Not a directory); name another folder\n",
    )


def test_what_it_writes_is_a_study_of_a_task(tmp_path: Path) -> None:
    write_starter(tmp_path)
    spec = load_study(tmp_path / "study.yaml")
    task = spec.task.load()
    assert isinstance(task, Task)
    assert None not in (task.train, task.evaluate, task.test)
    assert spec.output == tmp_path / "runs" / "my-study"


def test_every_comment_of_the_study_that_shows_a_setting_is_a_setting(tmp_path: Path) -> None:
    write_starter(tmp_path)
    path = tmp_path / "study.yaml"
    text = path.read_text()
    for shown in ("params:", "  lr:", "constraints:", "  latency_ms:"):
        assert f"# {shown}" in text
        text = text.replace(f"# {shown}", shown)
    path.write_text(text)
    spec = load_study(path)
    assert spec.params.keys() == {"lr"}
    assert [str(limit) for limit in spec.limits] == ["latency_ms ≤ 1.2 × present"]
    assert load_study(path, ["resources={executor: inline}"]).executor == "inline"


def test_the_study_checks_and_the_present_plan_learns(run: Run, tmp_path: Path) -> None:
    write_starter(tmp_path)
    code, out, err = run("check", tmp_path / "study.yaml")
    assert (code, "This study can run." in out) == (0, True), err
    assert "36 legal plans" in out


@pytest.mark.slow
def test_the_training_file_runs_alone_and_learns(tmp_path: Path) -> None:
    write_starter(tmp_path)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads of a busy machine would wait for one another
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=one_thread, capture_output=True, text=True, check=True
    )
    last = (done.stdout + done.stderr).strip().splitlines()[-1]
    accuracy = float(last.split()[-1])
    assert accuracy > 0.5, "ten digits: chance is 0.1; four epochs reach about 0.75"
