from pathlib import Path

import pytest

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
    with written_whole(tmp_path, last="plan", stale=("model*",)) as unfinished:
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
        with written_whole(tmp_path, last="plan", stale=("*",)) as unfinished:
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
