"""Optuna's dashboard over a study's storage."""

import socket
from contextlib import suppress
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

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
        from optuna_dashboard import wsgi
    except ImportError:
        raise MissingExtraError(
            "dashboard: the package optuna-dashboard is not installed; run pip install 'headtune[dashboard]', "
            "or pip install optuna-dashboard where headtune runs from a checkout"
        ) from None
    app = wsgi(open_storage(url, create=False))
    try:
        server = make_server(host, port, app, _SixServer if ":" in host else WSGIServer, _Quiet)
    except OSError as error:
        raise InputError(
            f"dashboard: cannot listen on {host}:{port} ({error.strerror}); choose another host or port"
        ) from None
    with server, suppress(KeyboardInterrupt):
        server.serve_forever()


class _SixServer(WSGIServer):
    """At an address of IPv6."""

    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    """Who asks for which page is nobody's news."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
