"""An S3 server on loopback: moto, in a thread of this process."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from penstock.log.errors import InvalidArgument, MissingDependency, install_hint

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server. Any credentials will do."""

    endpoint: str

    def make_bucket(self, name: str) -> None:
        """Raises `InvalidArgument` for a name that S3 does not take."""
        request = urllib.request.Request(f"{self.endpoint}/{quote(name)}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=30):
                pass
        except urllib.error.HTTPError as error:
            with error:
                raise InvalidArgument(
                    "the server makes no such bucket",
                    operation="make_bucket",
                    object=name,
                    expected="3 to 63 small letters, digits, dots and hyphens, and a name that is not taken",
                    observed=f"{error.code} {error.reason}",
                ) from error

    def url(self, bucket: str, prefix: str = "lake") -> str:
        """The URL of a lake in a bucket, for `penstock.connect`."""
        return f"s3://{bucket}/{prefix}?{urlencode({'region': _REGION, 'endpoint': self.endpoint})}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which S3 clients use this server."""
        return {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": _REGION,
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
        }


class _OneByOne:
    """An application whose requests take turns. moto first looks and then writes, so that two racing conditional writes would both win."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._turn = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with self._turn:
            return self._app(environ, start_response)


@contextlib.contextmanager
def s3_server(*, port: int = 0) -> Iterator[S3Server]:
    """Run moto's S3 on a port of 127.0.0.1 (0: any free one) inside the block. Conditional writes hold, in races too.

    Raises `MissingDependency` when moto is not installed, `InvalidArgument` when the port is taken. moto's data belongs to the process, so use one
    server at a time.
    """
    try:
        from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[attr-defined]  # its command uses them
        from werkzeug.serving import make_server
    except ImportError as error:
        raise MissingDependency(
            "S3 on this machine needs moto", operation="s3_server", observed=str(error), hint=install_hint("testing")
        ) from error
    try:
        # werkzeug itself would end the process.
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        raise InvalidArgument(
            "no server can listen here",
            operation="s3_server",
            object=f"127.0.0.1:{port}",
            observed=str(error),
            hint="Name another port",
        ) from error
    server = make_server("127.0.0.1", port, _OneByOne(DomainDispatcherApplication(create_backend_app)), threaded=True)
    # A line for every request would bury the messages of a failing test.
    log = logging.getLogger("werkzeug")
    level = log.level
    log.setLevel(logging.WARNING)
    serving = threading.Thread(target=server.serve_forever, name="s3-server", daemon=True)
    serving.start()
    try:
        yield S3Server(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
        log.setLevel(level)
