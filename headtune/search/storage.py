"""Opening an Optuna storage: what can go wrong is said in words, and a password is never shown."""

import os
import re
from pathlib import Path
from typing import Any

from optuna.storages import RDBStorage

from headtune.errors import MissingExtraError, StorageError
from headtune.search.quiet import silent

_FORMS = "sqlite:///folder/study.db, or the URL of a database that this machine reaches (postgresql://user@host/name)"
_PACKAGES = {"MySQLdb": "mysqlclient", "psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
_SQLITE_HEADER = b"SQLite format 3\x00"
_LOCK_SECONDS = 60
_CONNECT_SECONDS = 4


def open_storage(url: str, *, create: bool) -> RDBStorage:
    """Open the storage at *url*; with *create*, make its folder, file and tables where they are missing.

    Raises:
        StorageError: it cannot be opened.
        MissingExtraError: the database's driver package is not installed.
    """
    path = sqlite_path(url)
    if path is not None:
        _check_file(path, create=create)
    try:
        with silent():
            return RDBStorage(url, engine_kwargs=_engine_kwargs(url), skip_table_creation=not create)
    except ImportError as error:
        cause = error.__cause__
        module = (cause.name if isinstance(cause, ImportError) else None) or url.partition("://")[0]
        raise MissingExtraError(
            f"storage: {shown(url)} needs the package {module}, which is not installed; "
            f"run pip install '{_PACKAGES.get(module, module)}'"
        ) from None
    except Exception as error:
        raise StorageError(f"storage: cannot open {shown(url)}: {reason(error, url)}; write {_FORMS}") from None


def shown(url: str) -> str:
    """The URL as a person may see it: without its password."""
    url = re.sub(r"(://[^:/?]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&][^=&]*(?:password|passwd)[^=&]*=)[^&]*", r"\1***", url, flags=re.IGNORECASE)


def reason(error: BaseException, url: str = "") -> str:
    """The first line of what caused a database error, without the secrets of *url*."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, absolute; ``None`` for other databases.

    Raises:
        StorageError: the URL has no scheme, or names an SQLite database without a file.
    """
    scheme, found, rest = url.partition("://")
    if not found:
        raise StorageError(f"storage: {shown(url)!r} is no URL; write sqlite:///{url}, or postgresql://user@host/name")
    if scheme.partition("+")[0] != "sqlite":
        return None
    name = rest.removeprefix("/").partition("?")[0]
    if not rest.startswith("/") or name in ("", ":memory:"):
        raise StorageError(f"storage: {url} keeps nothing when its process ends; write sqlite:///folder/study.db")
    return Path(name).absolute()


def _check_file(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise StorageError(f"storage: {path} is a folder; name a file in it, such as sqlite:///{path}/study.db")
    if not path.exists():
        _check_folder(path, create=create)
        return
    try:
        with path.open("rb") as file:
            header = file.read(len(_SQLITE_HEADER))
    except OSError as error:
        raise StorageError(f"storage: {path} cannot be read ({error.strerror}); choose another file") from None
    if header not in (_SQLITE_HEADER, b""):
        raise StorageError(f"storage: {path} is no SQLite database; choose another file")
    if create and not os.access(path, os.W_OK):
        raise StorageError(f"storage: {path} cannot be written; make it writable, or choose another file")


def _check_folder(path: Path, *, create: bool) -> None:
    if not create:
        raise StorageError(f"storage: there is no {path}; run the search first, or name the storage that it wrote")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"storage: the folder {path.parent} cannot be made ({error.strerror}); choose another folder"
        ) from None
    if not os.access(path.parent, os.W_OK):
        raise StorageError(f"storage: the folder {path.parent} cannot be written; choose another folder")


def _engine_kwargs(url: str) -> dict[str, Any]:
    scheme = url.partition("://")[0]
    if scheme.partition("+")[0] == "sqlite":
        return {"connect_args": {"timeout": _LOCK_SECONDS}}
    known = scheme in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2", "mysql", "mysql+pymysql")
    return {"pool_pre_ping": True} | ({"connect_args": {"connect_timeout": _CONNECT_SECONDS}} if known else {})


def _secrets(url: str) -> list[str]:
    found = re.findall(r"://[^:/?]*:(.*)@", url) + re.findall(r"[?&][^=&]*pass(?:word|wd)[^=&]*=([^&]*)", url, re.IGNORECASE)
    return [secret for secret in found if secret]
