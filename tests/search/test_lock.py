import os
import signal
import time
from pathlib import Path

import pytest

from headtune.errors import StorageError
from headtune.search.lock import FileLock, lock_path


def test_a_second_taker_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.take()
    assert not second.take()
    first.release()
    assert second.take()
    second.release()


def test_the_holder_says_who_it_is_until_it_lets_go(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    first.take()
    first.write("a longer name")
    first.write("me")
    assert second.read() == "me"
    first.release()
    first.release()
    assert second.read() == ""


def test_two_files_have_two_identities(tmp_path: Path) -> None:
    one, again, other = (FileLock(tmp_path / name) for name in ("one", "one", "other"))
    assert one.identity == again.identity != other.identity


def test_a_lock_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as caught:
        FileLock(tmp_path / "file" / "lock")
    assert str(caught.value) == (
        f"storage: the lock {tmp_path}/file/lock cannot be opened (File exists); choose a folder that can be written"
    )


def test_the_lock_dies_with_its_process_though_a_fork_of_it_lives(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    holder = os.fork()
    if holder == 0:
        lock = FileLock(tmp_path / "lock")
        lock.take()
        fork = os.fork()
        if fork == 0:
            time.sleep(60)
            os._exit(0)
        os.write(writing, fork.to_bytes(8, "big"))
        time.sleep(60)
        os._exit(0)
    fork = int.from_bytes(os.read(reading, 8), "big")
    mine = FileLock(tmp_path / "lock")
    try:
        assert not mine.take()
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        os.kill(fork, 0)
        assert mine.take()
    finally:
        mine.release()
        os.kill(fork, signal.SIGKILL)
        os.close(reading)
        os.close(writing)


def test_one_file_has_one_lock_however_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert lock_path(f"sqlite:///{tmp_path}/s.db", "vit") == lock_path(f"sqlite:///{tmp_path}/link/s.db", "vit")
    assert lock_path(f"sqlite:///{tmp_path}/s.db", "vit").parent == tmp_path
    assert lock_path(f"sqlite:///{tmp_path}/s.db", "vit") != lock_path(f"sqlite:///{tmp_path}/s.db", "lm")


def test_the_lock_of_a_server_lies_in_this_users_folder_and_shows_no_secret() -> None:
    path = lock_path("postgresql://ann:secret@host/db", "vit")
    assert path.parent.name == f"headtune-{os.getuid()}"
    assert "secret" not in str(path)
    assert path != lock_path("postgresql://ann:secret@host/other", "vit")
