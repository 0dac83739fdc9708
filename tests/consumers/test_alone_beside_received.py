"""A message that may have ended its process runs alone there, sooner or later: meanwhile nothing that was received is in flight."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.push_options import PushOptions
from penstock.log import MessageView
from tests.consumers.receiving import TEN, Member, Scene, bodies, push
from tests.playing import played_on

HOUR = timedelta(hours=1)


async def suspected(scene: Scene) -> None:
    """Send a message, and let a process that pushes it die of it."""
    victim = scene.member("victim")
    await victim.send("a1")

    async def hang(message: MessageView) -> ConsumeResult:
        await asyncio.Event().wait()
        return ConsumeResult.SUCCESS

    _, heard = await push(victim, group="billing", answer=hang)
    await scene.let_pass(3)
    assert len(heard) == 1
    victim.process.crash()


async def received(member: Member, *, delivery_order: str, invisible: timedelta) -> list[MessageView]:
    await member.consume(delivery_order=delivery_order)
    found = await member.receive(invisible=invisible)
    assert bodies(found) == ["a1"]
    return found


@pytest.mark.parametrize("order", ["ORDERLY", "CONCURRENT"])
@played_on(Scene)
async def test_a_suspect_waits_until_what_was_received_is_acknowledged(scene: Scene, order: str) -> None:
    await suspected(scene)
    one = scene.member("one")
    found = await received(one, delivery_order=order, invisible=HOUR)
    _, heard = await push(one, group="billing")
    await scene.let_pass(100)
    assert not heard
    await one.ack(*found)
    await scene.let_pass(60)
    assert [(message.body, message.delivery_attempt) for _, message in heard] == [(b"a1", 2)]


def test_or_until_its_time_is_over_or_another_consumer_of_the_process_acknowledges_it() -> None:
    scene = Scene()

    async def script() -> None:
        await suspected(scene)
        one = scene.member("one")
        found = await received(one, delivery_order="ORDERLY", invisible=HOUR)
        (text,) = [message.receipt_handle for message in found]
        await one.run(one.consumer.close())
        _, heard = await push(one, group="billing")
        await scene.let_pass(100)
        assert not heard, "the caller may still work on it, though the consumer is closed"
        await one.consume()
        await one.ack(text)
        await scene.let_pass(60)
        assert len(heard) == 1

    async def in_time() -> None:
        await suspected(scene)
        one = scene.member("one")
        await received(one, delivery_order="ORDERLY", invisible=TEN)
        _, heard = await push(one, group="billing")
        await scene.let_pass(60)
        assert len(heard) == 1
        assert one.coordination.worker.in_flight == 0

    scene.play(script)
    scene = Scene()
    scene.play(in_time)


@played_on(Scene)
async def test_a_queue_whose_suspect_waits_to_run_alone_is_handed_over_at_once(scene: Scene) -> None:
    await suspected(scene)
    one = scene.member("one")
    await received(one, delivery_order="ORDERLY", invisible=HOUR)
    consumer, heard = await push(one, group="billing")
    while not one.coordination.worker.quiet:
        await scene.let_pass(0.1)
    began_s = scene.now_s
    await one.run(consumer.close())
    assert scene.now_s - began_s < 1
    assert not heard


@pytest.mark.parametrize("every_s", [5, 30])
@played_on(Scene)
async def test_a_suspect_comes_to_run_alone_also_beside_handlers_of_which_some_always_take_longer(
    scene: Scene, every_s: int
) -> None:
    await suspected(scene)
    one = scene.member("one")
    await one.send(*(chr(0x4E00 + n) for n in range(80)))  # each in a message group of its own
    begun = 0

    async def answer(message: MessageView) -> ConsumeResult:
        nonlocal begun
        begun += 1
        await scene.let_pass(every_s * min(begun, 4))  # from the fourth on one of the four ends every time
        return ConsumeResult.SUCCESS

    await push(one, group="audit", options=PushOptions(threads=4), answer=answer)
    await scene.let_pass(30)
    _, heard = await push(one, group="billing")
    await scene.let_pass(150 + 20 * every_s)
    assert (b"a1", 2) in [(message.body, message.delivery_attempt) for _, message in heard]
    assert begun < 75, "there was always something to run beside it"


@played_on(Scene)
async def test_what_a_receive_that_was_cancelled_would_have_been_given_is_in_nobodys_hands(scene: Scene) -> None:
    one = scene.member("one")
    await one.send("a1", "b1")
    await one.consume()
    receiving = one.process.spawn(one.consumer.receive())
    while not one.coordination.worker.in_flight:
        await scene.let_pass(0.001)
    receiving.cancel()
    await scene.let_pass(5)
    assert one.coordination.worker.in_flight == 0
    assert sorted(bodies(await one.receive())) == ["a1", "b1"]
    assert one.coordination.worker.in_flight == 2
