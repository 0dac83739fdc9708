"""S3 and DynamoDB servers on a free loopback port, for as long as a `with` block, and gone after it whatever happens.

moto is quick, and takes one request after the other; versitygw and dynoxide are real servers, built by `make setup` where Go and Rust are
installed. They run in a session of their own, so that Ctrl-C reaches only the test, which then ends them; a test that is killed takes them along
(Linux).
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.testing import s3_server

BUCKET = "penstock"
CACHE = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock")
_BUILT = CACHE / "bin"
VERSITYGW = _BUILT / "versitygw-v1.8.0"
DYNOXIDE = _BUILT / "dynoxide-3.2.0"
_STARTS = 3
_PORTS = 20_000, 32_000
"""Linux gives connections those from 32,768 on, and other systems higher ones."""
_START_S = 60.0


@dataclass(frozen=True)
class S3Server:
    """A running server with one empty bucket."""

    endpoint: str
    access_key_id: str = "penstock"
    secret_access_key: str = "penstock-secret"
    bucket: str = BUCKET

    def url(self, prefix: str, **options: str) -> str:
        """The URL of a store under a prefix, for `open_store` beside `credentials`."""
        query = urllib.parse.urlencode({"region": "us-east-1", "endpoint": self.endpoint, **options})
        return f"s3://{self.bucket}/{prefix}?{query}"

    @property
    def credentials(self) -> dict[str, str]:
        """What `open_store` takes as ``options``."""
        return {"access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make any S3 client use this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }


@contextlib.contextmanager
def moto_server() -> Iterator[S3Server]:
    """moto's S3 and DynamoDB in threads of this process. Their state is the process's: one at a time."""
    with s3_server() as server:
        server.make_bucket(BUCKET)
        yield S3Server(server.endpoint)


@contextlib.contextmanager
def versitygw_server(folder: Path, *options: str, binary: Path = VERSITYGW) -> Iterator[S3Server]:
    """versitygw over a folder, which must be on a file system with extended attributes, and may hold what an earlier one left."""
    (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    with _started("versitygw", lambda port: versitygw_command(folder, port, *options, binary=binary), folder) as endpoint:
        yield S3Server(endpoint)


def versitygw_command(folder: Path, port: int, *options: str, binary: Path = VERSITYGW) -> list[str]:
    """What runs versitygw over a folder that `versitygw_server` made, or that has a folder ``data/penstock``."""
    running = S3Server("")
    access = ("--access", running.access_key_id, "--secret", running.secret_access_key)
    flags = ("--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet", *options)
    return [str(binary), *access, *flags, "posix", str(folder / "data")]


@dataclass(frozen=True)
class DynamoDBServer:
    """A running server without tables."""

    endpoint: str

    def url(self, table: str, prefix: str = "") -> str:
        """The URL of a table of cells, for `open_table` beside `credentials`."""
        query = urllib.parse.urlencode({"region": "us-east-1", "endpoint": self.endpoint, "timeout_s": 10})
        return f"dynamodb://{table}" + (f"/{prefix}" if prefix else "") + f"?{query}"

    @property
    def credentials(self) -> dict[str, str]:
        """What `open_table` takes as ``options``."""
        return {"access_key_id": "penstock", "secret_access_key": "penstock-secret"}


@contextlib.contextmanager
def dynoxide_server(folder: Path, *, binary: Path = DYNOXIDE) -> Iterator[DynamoDBServer]:
    """dynoxide over a file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)

    def command(port: int) -> list[str]:
        return [str(binary), "--host", "127.0.0.1", "--port", str(port), "--db-path", str(folder / "db.sqlite"), "--log", "quiet"]

    with _started("dynoxide", command, folder) as endpoint:
        yield DynamoDBServer(endpoint)


@contextlib.contextmanager
def _started(name: str, command: Callable[[int], list[str]], folder: Path) -> Iterator[str]:
    """The endpoint of a server that listens on the port it is told, until the block ends."""
    for start in range(_STARTS):
        port = free_port()  # another process may take it first: so start again on another
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [*die_with_parent(), *command(port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if _answers(process, port):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            process.kill()  # asked politely it waits for idle connections, and its data is of no more use
            process.wait()
        if start == _STARTS - 1:
            raise RuntimeError(f"{name} did not start:\n{(folder / 'server.log').read_text()[-2000:]}")


def free_port() -> int:
    """A loopback port that nobody listens on now, and below those that connections are given: none takes it before it is used."""
    while True:
        port = random.SystemRandom().randrange(*_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.02)
    return False


def die_with_parent() -> list[str]:
    """What to write before a command so that its process ends with the thread that starts it, however that ends (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
