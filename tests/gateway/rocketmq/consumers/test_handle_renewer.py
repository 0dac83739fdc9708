"""What push consumers hold stays theirs as long as they live, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from penstock.consumers.named_receives import OutstandingDelivery
from penstock.coordinator import AlreadySettled, DeliveryOrder, GroupSettings, ReceiptExpired, ReceiptRefused
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.rocketmq.clients.registry import ClientRegistry, GatewayClient
from penstock.gateway.rocketmq.consumers.ack_processor import AckProcessor
from penstock.gateway.rocketmq.consumers.deliveries import INVISIBLE_DURATION_S, RENEW_AHEAD_S, RENEW_UNSEEN_MAX_S, Deliveries
from penstock.gateway.rocketmq.consumers.handle_renewer import GIVEN_UP, ROUND_S, HandleRenewer
from penstock.gateway.rocketmq.consumers.pool import ConsumerPool, PooledConsumer
from penstock.gateway.rocketmq.consumers.receive_parameters import INVISIBLE_DURATION
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.log import MessageType, MessageView, StoreUnavailable
from tests.gateway.rocketmq.consumers.test_deliveries import message
from tests.gateway.rocketmq.consumers.times import Times


class Consumer:
    """Notes what is changed."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, timedelta]] = []
        self.fails: dict[str, Exception] = {}
        self.let_go: set[str] = set()
        self.held: list[OutstandingDelivery] = []
        self.scans = 0
        self.silent: Exception | None = None

    def known_handle(self, handle: str) -> ReceiptHandle | None:
        return None

    async def change_invisible_duration(
        self, handle: str, duration: timedelta, *, holder: str | None = None, lets_go: bool = False
    ) -> None:
        if handle in self.fails:
            raise self.fails[handle]
        if holder is not None and (holder != "c" or handle in self.let_go):
            raise ReceiptRefused("it is not out to this holder")
        if lets_go:
            self.let_go.add(handle)
        self.changes.append((handle, duration))

    async def deliveries(self, *holders: str) -> list[OutstandingDelivery]:
        self.scans += 1
        if self.silent is not None:
            raise self.silent
        return [one for one in self.held if one.holder in holders]


class Stage:
    """A gateway's memory around one consumer."""

    def __init__(self, order: DeliveryOrder = DeliveryOrder.CONCURRENT, *, balanced: bool = False) -> None:
        self.times = Times()
        self.consumer = Consumer()
        self.clients = ClientRegistry(self.times)
        settings = GroupSettings(delivery_order=order)
        self.pooled = PooledConsumer("billing", "orders", MessageType.NORMAL, cast("Any", self.consumer), settings, 0.0)
        self.deliveries = Deliveries(is_balanced=balanced)
        self.acks = AckProcessor(self.deliveries)
        self.renewer = HandleRenewer(cast("ConsumerPool", self), self.deliveries, self.acks, self.clients, self.times)

    @asynccontextmanager
    async def of(self, group: str, topic: str) -> AsyncIterator[PooledConsumer]:
        assert (group, topic) == ("billing", "orders")
        yield self.pooled

    def heard(self, *, stream: bool = True) -> GatewayClient:
        """The client says something."""
        call = RpcCall("Heartbeat", CallMetadata(client_id="c"), "peer")
        self.clients.on_call(call)
        client = self.clients.of(call)
        client.client_type = pb.PUSH_CONSUMER
        client.send = (lambda command: asyncio.sleep(0)) if stream else None
        return client

    async def awake(self, seconds: float) -> None:
        """Time passes, and the gateway looks at its clients as it does."""
        until_s = self.times.now_s + seconds
        while self.times.now_s < until_s:
            self.times.now_s = min(until_s, self.times.now_s + ROUND_S)
            self.clients.sweep()
            await self.renewer.round()
        await self.renewer.close()

    async def add_receive(self, *messages: MessageView, breaks_off: bool = False, left_s: float = 60.0) -> None:
        """The client is given these; its answer is written whole, or breaks off. ``left_s``: for so long the client waits then."""
        now_s, in_order = self.times.now_s, self.pooled.in_order
        sent = self.deliveries.add_receive(
            "c", self.pooled.place, "first", "one", messages, in_order=in_order, now_s=now_s, until_s=now_s + left_s
        )
        if sent.is_repeated:
            await self.renewer.renew(sent.handles)
        if breaks_off:
            self.deliveries.mark_broken(sent, now_s)
        else:
            sent.mark_written(now_s)

    def reconnects(self) -> None:
        """The client's stream ends, and it opens another one."""
        client = self.heard(stream=False)
        self.clients.notify_change(client)
        self.clients.notify_change(self.heard())

    def held(self, *messages: MessageView, left_s: float) -> None:
        """The cells say that another gateway gave these."""
        self.consumer.held = [OutstandingDelivery(messages, datetime.fromtimestamp(self.times.now_s + left_s, UTC), "c")]

    def asks(self, attempt_id: str, peer: str) -> list[str]:
        """The client asks for messages with an attempt id. Gives what is lost."""
        return self.deliveries.on_request("c", self.pooled.place, attempt_id, peer, self.times.now_s)

    async def polls(self, peer: str, *, is_renewed: bool = True) -> None:
        """The client asks for messages by a connection."""
        await self.renewer.adopt(self.pooled, "c", peer, is_renewed=is_renewed)


