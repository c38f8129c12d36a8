import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from headtune.errors import StorageError
from headtune.search.sqlite import CONNECT_ARGS, check_file, drop_log, identity, is_local, keep_log, sqlite_path
from headtune.search.storage import open_storage

MOUNTS = [("/", "overlay"), ("/home", "ext4"), ("/home/shared", "nfs4"), ("/net", "fuse.sshfs")]


def mode_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////abs/study.db", Path("/abs/study.db")),
        ("sqlite:///rel/study.db?timeout=3", Path("rel/study.db").absolute()),
        ("sqlite+pysqlite:////abs/study.db", Path("/abs/study.db")),
        ("postgresql://host/db", None),
    ],
)
def test_the_file_of_a_url(url: str, path: Path | None) -> None:
    assert sqlite_path(url) == path


def a_folder(root: Path) -> Path:
    return root


def a_text(root: Path) -> Path:
    (root / "notes.txt").write_text("these are my notes, not a database")
    return root / "notes.txt"


def under_a_file(root: Path) -> Path:
    return a_text(root) / "deep" / "study.db"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (a_folder, "storage: {path} is a folder; name a file in it, such as sqlite:///{path}/study.db"),
        (a_text, "storage: {path} is no SQLite database, or a damaged one; choose another file"),
        (under_a_file, "storage: the folder {path.parent} cannot be made (Not a directory); choose another folder"),
    ],
)
def test_what_cannot_become_a_database_is_refused(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    path = make(tmp_path)
    with pytest.raises(StorageError) as caught:
        check_file(path, create=True)
    assert str(caught.value) == message.format(path=path)


def test_a_look_at_the_file_drops_no_lock_of_this_process(tmp_path: Path) -> None:
    """A process that closes a plain file loses all its locks on it (POSIX): another driver could write at once."""
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE trials (x)")
        writer.execute("BEGIN IMMEDIATE")
        check_file(path, create=True)
        child = os.fork()
        if child == 0:
            with closing(sqlite3.connect(path, timeout=0)) as other:
                try:
                    other.execute("BEGIN IMMEDIATE")
                    os._exit(0)
                except sqlite3.OperationalError:
                    os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_reading_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        check_file(tmp_path / "new" / "study.db", create=False)
    assert str(caught.value) == (
        f"storage: there is no {tmp_path}/new/study.db; run the search first, or name the storage that it wrote"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + "/study.db"])
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str, create: bool) -> None:
    with pytest.raises(StorageError) as caught:
        check_file(tmp_path / name, create=create)
    assert str(caught.value) == f"storage: {tmp_path / name} cannot be opened (File name too long); choose another file"


@pytest.mark.parametrize("create", [True, False])
def test_the_database_of_another_program_is_left_alone(tmp_path: Path, create: bool) -> None:
    path = tmp_path / "music.db"
    with closing(sqlite3.connect(path)) as connection:
        for table in ("studies", "albums", "users", "songs"):
            connection.execute(f"CREATE TABLE {table} (x)")
    before = path.read_bytes()
    with pytest.raises(StorageError) as caught:
        check_file(path, create=create)
    assert str(caught.value) == (
        f"storage: {path} is the database of another program (tables albums, songs, studies); choose another file"
    )
    assert path.read_bytes() == before


def test_a_database_that_was_begun_can_be_finished_but_holds_no_study(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE studies (x)")
    check_file(path, create=True)
    with pytest.raises(StorageError, match=r"study.db holds no study; run the search first, or name the storage"):
        check_file(path, create=False)


def test_tables_of_others_beside_studies_do_no_harm(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "all.db")) as connection:
        for table in ("version_info", "users"):
            connection.execute(f"CREATE TABLE {table} (x)")
    check_file(tmp_path / "all.db", create=True)


def test_every_table_of_a_storage_is_known(tmp_path: Path) -> None:
    open_storage(f"sqlite:///{tmp_path / 'study.db'}", create=True).engine.dispose()
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        connection.execute("DROP TABLE version_info")
    check_file(tmp_path / "study.db", create=True)


def test_an_empty_file_may_become_a_database(tmp_path: Path) -> None:
    (tmp_path / "study.db").touch()
    check_file(tmp_path / "study.db", create=True)


@pytest.mark.parametrize(
    ("path", "local"),
    [("/home/ann/study.db", True), ("/home/shared/x/study.db", False), ("/net/study.db", False), ("/opt/a.db", True)],
)
def test_only_known_local_file_systems_are_local(path: str, local: bool) -> None:
    assert is_local(Path(path), MOUNTS) is local
    assert is_local(Path(path), []) is False


def test_the_log_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    keep_log(path)
    expected = (
        "wal"
        if is_local(path, [tuple(line.split()[1:3]) for line in Path("/proc/mounts").read_text().splitlines()])
        else "delete"
    )
    assert mode_of(path) == expected
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES (7)")
        connection.commit()
    drop_log(path)
    assert mode_of(path) == "delete"
    assert [found.name for found in tmp_path.iterdir()] == ["study.db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT x FROM t").fetchall() == [(7,)]


def test_the_log_stays_while_someone_reads(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (x)")
        drop_log(path)
    assert mode_of(path) == "wal"


def test_connections_are_patient_and_quick(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "study.db", **CONNECT_ARGS)) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (60_000,)


def test_checking_a_file_leaves_the_locks_of_this_process_alone(tmp_path: Path) -> None:
    """POSIX drops all of a process's locks on a file when any descriptor of it is closed, which corrupts databases."""
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE trials (x)")
        writer.execute("BEGIN IMMEDIATE")
        check_file(path, create=True)
        script = f"import sqlite3; sqlite3.connect({str(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "database is locked" in other.stderr


def test_a_file_is_the_same_until_it_is_replaced_or_gone(tmp_path: Path) -> None:
    path, other = tmp_path / "a.db", tmp_path / "b.db"
    assert identity(path) is None
    path.touch()
    other.touch()
    before = identity(path)
    path.write_text("longer")
    assert before == identity(path) is not None
    other.replace(path)
    assert identity(path) not in (None, before)
    assert identity(path / "below") is None


def test_a_file_that_is_gone_is_not_made_by_dropping_its_log(tmp_path: Path) -> None:
    drop_log(tmp_path / "gone ?#.db")
    assert list(tmp_path.iterdir()) == []
