"""Receives that are repeated by their attempt id, and what is out to a holder: at the consumer that gave it, and at others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from penstock.consumers import named_receives
from penstock.consumers.named_receives import NAME_CHARS_MAX, OutstandingDelivery
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.keeper import OwnershipLost
from penstock.coordinator.queues.receipt_handle import ReceiptOutdated, ReceiptRefused
from penstock.log import MessageView
from penstock.log.errors import InvalidArgument, LimitExceeded
from tests.consumers.receiving import Member, Scene, bodies
from tests.playing import played_on

ORDERS = ("ORDERLY", "CONCURRENT")
THIRTY, NOTHING = timedelta(seconds=30), timedelta(0)


async def receive(
    member: Member,
    most: int = 32,
    *,
    attempt: str | None = "attempt",
    holder: str | None = "client",
    wait: timedelta = NOTHING,
    invisible: timedelta = THIRTY,
) -> list[MessageView]:
    found: list[MessageView] = await member.run(member.consumer.receive(most, invisible, wait, attempt_id=attempt, holder=holder))
    return found


async def deliveries(member: Member, holder: str = "client") -> list[OutstandingDelivery]:
    found: list[OutstandingDelivery] = await member.run(member.consumer.deliveries(holder))
    return found


async def cancelled(scene: Scene, receiving: Coroutine[Any, Any, list[MessageView]], after_ms: int) -> None:
    """A receive that is cancelled after so long."""
    first = asyncio.ensure_future(receiving)
    await scene.let_pass(after_ms / 1000)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first


def handles(messages: Iterable[MessageView]) -> list[tuple[str, int, str]]:
    return sorted((message.body.decode(), message.delivery_attempt, message.receipt_handle) for message in messages)


def place(message: MessageView) -> tuple[int, int]:
    return message.queue, message.offset


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene, queues=2)
async def test_a_repeated_receive_gives_the_same_and_nothing_else(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1", "a2", "c1", "a3")
    await scene.let_pass(2)
    first = await receive(one, 4)
    await one.send("d1", "e1", "a4")
    await scene.let_pass(2)
    assert await receive(one, 1) == sorted(first, key=place)
    done = min(first, key=place)
    await one.ack(done)
    left = [message for message in sorted(first, key=place) if message is not done]
    again = await receive(one, 32)
    assert again == left
    others = await receive(one, attempt="another")
    assert not set(bodies(others)) & set(bodies(first))
    assert await receive(one) == left
    for message in again:
        await one.ack(message)
    rest = await receive(one)
    assert not set(bodies(rest)) & {*bodies(first), *bodies(others)}, "all was settled, so this is a fresh receive"


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_what_its_holder_lets_go_is_not_found_nor_renewed_at_another_consumer(scene: Scene, order: str) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await two.consume()
    await one.send("a1")
    await scene.let_pass(2)
    (first,) = await receive(one)
    assert [found.messages for found in await deliveries(two)] == [(first,)]
    await two.run(two.consumer.change_invisible_duration(first, THIRTY, holder="client"))
    await one.run(one.consumer.change_invisible_duration(first, timedelta(seconds=5), lets_go=True))
    with pytest.raises(ReceiptRefused, match="is not out to this holder"):
        await two.run(two.consumer.change_invisible_duration(first, THIRTY, holder="client"))
    assert (await deliveries(two), await receive(one)) == ([], [])
    await scene.let_pass(6)
    assert {message.delivery_attempt for member in (one, two) for message in await receive(member)} == {2}


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_what_expired_is_not_out_to_the_receive_any_more(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1", "a2")
    await scene.let_pass(2)
    assert bodies(await receive(one)) == ["a1", "a2"]
    await scene.let_pass(31)
    again = await receive(one)
    assert [(message.body, message.delivery_attempt) for message in again] == [(b"a1", 2), (b"a2", 2)]
    assert await receive(one) == again


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dies", [True, False])
@played_on(Scene)
async def test_the_next_owner_gives_the_same_again(scene: Scene, order: str, dies: bool) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1", "a2", "a3")
    await scene.let_pass(2)
    first = await receive(one, 3, invisible=timedelta(minutes=5))
    await two.consume(delivery_order=order)
    if dies:
        one.process.crash()
    else:
        await one.run(one.consumer.close())
    await scene.let_pass(40)
    assert await receive(two) == [message._replace(epoch=2) for message in first]
    assert bodies(await receive(two, attempt="another")) == (["a3"] if order == "CONCURRENT" else [])


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene, queues=2)
async def test_beside_the_owner_deliveries_are_found_by_their_holder_and_given_again(scene: Scene, order: str) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1", "a2", "c1", "d1", "e1", "f1", "g1")
    await scene.let_pass(2)
    first = [*await receive(one, 4, attempt="x"), *await receive(one, 1, attempt="y")]
    others = await receive(one, 1, attempt="z", holder="another")
    await two.consume(delivery_order=order)
    await scene.let_pass(20)
    found = await deliveries(two)
    assert sorted(map(handles, (one.messages for one in found))) == sorted(map(handles, (first[:4], first[4:])))
    in_ms = [1000 * one.due.timestamp() - two.lake.runtime.clock.wall_ms() for one in found]
    assert all(5_000 < left_ms < 30_000 for left_ms in in_ms)
    answered = await receive(two, 1, attempt="x")
    assert bodies(answered) == bodies(sorted(first[:4], key=place))
    await two.ack(*answered)
    (left,) = await deliveries(two)
    assert bodies(left.messages) == bodies(first[4:])
    assert bodies((await deliveries(two, "another"))[0].messages) == bodies(others)
    assert await deliveries(two, "nobody") == []
    of_all = await two.run(two.consumer.deliveries("client", "nobody", "another"))
    assert {one.holder: bodies(one.messages) for one in of_all} == {"client": bodies(first[4:]), "another": bodies(others)}


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_after_a_reset_nothing_of_before_is_given_again(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1")
    await scene.let_pass(2)
    await receive(one, 2)
    await one.run(one.operators.reset("audit", "orders", "earliest"))
    await scene.let_pass(10)
    assert await deliveries(one) == []
    again = await receive(one)
    assert [(message.body, message.delivery_attempt) for message in again] == [(b"a1", 1), (b"b1", 1)]


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_after_a_reset_that_the_cell_has_not_caught_up_with_nothing_of_before_is_given_again(
    scene: Scene, order: str
) -> None:
    """The queue's owner died before it obeyed."""
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await one.send("a1")
    await scene.let_pass(2)
    await receive(one)
    await two.consume(delivery_order=order)
    assert len(await deliveries(two)) == 1
    one.process.crash()
    await two.run(two.operators.reset("audit", "orders", "earliest"))
    await scene.let_pass(3)
    assert two.consumer._membership.generation("orders", 0) == 1
    assert (await scene.cell()).generation == 0
    assert await receive(two) == []
    assert await deliveries(two) == []


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_the_repetition_of_a_cancelled_receive_is_given_its_messages(scene: Scene, order: str) -> None:
    """Whenever it is cancelled: before its write, while that is under way, or after."""
    one = scene.member("one")
    await one.consume(delivery_order=order, max_attempts=None)
    await one.send("a1", "a2")
    await scene.let_pass(2)
    consumer = one.consumer

    async def cancelled_and_repeated(after_ms: int) -> list[MessageView]:
        await cancelled(scene, consumer.receive(2, THIRTY, NOTHING, attempt_id="x"), after_ms)
        return await consumer.receive(2, THIRTY, timedelta(seconds=5), attempt_id="x")

    delivered = 0
    for after_ms in range(20):
        again = await one.run(cancelled_and_repeated(after_ms))
        assert bodies(again) == ["a1", "a2"]
        assert again[0].delivery_attempt > delivered
        delivered = again[0].delivery_attempt
        await one.run(consumer.change_invisible_duration(again[0], NOTHING))
        if order == "CONCURRENT":
            await one.run(consumer.change_invisible_duration(again[1], NOTHING))


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_the_repetition_of_a_cancelled_receive_is_given_nothing_beside_what_that_was_given(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order, max_attempts=None)
    await one.send("a1", "b1", "c1")
    await scene.let_pass(2)
    consumer = one.consumer

    async def cancelled_and_repeated(after_ms: int) -> None:
        receive = partial(consumer.receive, 1, THIRTY, NOTHING, attempt_id=f"x{after_ms}")
        await cancelled(scene, receive(), after_ms)
        again = await receive()
        assert len(again) == 1
        assert bodies(await receive()) == bodies(again)
        await consumer.change_invisible_duration(again[0], NOTHING)

    for after_ms in range(20):
        await one.run(cancelled_and_repeated(after_ms))


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_receives_at_once_with_one_attempt_id_are_given_the_same(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order)

    async def twice() -> list[list[MessageView]]:
        both = [asyncio.ensure_future(receive(one, 1, wait=timedelta(seconds=20))) for _ in range(2)]
        await one.send("a1", "b1", "c1")
        return await asyncio.gather(*both)

    first, second = await twice()
    assert len(first) == 1
    assert first == second


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_receives_at_once_look_and_take_one_after_the_other(scene: Scene, order: str) -> None:
    """Their queue was asked before, so both of them read what is out to them, and find nothing."""
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1", "c1", "d1")
    await scene.let_pass(2)
    await one.ack(*await receive(one, 1))
    first, second = await asyncio.gather(receive(one, 1), receive(one, 1))
    assert len(first) == 1
    assert first == second


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_what_was_acknowledged_beside_the_owner_is_not_given_again(scene: Scene, order: str) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await one.send("a1", "a2")
    await scene.let_pass(2)
    first = await receive(one, invisible=timedelta(minutes=5))
    await two.consume(delivery_order=order)
    await two.ack(first[0])
    assert await receive(one) == first[1:]


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_what_is_due_is_not_given_again_though_its_owner_sleeps(scene: Scene, order: str) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await two.consume(delivery_order=order)
    await scene.let_pass(5)
    owner, other = (one, two) if (await scene.cell()).owner == one.consumer._membership.member.id else (two, one)
    await owner.send("a1")
    await scene.let_pass(2)
    (message,) = await receive(owner)
    owner.process.crash()
    assert len(await deliveries(other)) == 1
    await other.run(other.consumer.change_invisible_duration(message, timedelta(seconds=1)))
    await scene.let_pass(1.5)
    assert (await scene.cell()).owner != other.consumer._membership.member.id
    assert await deliveries(other) == []


