"""A MongoDB of the tests' own: found on this machine, in a folder of its own, gone afterwards.

python -m tests.mongodb_server      says where it was found, or ends with exit code 1
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers import CACHE, die_with_parent, free_port
from tests.waiting import wait_until

_START_S = 180.0


def find_mongod() -> Path:
    """Its program; one that is not there when there is none. ``PENSTOCK_MONGOD`` names another."""
    if named := os.environ.get("PENSTOCK_MONGOD"):
        return Path(named)
    return Path(shutil.which("mongod") or CACHE / "mongodb" / "mongod")


class MongoDBServer:
    """A replica set of one server on a loopback port, or a server alone. Use `mongodb_server`."""

    def __init__(self, folder: Path, *, is_set: bool = True) -> None:
        self.folder, self._is_set = folder, is_set
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """For captures."""
        return f"mongodb://127.0.0.1:{self.port}/{database}?directConnection=true"

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """A connection."""
        import pymongo  # all tests look for a server, few use one

        with pymongo.MongoClient[dict[str, Any]](self.url("admin"), serverSelectionTimeoutMS=1000, tz_aware=True) as client:
            yield client

    def start(self) -> None:
        """Start it, and wait until it takes writes."""
        command = [str(find_mongod()), "--dbpath", str(self.folder), "--port", str(self.port), "--bind_ip", "127.0.0.1"]
        command += [
            "--wiredTigerCacheSizeGB",
            "0.25",
            "--nounixsocket",
            "--quiet",
            "--setParameter",
            "diagnosticDataCollectionEnabled=false",
        ]
        command += ["--replSet", "rs0", "--oplogSize", "990"] if self._is_set else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*die_with_parent(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._takes_writes, "MongoDB takes writes", timeout_s=_START_S)

    def _takes_writes(self) -> bool:
        from pymongo.errors import PyMongoError

        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            with self.client() as client:
                hello = client.admin.command("hello")
                if self._is_set and "setName" not in hello:
                    members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
                    client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
                return bool(hello["isWritablePrimary"])
        except PyMongoError:
            return False

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL ends it as a crash; SIGTERM in order."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_START_S)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGKILL) -> None:
        """As after a crash."""
        self.stop(how)
        self.start()


@contextlib.contextmanager
def mongodb_server(*, is_set: bool = True) -> Iterator[MongoDBServer]:
    """A server, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-mongodb-"))
    try:
        server = MongoDBServer(folder, is_set=is_set)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    where = find_mongod()
    if not where.exists():
        sys.exit("no MongoDB was found")
    print(where)
