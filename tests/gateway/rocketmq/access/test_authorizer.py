"""Calls are admitted by their signatures and allowed by grants, and what operators change counts within seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import AccessRecord
from penstock.coordinator.access.registry import AccessRegistry
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.tables import MemoryTable
from penstock.gateway.access.authorizer import PrincipalAuthorizer
from penstock.gateway.access.limits import PrincipalLimits
from penstock.gateway.access.principals import KEEP_S, STALE_S, PrincipalCache
from penstock.gateway.access.refusals import Forbidden, Unauthorized
from penstock.gateway.rocketmq.access.authorizer import SignatureAuthorizer
from penstock.gateway.rocketmq.access.signature import digest_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.protocol.status import status_of
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.log.errors import PenstockError, StoreUnavailable
from penstock.log.runtime.runtime import Runtime

KEYS = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")
SECRET = "correct-horse-battery"
SEND = pb.SendMessageRequest(messages=[pb.Message(topic=pb.Resource(name="orders"))])


@dataclass
class Hands:
    """A clock that is moved by hand."""

    s: float = 1_000_000.0

    def wall_ms(self) -> int:
        return round(self.s * 1000)

    def monotonic_s(self) -> float:
        return self.s


class World:
    """A table with a principal ``shop`` that may send orders, and a gateway's authorizer over it."""

    def __init__(self, *, limits: PrincipalLimits | None = None, keys: SealingKeys = KEYS) -> None:
        self.clock = Hands()
        runtime = Runtime(clock=self.clock)
        cells = Cells(MemoryTable(), runtime)
        self.operator = AccessRegistry(cells, runtime)
        self.reads = 0
        self.outage = False
        principals = PrincipalAuthorizer(PrincipalCache(self._read, keys, self.clock), self.clock, limits)
        self.authorizer = SignatureAuthorizer(principals, self.clock)

    async def _read(self) -> AccessRecord:
        self.reads += 1
        if self.outage:
            raise StoreUnavailable("no answer")
        return await self.operator.read()

    def call(self, *, secret: str = SECRET, key: str = "shop", rpc: str = "SendMessage", peer: str = "ipv4:1.2.3.4:5") -> RpcCall:
        date_time = datetime.fromtimestamp(self.clock.s, UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = digest_of(secret, date_time).hex()
        signed = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={digest}"
        return RpcCall(rpc, CallMetadata(client_id="c", date_time=date_time, authorization=signed), peer)

    async def send(self, **said: str) -> RpcCall:
        call = self.call(**said)
        await self.authorizer.admit(call)
        await self.authorizer.allow(call, SEND)
        return call

    async def refused(self, code: pb.Code, **said: str) -> str:
        with pytest.raises(PenstockError) as raised:
            await self.send(**said)
        status = status_of(raised.value)
        assert status.code == code
        return status.message


def played(play: Callable[[World], Awaitable[None]], **options: object) -> None:
    async def main() -> None:
        world = World(**options)  # type: ignore[arg-type]
        await world.operator.add("shop", SECRET, KEYS)
        await world.operator.grant("shop", [Grant(Verb.SEND, "orders")])
        await play(world)

    asyncio.run(main())


def test_a_signed_call_is_allowed_what_is_granted() -> None:
    async def play(world: World) -> None:
        call = await world.send()
        assert call.principal == "shop"
        receive = pb.ReceiveMessageRequest(
            group=pb.Resource(name="g"), message_queue=pb.MessageQueue(topic=pb.Resource(name="orders"))
        )
        with pytest.raises(Forbidden, match=r"shop may not join group g; .* `penstock access grant shop --join g`"):
            await world.authorizer.allow(call, receive)
        with pytest.raises(Forbidden, match=r"shop may not join group a\|b; .* --join 'a\|b'`"):
            await world.authorizer.allow(call, pb.HeartbeatRequest(group=pb.Resource(name="a|b")))

    played(play)


def test_what_operators_change_is_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway.audit")

    async def play(world: World) -> None:
        await world.send()
        assert caplog.messages == [], "that was before this gateway began"
        await world.operator.acting("ann@desk").grant("shop", [Grant(Verb.JOIN, "billing")])
        for _ in range(2):
            world.clock.s += STALE_S + 1
            await world.send()
        assert caplog.messages == ["ann@desk: access grant shop: join billing"]

    played(play)


def test_an_unknown_key_and_a_wrong_secret_are_told_alike() -> None:
    async def play(world: World) -> None:
        assert await world.refused(pb.UNAUTHORIZED, key="nobody") == await world.refused(
            pb.UNAUTHORIZED, secret="wrong-horse-battery"
        )
        unsigned = replace(world.call(), metadata=CallMetadata(client_id="c"))
        with pytest.raises(Unauthorized, match="not signed"):
            await world.authorizer.admit(unsigned)

    played(play)


def test_an_old_signature_is_refused() -> None:
    async def play(world: World) -> None:
        call = world.call()
        world.clock.s += 16 * 3600
        with pytest.raises(Unauthorized, match="has expired"):
            await world.authorizer.admit(call)

    played(play)


def test_a_rotation_needs_no_restart() -> None:
    async def play(world: World) -> None:
        await world.send()
        await world.operator.rotate("shop", SECRET + "2", KEYS, keep=timedelta(hours=1))
        world.clock.s += STALE_S + 0.1
        await world.send(secret=SECRET + "2")
        former = await world.send()
        world.clock.s += 3601
        await world.refused(pb.UNAUTHORIZED)
        await world.send(secret=SECRET + "2")
        with pytest.raises(Unauthorized, match="has another secret by now"):  # a call that began with the former secret ends
            await world.authorizer.check_again(former, SEND)

    played(play)


def test_a_revocation_ends_calls_within_seconds_also_long_ones() -> None:
    async def play(world: World) -> None:
        call = await world.send()
        await world.operator.revoke("shop", [Grant(Verb.SEND, "orders")])
        world.clock.s += STALE_S + 0.1
        await world.refused(pb.FORBIDDEN)
        with pytest.raises(Forbidden, match="may not send topic orders"):
            await world.authorizer.check_again(call, SEND)
        await world.operator.grant("shop", [Grant(Verb.SEND, "orders")])
        world.clock.s += STALE_S + 0.1
        await world.authorizer.check_again(call, SEND)
        await world.operator.remove("shop")
        await world.operator.add("shop", SECRET, KEYS)
        await world.operator.grant("shop", [Grant(Verb.SEND, "orders")])
        world.clock.s += STALE_S + 0.1
        await world.send()
        with pytest.raises(Unauthorized, match="was removed"):
            await world.authorizer.check_again(call, SEND)

    played(play)


def test_the_record_is_read_once_in_a_while_and_only_for_calls() -> None:
    async def play(world: World) -> None:
        for _ in range(100):
            await world.send()
        assert world.reads == 1
        world.clock.s += 3.5
        await asyncio.gather(*(world.send() for _ in range(100)))
        assert world.reads == 2, "beside the calls, once for all of them"

    played(play)


def test_an_outage_of_the_table_is_outlived_for_a_time(caplog: pytest.LogCaptureFixture) -> None:
    async def play(world: World) -> None:
        await world.send()
        world.outage = True
        world.clock.s += KEEP_S - 1
        await world.send()
        await world.send()
        world.clock.s += 2
        with pytest.raises(StoreUnavailable):
            await world.send()
        world.outage = False
        await world.send()

    with caplog.at_level(logging.WARNING):
        played(play)
    assert [one.message.partition(";")[0] for one in caplog.records] == ["the principals cannot be read"], "told once"


def test_a_gateway_that_never_read_the_record_admits_nobody() -> None:
    async def play(world: World) -> None:
        world.outage = True
        with pytest.raises(StoreUnavailable):
            await world.send()

    played(play)


def test_a_gateway_with_another_key_file_refuses_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def play(world: World) -> None:
        await world.refused(pb.UNAUTHORIZED)
        await world.refused(pb.UNAUTHORIZED)

    played(play, keys=SealingKeys.parse(new_key(bytes(range(KEY_BYTES))), where="another file"))
    assert len(caplog.records) == 1
    assert "another file" in caplog.text


def test_a_principal_may_call_so_often() -> None:
    async def play(world: World) -> None:
        for _ in range(3):
            await world.send()
        assert "3 times a second" in await world.refused(pb.TOO_MANY_REQUESTS)
        call = world.call(rpc="Heartbeat")
        await world.authorizer.admit(call)
        await world.authorizer.allow(call, pb.HeartbeatRequest())
        world.clock.s += 0.4
        await world.send()
        await world.refused(pb.TOO_MANY_REQUESTS)

    played(play, limits=PrincipalLimits(calls_per_s=3))


def test_a_principal_may_have_so_many_connections() -> None:
    async def play(world: World) -> None:
        for peer in ("a", "b", "a"):
            await world.send(peer=peer)
        assert "has 2 connections to this gateway, and may have 2" in await world.refused(pb.TOO_MANY_REQUESTS, peer="c")
        world.clock.s += 20
        await world.send(peer="b")
        world.clock.s += 11
        await world.send(peer="c")
        await world.refused(pb.TOO_MANY_REQUESTS, peer="a")

    played(play, limits=PrincipalLimits(connections=2))