@played_on(Scene)
async def test_of_a_lane_only_what_the_receive_was_given_is_given_again(scene: Scene) -> None:
    """Five messages were delivered together, and two of them are received again: all five were delivered before."""
    one = scene.member("one")
    await one.consume()
    await one.send("a1", "a2", "a3", "a4", "a5")
    await scene.let_pass(2)
    first = await receive(one)
    await one.run(one.consumer.change_invisible_duration(first[0], NOTHING))
    await scene.let_pass(1)
    again = await receive(one, 2, attempt="second")
    assert bodies(again) == ["a1", "a2"]
    assert await receive(one, attempt="second") == again


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_of_a_topic_that_was_made_anew_nothing_is_out(scene: Scene, order: str) -> None:
    """Its messages have the offsets of those that are out."""
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order)
    await one.send("a1", "b1")
    await scene.let_pass(2)
    before = await receive(one, invisible=timedelta(hours=1))
    await two.run(two.lake.delete_topic("orders"))
    await two.run(two.lake.create_topic("orders", scene.settings))
    await scene.let_pass(60)
    await two.consume(delivery_order=order)
    await two.send("a8", "b9")
    await scene.let_pass(5)
    assert await deliveries(two) == []
    with pytest.raises(ReceiptOutdated):
        await two.ack(before[0])
    found = await receive(two)
    assert [(message.body, message.delivery_attempt) for message in found] == [(b"a8", 1), (b"b9", 1)]
    assert await receive(two) == found