async def test_a_living_clients_messages_are_renewed_again_and_again() -> None:
    stage = Stage()
    stage.heard()
    await stage.add_receive(message(1), message(2))
    for _ in range(3):
        stage.times.now_s += INVISIBLE_DURATION_S - RENEW_AHEAD_S + 1
        stage.heard()
        await stage.renewer.round()
        await stage.renewer.round()
    assert stage.consumer.changes == [("h0-1", INVISIBLE_DURATION), ("h0-2", INVISIBLE_DURATION)] * 3


async def test_a_renewal_that_fails_is_tried_again_and_a_refused_one_is_not() -> None:
    stage = Stage()
    await stage.add_receive(message(1), message(2))
    stage.consumer.fails = {"h0-1": ReceiptExpired("late"), "h0-2": StoreUnavailable("no answer")}
    stage.times.now_s += 40
    stage.heard()
    await stage.renewer.round()
    assert len(stage.deliveries) == 1
    stage.consumer.fails.clear()
    await stage.renewer.round()
    assert stage.consumer.changes == [("h0-2", INVISIBLE_DURATION)]


async def test_what_a_client_held_that_says_goodbye_becomes_visible_after_a_second() -> None:
    stage = Stage(DeliveryOrder.ORDERLY)
    stage.heard()
    await stage.add_receive(message(1, "a"), message(2, "a"), message(3, "b"))
    stage.clients.remove("c")
    await stage.renewer.close()
    assert stage.consumer.changes == [("h0-1", GIVEN_UP), ("h0-3", GIVEN_UP)]
    assert len(stage.deliveries) == 0


async def test_what_a_client_let_go_elsewhere_is_not_hastened_by_its_goodbye() -> None:
    stage = Stage()
    stage.heard()
    stage.held(message(7), message(8), left_s=20)
    await stage.polls("one")
    stage.consumer.let_go.add("h0-7")
    stage.clients.remove("c")
    await stage.renewer.close()
    assert stage.consumer.changes == [("h0-8", GIVEN_UP)]


async def test_of_a_message_group_the_first_message_counts_that_was_not_settled_beside_this_gateway() -> None:
    stage = Stage(DeliveryOrder.ORDERLY)
    stage.heard()
    await stage.add_receive(*(message(offset, "a") for offset in range(9)))
    stage.consumer.fails = {f"h0-{offset}": AlreadySettled("at another gateway") for offset in range(4)}
    stage.times.now_s += INVISIBLE_DURATION_S - RENEW_AHEAD_S + 1
    stage.heard()
    await stage.renewer.round()
    assert stage.consumer.changes == [("h0-4", INVISIBLE_DURATION)], "its time is over before a round for each"
    stage.consumer.fails["h0-4"] = AlreadySettled("at another gateway")
    stage.clients.remove("c")
    await stage.renewer.close()
    assert stage.consumer.changes[1:] == [("h0-5", GIVEN_UP)]


