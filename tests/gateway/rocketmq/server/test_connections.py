"""A gateway process with many connections that ask for nothing: what they take."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

import penstock
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.raw import RawClient

pytestmark = [pytest.mark.processes, pytest.mark.slow]
IDLE: Final = 2_000
KIB_EACH_MAX: Final = 64
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a client of HTTP/2 begins with: the preface, and a frame of no settings."""


@pytest.fixture
def served(lake: penstock.Lake, tmp_path: Path) -> Iterator[RunningGateway]:
    with gateway(lake.url, tmp_path) as running:
        yield running


def memory_kib(served: RunningGateway) -> int:
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def asks(served: RunningGateway, lake: penstock.Lake, name: str) -> None:
    """A client is served."""
    client = RawClient(served.endpoints, "busy")
    try:
        assert client.receive(name, name, poll_s=0.1)[1] == []
    finally:
        client.close()


def test_thousands_of_connections_that_ask_for_nothing_take_little(served: RunningGateway, lake: penstock.Lake, name: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * IDLE)), hard))
    lake.create_topic(name, queues=1)
    lake.create_group(name)
    asks(served, lake, name)
    before_kib = memory_kib(served)
    host, _, port = served.endpoints.rpartition(":")
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(IDLE)]
        for one in idle:
            one.sendall(_PREFACE)
        for one in idle:
            assert one.recv(9), "each is answered with the gateway's settings"
        each_kib = (memory_kib(served) - before_kib) / IDLE
        print(f"{each_kib:.1f} KiB for each of {IDLE} connections")
        assert each_kib < KIB_EACH_MAX
        asks(served, lake, name)
