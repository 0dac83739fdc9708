"""What becomes of a delivery whose client settles it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.coordinator import AlreadySettled, DeadLettersWait, DeliveryOrder, ReceiptAhead, ReceiptExpired, ReceiptOutdated
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.rocketmq.consumers.ack_service import AckService
from penstock.gateway.rocketmq.consumers.deliveries import INVISIBLE_DURATION_S, RENEW_AHEAD_S
from penstock.gateway.rocketmq.consumers.pool import ConsumerPool
from penstock.gateway.rocketmq.consumers.receive_parameters import INVISIBLE_DURATION
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.log import MessageView, PenstockError, StoreUnavailable
from tests.gateway.rocketmq.consumers.test_deliveries import message
from tests.gateway.rocketmq.consumers.test_handle_renewer import Consumer, Stage

SECRET = "00" * 16


def received(offset: int, *, following: int | None = None, attempt: int = 1) -> MessageView:
    """A message of an ORDERLY group, with a handle that can be read."""
    handle = ReceiptHandle(
        group="billing", topic="orders", queue=0, offset=offset, generation=0, attempt=attempt, lane=7, following=following
    )
    return message(offset, "a")._replace(receipt_handle=handle.encode(SECRET), delivery_attempt=attempt)


class SettledConsumer(Consumer):
    """Notes what is given up, too."""

    def __init__(self) -> None:
        super().__init__()
        self.given_up: list[str] = []
        self.acked: list[str] = []

    async def ack(self, handle: str) -> None:
        if handle in self.fails:
            raise self.fails[handle]
        self.acked.append(handle)

    async def ack_each(self, *handles: str) -> list[BaseException | None]:
        self.acked += [handle for handle in handles if handle not in self.fails]
        return [self.fails.get(handle) for handle in handles]

    async def dead_letter(self, handle: str) -> None:
        if handle in self.fails:
            raise self.fails[handle]
        self.given_up.append(handle)


class AckStage(Stage):
    """A gateway that is told what becomes of deliveries."""

    def __init__(self, order: DeliveryOrder = DeliveryOrder.CONCURRENT) -> None:
        super().__init__(order)
        self.settles = SettledConsumer()
        self.consumer = self.pooled.consumer = cast("Any", self.settles)
        self.service = AckService(cast("ConsumerPool", self), self.deliveries, self.acks)

    async def acks_ahead(self, *messages: MessageView) -> None:
        """The client acknowledges messages, before earlier ones of their message group."""
        for view in messages:
            self.settles.fails[view.receipt_handle] = ReceiptAhead("an earlier one is out")
        request = pb.AckMessageRequest(group=pb.Resource(name="billing"), topic=pb.Resource(name="orders"))
        request.entries.extend(pb.AckMessageEntry(receipt_handle=view.receipt_handle) for view in messages)
        answer = await self.service.ack_message(request, RpcCall("AckMessage", CallMetadata(client_id="c"), "one"))
        assert answer.status.code == pb.OK

    def over(self, *messages: MessageView) -> None:
        """The time of these is over."""
        self.settles.fails |= {view.receipt_handle: ReceiptExpired("late") for view in messages}

    async def left(self, *messages: MessageView) -> list[int]:
        """What is given to a client of what a receive gave."""
        return [view.offset for view in await self.acks.without_settled(self.pooled, messages)]

    async def forwards(self, handle: str) -> pb.Status:
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            group=pb.Resource(name="billing"), topic=pb.Resource(name="orders"), receipt_handle=handle
        )
        call = RpcCall("ForwardMessageToDeadLetterQueue", CallMetadata(client_id="c"), "one")
        return (await self.service.forward_message_to_dead_letter_queue(request, call)).status


@pytest.mark.parametrize("failure", [StoreUnavailable("no answer"), DeadLettersWait("too many")], ids=lambda one: one.kind)
async def test_what_could_not_be_given_up_is_renewed_while_its_client_tries_again(failure: PenstockError) -> None:
    stage, given = AckStage(), received(1)
    stage.heard()
    await stage.add_receive(given)
    stage.settles.fails[given.receipt_handle] = failure
    with pytest.raises(type(failure)):
        await stage.forwards(given.receipt_handle)
    assert len(stage.deliveries) == 1
    stage.settles.fails.clear()
    assert (await stage.forwards(given.receipt_handle)).code == pb.OK
    assert (stage.settles.given_up, len(stage.deliveries)) == ([given.receipt_handle], 0)


@pytest.mark.parametrize("over", [ReceiptExpired("late"), AlreadySettled("before")], ids=lambda one: one.kind)
async def test_a_delivery_that_is_over_is_renewed_no_longer(over: PenstockError) -> None:
    stage, given = AckStage(), received(1)
    stage.heard()
    await stage.add_receive(given)
    stage.settles.fails[given.receipt_handle] = over
    answer = await stage.forwards(given.receipt_handle)
    assert (answer.code, answer.message) == (pb.OK, "this delivery was over, and nothing was given up")
    assert len(stage.deliveries) == 0


async def test_a_client_that_lets_a_message_come_again_lets_it_go_at_every_gateway() -> None:
    stage, given = AckStage(), received(1)
    stage.heard()
    await stage.add_receive(given)
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="billing"), topic=pb.Resource(name="orders"), receipt_handle=given.receipt_handle
    )
    request.invisible_duration.FromSeconds(45)
    await stage.service.change_invisible_duration(request, RpcCall("ChangeInvisibleDuration", CallMetadata(client_id="c"), "one"))
    assert stage.settles.let_go == {given.receipt_handle}
    assert len(stage.deliveries) == 0


async def test_what_was_acknowledged_ahead_is_settled_when_the_earlier_one_was_given_up() -> None:
    stage = AckStage()
    second, third = received(2, following=3, attempt=2), received(3, attempt=2)
    await stage.acks_ahead(second, third)
    stage.over(second, third)
    again = [received(offset, attempt=3) for offset in (2, 3, 4)]
    assert await stage.left(*again) == [4]
    assert stage.settles.acked == [view.receipt_handle for view in again[:2]]
    assert await stage.left(received(2, attempt=4)) == [2], "it is kept no longer"


async def test_what_was_acknowledged_ahead_comes_again_with_the_earlier_one() -> None:
    stage = AckStage()
    second = received(2)
    await stage.acks_ahead(second)
    assert await stage.left(received(1, following=2), second) == [1, 2], "the receive is repeated"
    stage.over(second)
    assert await stage.left(received(1, following=2, attempt=2), received(2, attempt=2)) == [1, 2]
    assert await stage.left(received(2, attempt=3)) == [2], "it was not acknowledged the second time"
    assert stage.settles.acked == []


async def test_what_was_acknowledged_ahead_is_settled_when_the_earlier_one_was_settled_elsewhere() -> None:
    stage = AckStage()
    second = received(2)
    await stage.acks_ahead(second)
    stage.settles.fails.clear()
    assert await stage.left(second) == [], "the receive is repeated"
    assert stage.settles.acked == [second.receipt_handle]


@pytest.mark.parametrize("is_settled", [True, False])
async def test_what_was_acknowledged_ahead_is_not_renewed_when_the_earlier_one_was_settled_elsewhere(is_settled: bool) -> None:
    """What is only over may have been given up: then the later one is settled when it comes by itself."""
    stage = AckStage(DeliveryOrder.ORDERLY)
    first, second, third = received(1, following=2), received(2, following=3), received(3)
    stage.heard()
    await stage.add_receive(first, second, third)
    await stage.acks_ahead(second)
    stage.settles.fails = {first.receipt_handle: AlreadySettled("elsewhere") if is_settled else ReceiptExpired("late")}
    stage.times.now_s += INVISIBLE_DURATION_S - RENEW_AHEAD_S + 1
    stage.heard()
    await stage.renewer.round()
    assert stage.settles.acked == ([second.receipt_handle] if is_settled else [])
    assert stage.consumer.changes == [((third if is_settled else second).receipt_handle, INVISIBLE_DURATION)]


@pytest.mark.parametrize("failure", [ReceiptOutdated("a reset"), StoreUnavailable("no answer")], ids=lambda one: one.kind)
async def test_what_cannot_be_settled_is_given_again(failure: PenstockError) -> None:
    stage = AckStage()
    second = received(2)
    await stage.acks_ahead(second)
    stage.settles.fails[second.receipt_handle] = failure
    assert await stage.left(received(2, attempt=2)) == [2]
