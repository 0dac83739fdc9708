"""A server as a process of its own, so that its processor time is known: a gateway of a lake in a folder, or bare gRPC that echoes.

    python -m tests.benchmarks.gateway.serving FOLDER [--objects | --s3 | --echo] [--kafka [--gather]]

It prints a JSON line with its port, and one with what it used so far for each line that it reads. It ends with its input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import psutil

from penstock import aio
from penstock.coordinator import DeliveryOrder
from penstock.gateway.kafka.gateway import KafkaGateway
from penstock.gateway.kafka.options import KafkaOptions
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.http2.calls import GrpcCall, Handler
from penstock.gateway.rocketmq.http2.connection import GrpcConnection
from penstock.gateway.rocketmq.http2.frames import ConnectionFault
from penstock.gateway.rocketmq.http2.limits import Http2Limits
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.infra.cli.gateway.serving import freeze_memory
from penstock.log.stores.counting import CountingStore
from penstock.log.stores.latency import LatencyStore
from penstock.log.stores.local import LocalStore
from penstock.log.stores.protocol import ObjectStore


@dataclass(frozen=True, slots=True)
class Used:
    """What a server used from its start on."""

    cpu_s: float
    """Processor time of all its threads, the system's included."""
    requests: dict[str, int]
    """Requests of the store by verb, those for cells included if they are objects."""
    memory_bytes: int
    """Resident memory."""

    def since(self, before: Used) -> Used:
        return Used(
            self.cpu_s - before.cpu_s,
            {verb: count - before.requests[verb] for verb, count in self.requests.items()},
            self.memory_bytes - before.memory_bytes,
        )


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.endpoints = f"127.0.0.1:{self._heard()['port']}"

    def used(self) -> Used:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return Used(**self._heard())

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with exit code {self._process.wait()}")
        heard: dict[str, Any] = json.loads(line)
        return heard


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    """A server, for as long as the block."""
    command = [sys.executable, "-m", "tests.benchmarks.gateway.serving", str(folder), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Served(process)
    finally:
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def folder_of_slow_store() -> Iterator[Path]:
    """A folder in memory, where there are such: a store as slow as S3 is not to wait for a disk as well."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def store_of(folder: Path, *, s3: bool) -> ObjectStore:
    """The store of a folder; ``s3``: as slow as S3."""
    return LatencyStore(LocalStore(folder)) if s3 else LocalStore(folder)


@asynccontextmanager
async def _gateway(
    folder: Path, *, objects: bool, s3: bool, kafka: bool, gather: bool
) -> AsyncIterator[tuple[int, CountingStore | None]]:
    """``objects``: cells are objects of the store; ``s3``: they are, and the store is as slow as S3; ``gather``: commits for 6 s."""
    store = CountingStore(store_of(folder, s3=s3))
    coordination = "store" if objects or s3 else None
    async with aio.connect(store=store, coordination=coordination, maintenance=False) as lake:
        if kafka:
            options = KafkaOptions(port=0, create_topics=True, gather_commits=timedelta(seconds=6 if gather else 0))
            async with KafkaGateway(lake, options) as of_kafka:
                yield of_kafka.port, store
            return
        async with Gateway(lake, RocketMQOptions(port=0, create_groups=DeliveryOrder.CONCURRENT)) as of_rocketmq:
            yield of_rocketmq.port, store


class _Echo:
    """Sends back what a call was given; for a receive as many frames of it as a batch has, with a status and a time."""

    def __init__(self) -> None:
        self.calls = 0
        self._connections: set[GrpcConnection] = set()

    def add(self, connection: GrpcConnection) -> None:
        self._connections.add(connection)

    def remove(self, connection: GrpcConnection) -> None:
        self._connections.discard(connection)

    def on_fault(self, peer: str, fault: ConnectionFault) -> None:
        raise fault

    def connection(self) -> GrpcConnection:
        return GrpcConnection(self._handler, Http2Limits(), self)

    def _handler(self, path: str) -> Handler:
        return self._frames if path == f"/{SERVICE}/ReceiveMessage" else self._answer

    async def _answer(self, call: GrpcCall) -> bytes | None:
        return await call.read()

    async def _frames(self, call: GrpcCall) -> None:
        data = await call.read() or b""
        for _ in range(34):
            await call.write(data)


@asynccontextmanager
async def _echo() -> AsyncIterator[tuple[int, CountingStore | None]]:
    async with await asyncio.get_running_loop().create_server(_Echo().connection, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], None


async def serve(running: AbstractAsyncContextManager[tuple[int, CountingStore | None]], asked: TextIO, said: TextIO) -> None:
    """Let it serve until ``asked`` ends."""

    def say(document: object) -> None:
        said.write(json.dumps(document) + "\n")
        said.flush()

    async with running as (port, store):
        say({"port": port})
        freeze_memory()  # as `penstock gateway rocketmq` does
        while await asyncio.to_thread(asked.readline):
            verbs = {}
            if store is not None:
                counted = store.statistics()
                verbs = {verb: getattr(counted, verb).requests for verb in ("put", "get", "list", "delete")}
            say({"cpu_s": time.process_time(), "requests": verbs, "memory_bytes": psutil.Process().memory_info().rss})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for option in ("--objects", "--s3", "--echo", "--kafka", "--gather"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    running = (
        _echo()
        if given.echo
        else _gateway(given.folder, objects=given.objects, s3=given.s3, kafka=given.kafka, gather=given.gather)
    )
    asyncio.run(serve(running, sys.stdin, sys.stdout))


if __name__ == "__main__":
    main()
