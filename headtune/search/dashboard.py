"""Optuna's dashboard over a study's storage."""

from headtune.errors import InputError, MissingExtraError
from headtune.search.storage import open_storage


def serve_dashboard(url: str, host: str = "127.0.0.1", port: int = 8080) -> None:
    """Serve the dashboard of the storage at *url* until interrupted.

    It has no password and can delete studies, which is why it listens to this machine only unless told otherwise.

    Raises:
        MissingExtraError: optuna-dashboard is not installed.
        StorageError: there is no such storage.
        InputError: the address cannot be listened on.
    """
    try:
        from optuna_dashboard import run_server
    except ImportError:
        raise MissingExtraError(
            "dashboard: the package optuna-dashboard is not installed; run pip install 'headtune[dashboard]'"
        ) from None
    storage = open_storage(url, create=False)
    try:
        run_server(storage, host=host, port=port)
    except OSError as error:
        raise InputError(
            f"dashboard: cannot listen on {host}:{port} ({error.strerror}); choose another host or port"
        ) from None