async def test_a_look_that_fails_is_repeated_though_its_receive_was_cancelled() -> None:
    stage = Stage()
    stage.heard()
    stage.consumer.silent = StoreUnavailable("no answer")
    first = asyncio.ensure_future(stage.renewer.adopt(stage.pooled, "c", "one", is_renewed=True))
    await asyncio.sleep(0)
    first.cancel()
    await stage.renewer.close()
    stage.consumer.silent = None
    await stage.renewer.adopt(stage.pooled, "c", "one", is_renewed=True)
    assert stage.consumer.scans == 2


async def test_the_silence_of_clients_does_not_count_while_the_gateway_was_stopped_itself() -> None:
    stage = Stage()
    stage.heard(stream=False)
    await stage.add_receive(message(1))
    for stopped_s in (20, 40):
        stage.times.now_s += stopped_s
        await stage.renewer.round()
        stage.clients.sweep()
        await stage.renewer.close()
        assert GIVEN_UP not in dict(stage.consumer.changes).values(), "what it said meanwhile is not read yet"
        assert stage.clients.get("c") is not None
    await stage.awake(13)
    assert stage.consumer.changes[-1] == ("h0-1", GIVEN_UP)


async def test_a_client_whose_stream_ended_and_that_is_silent_is_gone() -> None:
    stage = Stage()
    stage.heard(stream=False)
    await stage.add_receive(message(1))
    await stage.awake(11)
    assert stage.consumer.changes == [], "its next heartbeat may be on its way"
    await stage.awake(2)
    assert stage.consumer.changes == [("h0-1", GIVEN_UP)]


async def test_what_a_client_got_at_another_gateway_by_repeating_its_receive_is_left_to_that() -> None:
    """Its other poll shows that the answer was lost here, when it has it from there already, or is about to."""
    stage = Stage()
    stage.heard()
    await stage.add_receive(message(1), breaks_off=True)
    stage.asks("second", "one")
    await stage.polls("one")
    await stage.awake(25)
    assert stage.consumer.changes == [], "its time is not cut short"


async def test_what_a_client_gets_by_repeating_its_receive_is_renewed_again() -> None:
    stage = Stage()
    stage.heard()
    await stage.add_receive(message(1), breaks_off=True)
    stage.asks("second", "two")
    stage.times.now_s += 2
    await stage.add_receive(message(1))
    for _ in range(8):
        stage.heard()
        await stage.awake(25)
    assert stage.consumer.changes.count(("h0-1", INVISIBLE_DURATION)) >= 5


async def test_a_receive_that_is_repeated_is_renewed_at_once() -> None:
    stage = Stage()
    stage.heard()
    await stage.add_receive(message(1))
    stage.times.now_s += 5
    await stage.add_receive(message(1))
    assert stage.consumer.changes == [("h0-1", INVISIBLE_DURATION)]


async def test_behind_a_balancer_a_client_that_is_silent_here_may_have_been_moved() -> None:
    stage = Stage(balanced=True)
    stage.heard(stream=False)
    await stage.add_receive(message(1))
    await stage.awake(13)
    assert (stage.consumer.changes, len(stage.deliveries)) == ([], 0)


async def test_a_client_that_is_only_silent_here_is_left_to_other_gateways() -> None:
    stage = Stage()
    stage.heard()
    await stage.add_receive(message(1))
    await stage.awake(31)
    assert (stage.consumer.changes, len(stage.deliveries)) == ([], 0)


async def test_what_another_gateway_gave_is_gone_on_with_once_for_each_connection() -> None:
    stage = Stage()
    stage.heard()
    stage.held(message(7), left_s=20)
    await asyncio.gather(*(stage.polls("one") for _ in range(3)))
    await stage.polls("one")
    assert stage.consumer.scans == 1
    await stage.renewer.round()
    assert stage.consumer.changes == [("h0-7", INVISIBLE_DURATION)], "20 s are left of it"
    await stage.polls("two")
    assert stage.consumer.scans == 2


