"""The gateways and their clients, in console and shell."""

from __future__ import annotations

import asyncio
import html
from pathlib import Path

import pytest

from penstock import aio
from penstock.coordinator.cells.keys import GATEWAYS, KAFKA_GATEWAYS
from penstock.gateway.peers.clients import ROOM_BYTES, AlikeClients, alike
from penstock.gateway.peers.entries import GatewayEntry, decode_gateways, encode_gateways
from tests.infra.web.conftest import Open

HOSTILE = "<script>alert(1)</script>\x1b[31m"
CONSUMER = AlikeClients(
    kind="PUSH_CONSUMER", language="JAVA", version="5.0.7", group="billing", topics=("orders",), principal="ann"
)


def write(folder: Path, key: str, data: bytes) -> None:
    async def run() -> None:
        async with aio.connect(folder) as lake:
            cells = lake.coordination.cells
            await lake.coordination.claim()
            await cells.write(key, data, on=await cells.read(key), deadline_s=9e18)

    asyncio.run(run())


def test_a_lake_without_gateways_says_so(console: Open) -> None:
    assert "No gateway is listed" in console().page("/gateways")


def test_gateways_of_both_protocols_and_their_clients_are_shown(console: Open, folder: Path) -> None:
    clients = alike([CONSUMER, CONSUMER, AlikeClients(kind="PRODUCER", language=HOSTILE, version=HOSTILE)])
    own = GatewayEntry("10.0.0.1", 8081, 7, tls_port=8443, signed=True, clients=5, alike=clients)
    write(folder, GATEWAYS, encode_gateways({"a": own}))
    write(folder, KAFKA_GATEWAYS, b'{"b": {"host": "h", "port": 9092, "beat": 2}}')
    browser = console()
    kafka, rocketmq = browser.api("/gateways")["found"]["value"]["rows"]
    assert (kafka["address"], kafka["clients"], kafka["alike"]) == ("h:9092", None, [])
    assert (rocketmq["address"], rocketmq["tls_address"], rocketmq["signed"]) == ("10.0.0.1:8081", "10.0.0.1:8443", True)
    assert [(one["kind"], one["count"]) for one in rocketmq["alike"]] == [("PUSH_CONSUMER", 2), ("PRODUCER", 1)]
    page = browser.page("/gateways")
    assert "<script>alert" not in page
    text = html.unescape(page)
    assert "There is no room for 2 more" in text
    assert "not told by this version" in text


def test_a_damaged_list_is_told(console: Open, folder: Path) -> None:
    write(folder, GATEWAYS, b"[]")
    assert "the list of gateways is damaged" in console().page("/gateways")


@pytest.mark.parametrize("text", ["x" * 5000, "\x00" * 5000, "\u202e" * 5000, '"' * 5000, "\ud800"])
def test_what_clients_say_takes_bounded_room_and_never_damages_the_list(text: str) -> None:
    clients = [
        AlikeClients(kind=text, language=f"{n}{text}", version=text, group=text, topics=(text,) * 100, principal=text)
        for n in range(200)
    ]
    entry = GatewayEntry("h", 1, clients=len(clients), alike=alike(clients))
    data = encode_gateways({"a": entry})
    assert len(data) < ROOM_BYTES + 200
    assert decode_gateways(data, where="gateways") == {"a": entry}


def test_alike_clients_are_counted_together_the_most_frequent_first() -> None:
    many = [CONSUMER] * 3 + [AlikeClients(kind="PRODUCER", topics=tuple(f"t{n}" for n in range(9)))] * 5
    first, second = alike(many)
    assert (first.kind, first.count, first.topics) == ("PRODUCER", 5, ("t0", "t1", "and 7 more"))
    assert (second.count, second.group) == (3, "billing")
    assert alike([]) == ()
