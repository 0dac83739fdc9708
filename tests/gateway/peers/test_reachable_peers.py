"""A gateway that refuses connections is not told to clients, long before it counts as dead."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.gateway.peers.reachable_peers import KNOWN_S, ReachablePeers, accepts_connections
from penstock.gateway.peers.registry import PeerRegistry
from penstock.gateway.peers.rendezvous import Peer
from penstock.gateway.server.options import Endpoint
from penstock.log import SystemClock

OWN, ALIVE, GONE = (Peer(name, Endpoint(name, 9092)) for name in ("own", "alive", "gone"))


class Clock(SystemClock):
    """A clock that a test puts forward."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


class Listed(PeerRegistry):
    """A registry that lists three gateways."""

    renewed = 0

    def renewals(self, _: str) -> int:
        return self.renewed

    def live(self, *, tls: bool) -> Sequence[Peer]:
        return [] if tls else [OWN, ALIVE, GONE]


async def test_who_refuses_connections_is_left_out_until_it_says_that_it_lives() -> None:
    clock, asked, alive = Clock(), [], {"alive"}

    async def accepts(endpoint: Endpoint) -> bool:
        asked.append(endpoint.host)
        return endpoint.host in alive

    listed = Listed("cell", "own", clock)
    peers = ReachablePeers(listed, clock, accepts=accepts)
    assert await peers.live(tls=False) == [OWN, ALIVE]
    assert await peers.live(tls=False) == [OWN, ALIVE]
    assert asked == ["alive", "gone"]
    alive |= {"gone"}  # perhaps another gateway, at the place of the one that is gone
    clock.now_s += KNOWN_S
    assert await peers.live(tls=True) == []
    assert await peers.live(tls=False) == [OWN, ALIVE]
    listed.renewed += 1
    assert await peers.live(tls=False) == [OWN, ALIVE, GONE]


async def test_who_dies_is_left_out_half_a_second_later() -> None:
    clock, alive = Clock(), {"alive", "gone"}

    async def accepts(endpoint: Endpoint) -> bool:
        return endpoint.host in alive

    peers = ReachablePeers(Listed("cell", "own", clock), clock, accepts=accepts)
    assert await peers.live(tls=False) == [OWN, ALIVE, GONE]
    alive -= {"gone"}
    assert await peers.live(tls=False) == [OWN, ALIVE, GONE]
    clock.now_s += 0.5
    assert await peers.live(tls=False) == [OWN, ALIVE]


async def test_calls_that_come_together_ask_once() -> None:
    asked, answer = [], asyncio.get_running_loop().create_future()

    async def accepts(endpoint: Endpoint) -> bool:
        asked.append(endpoint.host)
        return bool(await answer)

    clock = Clock()
    peers = ReachablePeers(Listed("cell", "own", clock), clock, accepts=accepts)
    calls = [asyncio.ensure_future(peers.live(tls=False)) for _ in range(5)]
    await asyncio.wait(calls, timeout=0)
    calls[0].cancel()
    await asyncio.wait(calls[:1])
    answer.set_result(True)
    assert await asyncio.gather(*calls[1:]) == [[OWN, ALIVE, GONE]] * 4
    assert asked == ["alive", "gone"]


async def test_a_port_accepts_connections_as_long_as_somebody_listens() -> None:
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    endpoint = Endpoint("127.0.0.1", listener.sockets[0].getsockname()[1])
    assert await accepts_connections(endpoint)
    listener.close()
    await listener.wait_closed()
    assert not await accepts_connections(endpoint)