def test_attempt_ids_are_forgotten_when_nothing_is_out_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_receives, "_REMEMBERED", 8)
    scene = Scene()

    async def script() -> None:
        one = scene.member("one")
        await one.consume(delivery_order="CONCURRENT")
        await one.send(*(f"a{n}" for n in range(30)))
        await scene.let_pass(2)
        first = await receive(one, 1, attempt="first", invisible=timedelta(hours=1))
        for n in range(28):
            await one.ack(*await receive(one, 1, attempt=f"attempt {n}"))
        assert len(one.consumer._receives._handed) <= 9
        assert await receive(one, attempt="first") == first

    scene.play(script)


def test_an_attempt_id_that_somebody_waits_for_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue was asked, and the cell does not name it yet."""
    monkeypatch.setattr(named_receives, "_REMEMBERED", 1)
    scene = Scene()

    async def script() -> None:
        one = scene.member("one")
        await one.consume(delivery_order="CONCURRENT")
        await one.send("a1", "b1", "c1")
        await scene.let_pass(2)
        first, second = await asyncio.gather(receive(one, 1, attempt="first"), receive(one, 1, attempt="second"))
        assert len(first) == len(second) == 1
        assert await receive(one, attempt="first") == first
        assert await receive(one, attempt="second") == second

    scene.play(script)


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_a_queue_that_is_lost_amid_a_receive_stays_asked_for_its_attempt_id(scene: Scene, order: str) -> None:
    """The receive's write got no answer, and its messages are out to it."""
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1")
    await scene.let_pass(2)
    keeper = one.consumer._owner.queues["orders", 0].keeper
    change = keeper.change

    async def unanswered(made: Callable[[QueueCell], QueueCell]) -> QueueCell:
        await change(made)
        keeper.lose()
        raise OwnershipLost("the table gave no answer", operation="write", object=keeper.key)

    keeper.change = unanswered  # type: ignore[method-assign, assignment]
    assert bodies(await receive(one)) == ["a1"]


@played_on(Scene)
async def test_a_receive_without_a_name_costs_its_cell_nothing(scene: Scene) -> None:
    one = scene.member("one")
    await one.consume(delivery_order="CONCURRENT")
    await one.send("a1", "b1")
    await scene.let_pass(2)
    await receive(one, 1, attempt=None, holder=None)
    (tries,) = (await scene.cell()).tries.values()
    assert tries.receive is None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"attempt_id": ""}, InvalidArgument),
        ({"attempt_id": 7}, InvalidArgument),
        ({"holder": ""}, InvalidArgument),
        ({"holder": "h" * (NAME_CHARS_MAX + 1)}, LimitExceeded),
    ],
)
@played_on(Scene)
async def test_what_is_no_name_is_refused(scene: Scene, given: dict[str, Any], error: type[Exception]) -> None:
    one = scene.member("one")
    await one.consume()
    with pytest.raises(error):
        await one.run(one.consumer.receive(**given))
    with pytest.raises(InvalidArgument):
        await deliveries(one, "")
