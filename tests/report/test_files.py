import os
import stat
from pathlib import Path

import pytest

from headtune.errors import StorageError
from headtune.report.files import open_folder, write_whole


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    assert open_folder(tmp_path / "a" / "b").is_dir()
    assert open_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("x")
    with pytest.raises(StorageError) as caught:
        open_folder(tmp_path / "runs")
    assert str(caught.value) == (
        f"{tmp_path}/runs: the report cannot be written there (File exists); "
        "name a folder that you may write to with `output`"
    )


def test_a_folder_that_vanished_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        write_whole(tmp_path / "gone" / "trials.csv", b"x")
    assert str(caught.value) == (
        f"{tmp_path}/gone/trials.csv: the report cannot be written there (No such file or directory); "
        "name a folder that you may write to with `output`"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(StorageError, match="Permission denied"):
        write_whole(closed / "trials.csv", b"x")


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    assert write_whole(path, b"old") == path
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]


def test_new_files_obey_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = write_whole(tmp_path / "a.csv", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(StorageError, match="Is a directory"):
        write_whole(tmp_path / "a.csv", b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_whole(tmp_path / "a.csv", b"old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.csv"]