async def test_what_its_client_let_go_elsewhere_is_renewed_no_longer() -> None:
    """Its client settles another message of the same receive here: that says nothing of the one that it let go."""
    stage = Stage()
    stage.heard()
    stage.held(message(7), message(8), message(9), left_s=20)
    await stage.polls("one")
    await stage.renewer.round()
    assert [handle for handle, _ in stage.consumer.changes] == ["h0-7", "h0-8", "h0-9"]
    stage.consumer.changes.clear()
    stage.consumer.let_go.add("h0-7")
    stage.deliveries.settle("h0-8")
    for _ in range(8):
        stage.heard()
        await stage.awake(25)
    assert {handle for handle, _ in stage.consumer.changes} == {"h0-9"}
    assert len(stage.deliveries) == 1


async def test_what_was_looked_for_is_remembered_of_few_connections_and_ends_with_the_client() -> None:
    stage = Stage()
    client = stage.heard()
    for number in range(100):
        await stage.polls(str(number))
    (looked,) = client.adoption_scans.values()
    assert list(looked.by_peer) == [str(number) for number in range(84, 100)]
    stage.clients.remove("c")
    await stage.polls("100")
    assert stage.consumer.scans == 100, "it said goodbye beside this receive"
    stage.heard()
    await stage.polls("100")
    assert stage.consumer.scans == 101


async def test_what_a_gateway_gave_that_is_gone_is_looked_for_without_a_new_connection() -> None:
    stage = Stage()
    stage.heard()
    await stage.polls("one")
    stage.held(message(7), left_s=20)
    stage.renewer.adopt_all()
    stage.renewer.adopt_all()
    await stage.renewer.close()
    assert stage.consumer.changes == [("h0-7", INVISIBLE_DURATION)]
    stage.times.now_s += 31
    stage.heard()
    asked = stage.consumer.scans
    stage.renewer.adopt_all()
    await stage.renewer.close()
    assert stage.consumer.scans == asked, "it polls elsewhere by now"


