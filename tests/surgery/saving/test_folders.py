import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headtune.errors import StorageError
from headtune.surgery.saving.folders import written_whole


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    with written_whole(tmp_path / "a" / "b", last="plan", stale=()) as unfinished:
        (unfinished / "plan").write_text("new")
        assert not (tmp_path / "a" / "b").exists()
    assert names(tmp_path / "a") == ["b"]
    assert names(tmp_path / "a" / "b") == ["plan"]


def test_files_of_the_model_before_go_and_others_stay(tmp_path: Path) -> None:
    for name in ("plan", "model-1", "model-2", "notes"):
        (tmp_path / name).write_text("old")
    with written_whole(tmp_path, last="plan", stale=("model-1", "model-2")) as unfinished:
        (unfinished / "plan").write_text("new")
        (unfinished / "model-1").write_text("new")
    assert {name: (tmp_path / name).read_text() for name in names(tmp_path)} == {
        "plan": "new",
        "model-1": "new",
        "notes": "old",
    }


def test_an_error_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "plan").write_text("old")

    def fail() -> None:
        with written_whole(tmp_path, last="plan", stale=("plan",)) as unfinished:
            (unfinished / "plan").write_text("new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "plan").read_text() == "old"
    assert names(tmp_path.parent).count(tmp_path.name) == 1
    assert not [name for name in names(tmp_path.parent) if name.endswith(".tmp")]


def test_a_crash_while_files_are_moved_leaves_no_folder_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan").write_text("old")

    def crash(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    def write() -> None:
        with written_whole(tmp_path, last="plan", stale=()) as unfinished:
            (unfinished / "plan").write_text("new")
            (unfinished / "model").write_text("new")
            monkeypatch.setattr(Path, "replace", crash)

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError) as caught,
        written_whole(tmp_path / "file" / "model", last="plan", stale=()),
    ):
        pass
    assert str(caught.value).startswith(f"{tmp_path / 'file' / 'model'}: the model cannot be written (")
    assert str(caught.value).endswith("; free space or choose another output")


def test_a_folder_in_the_way_is_seen_before_anything_is_touched(tmp_path: Path) -> None:
    for name in ("plan", "old"):
        (tmp_path / name).write_text("old")
    (tmp_path / "model").mkdir()

    def write() -> None:
        with written_whole(tmp_path, last="plan", stale=("old",)) as unfinished:
            for name in ("plan", "model"):
                (unfinished / name).write_text("new")

    with pytest.raises(StorageError) as caught:
        write()
    assert str(caught.value) == f"{tmp_path / 'model'} is a folder, and the model has a file of that name; move it away"
    assert names(tmp_path) == ["model", "old", "plan"]
    assert (tmp_path / "plan").read_text() == "old"


def test_what_killed_processes_left_goes_and_what_others_write_stays(tmp_path: Path) -> None:
    killed = "with written_whole(Path(sys.argv[1]), last='plan'): os.kill(os.getpid(), 9)"
    code = f"import os, sys; from pathlib import Path; from {written_whole.__module__} import written_whole\n{killed}"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "model[1]")], check=False)
    (left,) = names(tmp_path)
    running = left.split(".")
    running[-2] = str(os.getppid())
    (tmp_path / ".".join(running)).mkdir()
    with written_whole(tmp_path / "model[1]", last="plan") as unfinished:
        assert left not in names(tmp_path)
        assert {".".join(running), unfinished.name} == set(names(tmp_path))


def test_files_may_be_read_by_whoever_may_read_the_folder(tmp_path: Path) -> None:
    with written_whole(tmp_path / "model", last="plan") as unfinished:
        save_file({"a": torch.zeros(1)}, unfinished / "model.safetensors")
    (tmp_path / "usual").write_text("")
    assert (tmp_path / "model" / "model.safetensors").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_full_disk_is_an_error_in_words(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; from torch import nn\n"
        "from headtune.errors import StorageError; from headtune.surgery import save\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: save(nn.Linear(64, 64), sys.argv[1])\n"
        "except StorageError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True)
    assert done.stdout.startswith(f"{tmp_path / 'model'}: the model cannot be written ("), done.stderr
    assert names(tmp_path) == []
