"""`penstock gateway rocketmq check` tells what a client would meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from penstock.gateway.rocketmq import check
from penstock.gateway.rocketmq.check import CheckTarget, GatewayChecker
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.server.check_finding import CheckFinding
from penstock.gateway.server.options import AccessOptions, Endpoint, TlsOptions
from penstock.log.runtime.runtime import Runtime
from tests.gateway.certificates import write_certificate
from tests.gateway.stage import gateway

SECRET = "correct-horse-battery"


async def findings(served: Gateway, *, send: bool = False, port: int | None = None, **said: object) -> dict[str, CheckFinding]:
    target = CheckTarget(place=Endpoint("localhost", port or served.port), **said)  # type: ignore[arg-type]
    return {one.name: one async for one in GatewayChecker(target, Runtime()).run(send=send)}


def problems(found: dict[str, CheckFinding]) -> dict[str, str]:
    return {name: one.observed for name, one in found.items() if not one.is_ok}


async def test_a_gateway_that_is_well() -> None:
    async with gateway() as served:
        found = await findings(served, topic="orders", group="billing")
        assert not problems(found)
        assert list(found) == ["connection", "health", "route", "places", "announcement", "heartbeat", "termination"]
        assert found["route"].observed == "orders: 1 queues of type NORMAL"
        assert found["places"].observed == f"localhost:{served.port}"
        assert found["announcement"].observed == "as a consumer of billing, which is ORDERLY; 17 attempts"
        assert "as a producer; bodies up to 4,194,304 bytes" in (await findings(served, topic="orders"))["announcement"].observed
        assert len(served.clients) == 0, "it says when it goes"


async def test_what_is_not_there_is_named() -> None:
    async with gateway() as served:
        found = problems(await findings(served, topic="absent", group="nobody"))
        assert found.keys() == {"route", "places", "announcement"}, found
        assert found["route"].startswith("40402 TOPIC_NOT_FOUND: No topic route info for the topic: absent.")
        assert found["announcement"].startswith("40403 CONSUMER_GROUP_NOT_FOUND")


async def test_places_that_are_not_reached_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_PATIENCE_S", 2.0)
    async with gateway(RocketMQOptions(port=0, advertise=Endpoint("127.0.0.1", 1))) as served:
        found = problems(await findings(served, topic="orders"))
        assert found == {"places": "127.0.0.1:1 is not reached from here"}


async def test_a_gateway_with_tls_and_signatures(tmp_path: Path) -> None:
    root = write_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")
    keys = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")
    tls = TlsOptions(certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem", port=0)
    async with gateway(RocketMQOptions(port=0, tls=tls, access=AccessOptions(keys=keys))) as served:
        access = served.lake.coordination.access
        await access.add("shop", SECRET, keys)
        await access.grant("shop", [Grant(Verb.SEND, "orders")])
        by_tls = {"port": served.server.tls_port, "tls": True, "root": root, "topic": "orders"}
        signed = {"access_key": "shop", "secret": SECRET}
        found = await findings(served, **by_tls, **signed)  # type: ignore[arg-type]
        assert not problems(found)
        assert found["connection"].observed.endswith("TLS")
        unsigned = problems(await findings(served, topic="orders"))
        assert unsigned["route"].startswith("40100 UNAUTHORIZED: the call is not signed")
        assert unsigned["heartbeat"].startswith("40100 UNAUTHORIZED")
        forbidden = problems(await findings(served, topic="orders", group="billing", **signed))  # type: ignore[arg-type]
        assert forbidden["announcement"].startswith("40300 FORBIDDEN: shop may not join group billing")


async def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_PATIENCE_S", 1.0)
    async with gateway() as served:
        port = served.port
    found = {one.name: one async for one in GatewayChecker(CheckTarget(place=Endpoint("localhost", port)), Runtime()).run()}
    assert problems(found) == {"connection": "no answer within 1 s"}
