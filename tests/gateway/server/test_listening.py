"""Where a gateway listens."""

from __future__ import annotations

import asyncio
import socket

import pytest

from penstock.gateway.server.listening import PortServer
from penstock.gateway.server.options import GatewayOptions
from penstock.log.errors import InvalidArgument


class Greeter(asyncio.Protocol):
    """Says hello, and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


def server(host: str, port: int = 0, own_port: int | None = None) -> PortServer:
    return PortServer(GatewayOptions(host=host, address="here", port=port, own_port=own_port), None, 10.0)


async def heard(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has one version of IP alone")
async def test_all_addresses_are_those_of_both_versions() -> None:
    served = server("::")
    await served.listen(Greeter)
    try:
        assert [await heard(host, served.port) for host in ("127.0.0.1", "::1")] == [b"hello"] * 2
    finally:
        served.stop_listening()


async def test_a_port_is_taken_once_unless_it_is_shared() -> None:
    first, second = server("127.0.0.1"), server("127.0.0.1", own_port=0)
    await first.listen(Greeter)
    with pytest.raises(InvalidArgument, match="cannot listen"):
        await server("127.0.0.1", first.port).listen(Greeter)
    await second.listen(Greeter)
    third = server("127.0.0.1", second.port, own_port=0)
    await third.listen(Greeter)
    assert third.port == second.port
    assert len({third.own_port, second.own_port, second.port}) == 3
    for one in (first, second, third):
        one.stop_listening()
