import importlib.util
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from headtune.errors import InputError, MissingExtraError, StorageError
from headtune.search.sqlite import drop_log
from headtune.search.storage import open_storage, reason


def test_the_reason_is_the_first_line_of_the_root_cause_without_secrets() -> None:
    root = ValueError("no entry for ann:se@cret\nmore")
    middle, top = RuntimeError("middle"), RuntimeError("top")
    middle.__cause__, top.__cause__ = root, middle
    assert reason(top, "postgresql://ann:se@cret@host/db") == "no entry for ann:***"
    assert reason(ValueError("  ")) == "ValueError"


def test_a_storage_that_is_made_can_be_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/er/study.db"
    open_storage(url, create=True)
    assert open_storage(url, create=False).get_all_studies() == []


FORMS = (
    "write sqlite:///folder/study.db, or the URL of a database that this machine reaches (postgresql://user@host/name)"
)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "runs/study.db",
            "storage: 'runs/study.db' is no URL; write sqlite:///runs/study.db, or postgresql://user@host/name",
        ),
        (
            "mongodb://host/db",
            f"storage: cannot open mongodb://host/db: Can't load plugin: sqlalchemy.dialects:mongodb; {FORMS}",
        ),
        ("sqlite://", "storage: sqlite:// keeps nothing when its process ends; write sqlite:///folder/study.db"),
        (
            "sqlite:///:memory:",
            "storage: sqlite:///:memory: keeps nothing when its process ends; write sqlite:///folder/study.db",
        ),
    ],
)
def test_a_url_that_means_nothing_is_refused_in_words(url: str, message: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_storage(url, create=True)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.skipif(importlib.util.find_spec("psycopg") is not None, reason="psycopg is installed here")
def test_a_missing_driver_is_named_with_its_package() -> None:
    with pytest.raises(MissingExtraError) as caught:
        open_storage("postgresql+psycopg://ann:secret@host/db", create=True)
    assert str(caught.value) == (
        "storage: postgresql+psycopg://ann:***@host/db needs the package psycopg, which is not installed; "
        "run pip install 'psycopg[binary]'"
    )


def test_a_broken_database_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    open_storage(f"sqlite:///{path}", create=True).engine.dispose()
    drop_log(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    with pytest.raises(InputError) as caught:
        open_storage(f"sqlite:///{path}", create=True)
    assert str(caught.value) == f"storage: {path} is no SQLite database, or a damaged one; choose another file"


def test_a_database_of_something_else_is_refused_for_reading(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(StorageError, match="holds no study; run the search first"):
        open_storage(f"sqlite:///{path}", create=False)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("schema", "remedy"), [("v9.9.9.a", "pip install -U optuna"), ("v2.6.0.a", "optuna storage upgrade")]
)
def test_a_storage_of_another_version_of_optuna(tmp_path: Path, schema: str, remedy: str, create: bool) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    open_storage(url, create=True).engine.dispose()
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (schema,))
        connection.commit()
    with pytest.raises(StorageError) as caught:
        open_storage(url, create=create)
    assert str(caught.value) == (
        f"storage: {url} was written by another Optuna than the installed {version('optuna')}; "
        f"run `{remedy}`, or choose another storage"
    )