async def test_a_look_that_fails_is_logged_and_the_next_one_finds_it(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.heard()
    await stage.polls("one")
    stage.consumer.silent = StoreUnavailable("no answer")
    stage.renewer.adopt_all()
    await stage.renewer.close()
    assert "orders to group billing was not looked for: no answer" in caplog.text
    stage.consumer.silent = None
    stage.held(message(7), left_s=20)
    stage.renewer.adopt_all()
    await stage.renewer.close()
    assert stage.consumer.changes == [("h0-7", INVISIBLE_DURATION)]


async def test_what_a_client_receives_for_a_time_of_its_own_is_not_renewed() -> None:
    stage = Stage()
    stage.heard()
    stage.held(message(7), left_s=20)
    await stage.polls("one", is_renewed=False)
    stage.renewer.adopt_all()
    await stage.renewer.close()
    assert (stage.consumer.scans, stage.consumer.changes, len(stage.deliveries)) == (1, [], 0)


async def test_what_did_not_reach_a_client_is_renewed_no_longer_when_it_asks_for_other_messages() -> None:
    stage = Stage(DeliveryOrder.ORDERLY)
    stage.heard()
    await stage.add_receive(message(1, "a"), message(2, "a"), message(3, "b"), breaks_off=True)
    stage.asks("first", "two")
    stage.times.now_s += 40
    stage.heard()
    await stage.renewer.round()
    renewed = [("h0-1", INVISIBLE_DURATION), ("h0-3", INVISIBLE_DURATION)]
    assert stage.consumer.changes == renewed, "it asks for the same once more"
    assert stage.asks("second", "two") == ["h0-1", "h0-2", "h0-3"]
    stage.held(message(1, "a"), message(2, "a"), left_s=10)
    await stage.polls("two")
    stage.times.now_s += 40
    stage.heard()
    await stage.renewer.round()
    assert stage.consumer.changes == renewed, "nor are they found in the cells"


@pytest.mark.parametrize("stream", [True, False])
async def test_what_was_written_whole_is_kept_for_two_minutes_when_its_connection_broke_behind_it(stream: bool) -> None:
    """Of a client without a stream that shows as it comes by another connection."""
    stage = Stage()
    stage.clients.notify_change(stage.heard(stream=stream))
    await stage.add_receive(message(1))
    until_s = stage.times.now_s + RENEW_UNSEEN_MAX_S
    while stage.times.now_s < until_s:  # and the two minutes do not begin anew each time
        if stream:
            stage.reconnects()
        stage.heard(stream=stream)
        stage.asks(f"at {stage.times.now_s}", f"at {stage.times.now_s}")
        await stage.awake(ROUND_S)
    assert set(stage.consumer.changes) == {("h0-1", INVISIBLE_DURATION)}, "two clients would have it at once"
    renewals = len(stage.consumer.changes)
    for _ in range(3):
        stage.heard()
        await stage.awake(INVISIBLE_DURATION_S / 3)
    assert len(stage.consumer.changes) == renewals, "it waits for its client in vain"


async def test_behind_a_balancer_another_connection_says_nothing_of_what_a_client_has() -> None:
    stage = Stage(balanced=True)
    stage.heard()
    await stage.add_receive(message(1))
    for number in range(12):
        stage.heard()
        stage.asks(str(number), str(number))
        await stage.awake(25)
    assert stage.consumer.changes[-1] == ("h0-1", INVISIBLE_DURATION)
    assert len(stage.consumer.changes) >= 8


async def renews_for_long(stage: Stage) -> bool:
    """Whether anything is renewed after five minutes in which the client lives."""
    renewals = 0
    for _ in range(2):
        renewals = len(stage.consumer.changes)
        for _ in range(12):
            stage.heard()
            await stage.awake(25)
    return len(stage.consumer.changes) > renewals


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("settles", [False, True])
async def test_what_was_written_as_its_client_waited_no_longer_is_kept_for_two_minutes(settles: bool, balanced: bool) -> None:
    """Its connection and its stream are good. The SDK for Go asks with another attempt id then, and never has this answer."""
    stage = Stage(balanced=balanced)
    stage.clients.notify_change(stage.heard())
    await stage.add_receive(message(1), message(2), left_s=1)
    stage.asks("second", "one")
    if settles:
        stage.deliveries.settle("h0-2")
    assert await renews_for_long(stage) is settles


@pytest.mark.parametrize("settles", [False, True])
async def test_behind_a_balancer_what_was_on_its_way_as_the_stream_broke_shows_by_being_settled_alone(settles: bool) -> None:
    """The balancer's own connection goes on, by which the client then asks for other messages."""
    stage = Stage(balanced=True)
    stage.clients.notify_change(stage.heard())
    await stage.add_receive(message(1), message(2))
    stage.reconnects()
    stage.asks("second", "one")
    if settles:
        stage.deliveries.settle("h0-2")
    assert await renews_for_long(stage) is settles


@pytest.mark.parametrize("shows", ["settles", "asks"])
async def test_what_a_client_has_is_renewed_though_its_stream_broke(shows: str) -> None:
    stage = Stage()
    stage.clients.notify_change(stage.heard())
    await stage.add_receive(message(1), message(2))
    stage.reconnects()
    if shows == "settles":
        stage.deliveries.settle("h0-1")
    else:
        stage.asks("second", "one")
    for _ in range(8):
        stage.heard()
        await stage.awake(25)
    renewed = [handle for handle, duration in stage.consumer.changes if duration == INVISIBLE_DURATION]
    assert renewed.count("h0-2") >= 5
    assert stage.consumer.changes[-1] == ("h0-2", INVISIBLE_DURATION)


async def test_what_was_settled_or_has_another_time_is_not_renewed() -> None:
    stage = Stage()
    await stage.add_receive(message(1))
    stage.deliveries.settle("h0-1")
    stage.times.now_s += 50
    stage.heard()
    await stage.renewer.round()
    assert stage.consumer.changes == []
