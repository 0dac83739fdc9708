"""What a receive answers when its gateway stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from penstock.coordinator import DeliveryOrder, GroupSettings
from penstock.gateway.bounds.receive_budget import ReceiveBudget
from penstock.gateway.rocketmq.consumers.ack_processor import AckProcessor
from penstock.gateway.rocketmq.consumers.deliveries import Deliveries, SentReceive
from penstock.gateway.rocketmq.consumers.handle_renewer import HandleRenewer
from penstock.gateway.rocketmq.consumers.pool import ConsumerPool, PooledConsumer
from penstock.gateway.rocketmq.consumers.receive_parameters import POLL_DEFAULT
from penstock.gateway.rocketmq.consumers.receive_service import ReceiveService
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.log import MessageType, MessageView
from tests.gateway.rocketmq.consumers.test_deliveries import message
from tests.gateway.rocketmq.consumers.times import Times


class Stage:
    """A gateway whose consumer has nothing new, and maybe something out to an attempt id."""

    def __init__(self) -> None:
        self.times = Times()
        self.out: dict[str, list[MessageView]] = {}
        self.waits = asyncio.Event()
        self.over = asyncio.Event()
        self.asked_s: list[float] = []
        """How long each receive waits."""
        self.given_back: list[Sequence[str]] = []
        settings = GroupSettings(delivery_order=DeliveryOrder.ORDERLY)
        pooled = PooledConsumer("billing", "orders", MessageType.FIFO, cast("Any", self), settings, 0.0)
        self.pooled = pooled
        self.deliveries = Deliveries()
        self.service = ReceiveService(
            cast("ConsumerPool", self),
            self.deliveries,
            AckProcessor(self.deliveries),
            cast("HandleRenewer", self),
            ReceiveBudget(),
            self.times,
            "gateway",
        )

    @asynccontextmanager
    async def of(self, group: str, topic: str, filter: str) -> AsyncIterator[PooledConsumer]:
        yield self.pooled

    async def adopt(self, *_: object, **__: object) -> None:
        return

    async def renew(self, handles: Sequence[str]) -> None:
        return

    @property
    def sent(self) -> SentReceive:
        """What is remembered of the only receive."""
        ((sent,),) = ([*receives.values()] for receives in self.deliveries._receives.values())
        return sent

    async def give_back(self, group: str, topic: str, held: Sequence[Sequence[str]]) -> None:
        self.given_back += held

    async def receive(
        self,
        most: int,
        invisible: timedelta,
        await_duration: timedelta,
        *,
        attempt_id: str | None = None,
        holder: str | None = None,
    ) -> list[MessageView]:
        self.asked_s.append(await_duration.total_seconds())
        await asyncio.sleep(0)  # the cells are read
        found = self.out.get(attempt_id or "", [])
        if not found and await_duration:
            self.waits.set()
            await self.over.wait()
        return found

    async def on_answer(self, attempt_id: str | None) -> list[pb.ReceiveMessageResponse]:
        return [frame async for frame in self.frames(attempt_id)]

    def frames(self, attempt_id: str | None, remaining_s: float | None = None) -> AsyncGenerator[pb.ReceiveMessageResponse, None]:
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name="billing"),
            message_queue=pb.MessageQueue(topic=pb.Resource(name="orders")),
            batch_size=8,
        )
        if attempt_id is None:
            request.invisible_duration.FromTimedelta(timedelta(seconds=10))
        else:
            request.auto_renew, request.attempt_id = True, attempt_id
        call = RpcCall("ReceiveMessage", CallMetadata(client_id="c"), "peer", remaining_s)
        return cast("AsyncGenerator[pb.ReceiveMessageResponse, None]", self.service.receive_message(request, call))


async def test_a_gateway_that_stops_gives_what_is_out_to_an_attempt_id() -> None:
    stage = Stage()
    stage.out["lost"] = [message(7, "a")]
    repeated = asyncio.ensure_future(stage.on_answer("lost"))
    await asyncio.sleep(0)
    stage.service.end_polls()
    for frames in (await repeated, await stage.on_answer("lost")):
        assert [frame.message.system_properties.queue_offset for frame in frames if frame.HasField("message")] == [7]


async def test_a_poll_without_new_messages_asks_once() -> None:
    stage = Stage()
    polls = asyncio.ensure_future(stage.on_answer("new"))
    await stage.waits.wait()
    stage.over.set()
    assert [frame.status.code for frame in await polls] == [pb.MESSAGE_NOT_FOUND]
    assert stage.asked_s == [POLL_DEFAULT.total_seconds()]


@pytest.mark.parametrize("name", ["new", None])
async def test_a_gateway_that_stops_lets_nobody_wait(name: str | None) -> None:
    stage = Stage()
    waits = asyncio.ensure_future(stage.on_answer(name))
    await stage.waits.wait()
    stage.service.end_polls()
    for frames in (await waits, await stage.on_answer(name)):
        assert [frame.status.code for frame in frames] == [pb.MESSAGE_NOT_FOUND]


async def test_what_did_not_get_through_comes_back_by_message_groups() -> None:
    stage = Stage()
    stage.out[""] = [message(1, "a"), message(2, "b"), message(3, "a")]
    frames = stage.frames(None)
    await anext(frames)
    await frames.aclose()
    await stage.service.close()
    assert stage.given_back == [["h0-1", "h0-3"], ["h0-2"]]


@pytest.mark.parametrize(("remaining_s", "takes_s", "is_late"), [(None, 60.0, False), (10.0, 6.9, False), (10.0, 7.1, True)])
async def test_an_answer_is_late_when_it_was_written_as_its_client_was_about_to_wait_no_longer(
    remaining_s: float | None, takes_s: float, is_late: bool
) -> None:
    stage = Stage()
    stage.out["first"] = [message(1, "a")]
    async for _ in (frames := stage.frames("first", remaining_s)):
        stage.times.now_s += takes_s / 3  # the client reads slowly
    await frames.aclose()
    assert (stage.sent.is_whole, stage.sent.is_late) == (True, is_late)


@pytest.mark.parametrize(("read", "is_whole"), [(1, False), (2, False), (3, False), (4, True)])
async def test_an_answer_is_whole_when_it_was_written_to_its_end(read: int, is_whole: bool) -> None:
    """The status, one message, the time, and behind them the end."""
    stage = Stage()
    stage.out["first"] = [message(1, "a")]
    frames = stage.frames("first")
    for _ in range(read):
        await anext(frames, None)
    await frames.aclose()
    assert (stage.sent.is_whole, stage.sent.is_broken_off) == (is_whole, not is_whole)
    assert stage.given_back == []


async def test_it_is_logged_what_did_not_reach_a_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "penstock.gateway")
    stage = Stage()
    stage.out["first"] = [message(1, "a"), message(2, "a")]
    frames = stage.frames("first")
    await anext(frames)
    await frames.aclose()
    assert "did not reach" not in caplog.text
    stage.over.set()
    await stage.on_answer("second")
    assert "2 messages of topic orders did not reach client c" in caplog.text
