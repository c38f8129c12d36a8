"""Opening an Optuna storage: what can go wrong is said in words, and a password is never shown."""

from importlib.metadata import version
from typing import Any

from optuna.storages import RDBStorage

from headtune.errors import MissingExtraError, StorageError
from headtune.search.quiet import silent
from headtune.search.sqlite import CONNECT_ARGS, check_file, keep_log, sqlite_path
from headtune.search.urls import scrubbed, shown

_FORMS = "sqlite:///folder/study.db, or the URL of a database that this machine reaches (postgresql://user@host/name)"
_PACKAGES = {"MySQLdb": "mysqlclient", "psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
_CONNECT_SECONDS = 4


def open_storage(url: str, *, create: bool) -> RDBStorage:
    """Open the storage at *url*; with *create*, to write: make its folder, file and tables where they are missing.

    Raises:
        StorageError: it cannot be opened.
        MissingExtraError: the database's driver package is not installed.
    """
    if "://" not in url:
        raise StorageError(f"storage: {url!r} is no URL; write sqlite:///{url}, or postgresql://user@host/name")
    path = sqlite_path(url)
    if path is not None:
        check_file(path, create=create)
        if create:
            keep_log(path)
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
        if "table schema" in str(error):
            remedy = "`optuna storage upgrade`" if "storage upgrade" in str(error) else "`pip install -U optuna`"
            raise StorageError(
                f"storage: {shown(url)} was written by another Optuna than the installed {version('optuna')}; "
                f"run {remedy}, or choose another storage"
            ) from None
        raise StorageError(f"storage: cannot open {shown(url)}: {reason(error, url)}; write {_FORMS}") from None


def reason(error: BaseException, url: str = "") -> str:
    """The first line of what caused a database error, without the secrets of *url*."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return scrubbed(text, url)


def _engine_kwargs(url: str) -> dict[str, Any]:
    scheme = url.partition("://")[0]
    if scheme.partition("+")[0] == "sqlite":
        return {"connect_args": CONNECT_ARGS}
    known = scheme in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2", "mysql", "mysql+pymysql")
    return {"pool_pre_ping": True} | ({"connect_args": {"connect_timeout": _CONNECT_SECONDS}} if known else {})
