"""SimpleConsumer: what it refuses and in which words, what a full cell does, and its end."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest

from penstock.consumers.simple import SimpleOptions
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.groups.record import GroupRecord, GroupSettings
from penstock.coordinator.queues.cell import MessageState
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.invisibility import expired
from penstock.coordinator.queues.keeper import CellRequest, OwnershipLost
from penstock.coordinator.queues.receipt_handle import AlreadySettled, ForeignReceipt, ReceiptHandle
from penstock.log import InvalidArgument, LimitExceeded, Message
from penstock.log.errors import ClosedError, PenstockError
from tests.consumers.receiving import AT_ONCE, NOW, Member, Scene, attempts
from tests.playing import played_on

# --- Back-pressure, the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@played_on(Scene)
async def test_ten_thousand_message_groups_out_at_once_fill_the_cell_and_nothing_is_lost(scene: Scene) -> None:
    one = scene.member()
    producer = await one.run(one.lake.producer("orders", options=AT_ONCE))
    for n in range(10_000):
        one.process.call(lambda n=n: producer.send(Message(b"%d" % n, message_group=f"g{n}")))
    await one.run(producer.close())
    await one.consume(options=SimpleOptions(receive_max=1_000))
    settled: set[int] = set()
    largest = 0
    while len(settled) < 10_000:
        out = []
        while more := await one.receive(1_000, invisible=timedelta(hours=1), wait=timedelta(seconds=1)):
            out += more
        largest = max(largest, len(out))
        assert len((await scene.cell()).markers) == len(out)
        assert {int(message.body) for message in out}.isdisjoint(settled)
        await one.ack(*out)
        settled |= {int(message.body) for message in out}
    assert 1_500 < largest < 3_000, "the cell's room"
    assert (await scene.cell()).settled.floor == 10_000


@played_on(Scene)
async def test_closing_ends_who_waits_and_leaves_what_is_out(scene: Scene) -> None:
    one, other = scene.member(), scene.member("other")
    await one.send("a1", "b1")
    consumer = await one.consume()
    out = await one.receive()
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=60)))
    await scene.let_pass(1)
    await one.run(consumer.close())
    await asyncio.wait([waiting])
    assert isinstance(waiting.exception(), ClosedError)
    for call in (consumer.receive(), consumer.ack(out[0]), consumer.change_invisible_duration(out[0], NOW)):
        with pytest.raises(ClosedError, match="the consumer is closed"):
            await one.run(call)
    await one.run(consumer.close())
    cell = await scene.cell()
    assert cell.owner == ""
    assert {marker.tries.state for marker in cell.markers.values()} == {MessageState.OUT}
    await other.consume()
    await other.ack(out[0])
    assert attempts(await other.receive(wait=timedelta(seconds=20))) == {"b1": 2}


@played_on(Scene)
async def test_a_consumer_that_ends_by_itself_says_why_to_who_waits(scene: Scene) -> None:
    one = scene.member()
    await one.consume()
    waiting = asyncio.ensure_future(one.receive(wait=timedelta(seconds=60)))
    await scene.let_pass(1)
    await one.run(one.operators.delete("audit", force=True))
    await asyncio.wait([waiting])
    assert isinstance(waiting.exception(), PenstockError)
    assert "consumer group" in str(waiting.exception())
    with pytest.raises(PenstockError, match="consumer group"):
        await one.receive()


@played_on(Scene)
async def test_settings_that_contradict_the_groups_are_refused_with_both(scene: Scene) -> None:
    one = scene.member()
    await one.run(one.operators.create("audit", GroupSettings()))
    with pytest.raises(PenstockError, match=r"has another delivery order .*ORDERLY.*CONCURRENT"):
        await one.consume(delivery_order="CONCURRENT")


# --- Refusals -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_messages": 0}, "max_messages must be a positive whole number (operation: receive; observed: 0)"),
        ({"max_messages": True}, "max_messages must be a positive whole number (operation: receive; observed: True)"),
        ({"max_messages": "32"}, "max_messages must be a positive whole number (operation: receive; observed: 32)"),
        (
            {"max_messages": 33},
            (
                "a receive gives fewer messages (operation: receive; expected: max_messages of at most 32; observed: 33). "
                "open the consumer with a larger receive_max"
            ),
        ),
        (
            {"invisible_duration": timedelta(seconds=9.999)},
            "invisible_duration is too short (operation: receive; expected: at least 10 s; observed: 9.999 s)",
        ),
        (
            {"invisible_duration": timedelta(hours=12, milliseconds=1)},
            "invisible_duration is too long (operation: receive; expected: at most 12 h; observed: 43200.001 s)",
        ),
        (
            {"invisible_duration": 50_000},
            (
                "invisible_duration is too long (operation: receive; expected: at most 12 h; observed: 50000). "
                "a number is one of seconds"
            ),
        ),
        (
            {"await_duration": timedelta(seconds=-1)},
            "await_duration is too short (operation: receive; expected: 0 or more; observed: -1 s)",
        ),
    ],
)
@played_on(Scene)
async def test_a_receive_out_of_range_is_refused_and_nothing_is_handed_out(
    scene: Scene, given: dict[str, Any], message: str
) -> None:
    one = scene.member()
    await one.send("a1")
    consumer = await one.consume()
    with pytest.raises(PenstockError) as refused:
        await one.run(consumer.receive(**given))
    assert str(refused.value) == message
    assert attempts(await one.receive()) == {"a1": 1}


@played_on(Scene)
async def test_a_change_out_of_range_is_refused(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1")
    consumer = await one.consume()
    (a1,) = await one.receive()
    for duration in (timedelta(milliseconds=-1), timedelta(hours=13), -5, 1e6):
        with pytest.raises((InvalidArgument, LimitExceeded), match=r"duration is too (short|long) \(operation: change_invisible"):
            await one.run(consumer.change_invisible_duration(a1, duration))
    await one.ack(a1)


@played_on(Scene)
async def test_what_is_no_handle_of_the_group_is_refused(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1")
    await one.consume()
    (a1,) = await one.receive()
    await other.consume(group="billing")
    expected = (
        "the receipt handle is of another consumer group "
        "(operation: ack; object: orders, queue 0, offset 0, attempt 1; expected: billing; observed: audit)"
    )
    with pytest.raises(ForeignReceipt, match=re.escape(expected)):
        await other.ack(a1)
    (theirs,) = await other.receive()
    await other.ack(theirs)
    with pytest.raises(InvalidArgument, match="the message has no receipt handle"):
        await one.ack(a1._replace(receipt_handle=""))
    with pytest.raises(InvalidArgument, match="this is not a receipt handle, or only a part of one"):
        await one.ack(a1.receipt_handle[:-2])
    await one.ack(a1)


@played_on(Scene, queues=2)
async def test_a_handle_of_a_queue_that_nobody_received_from_is_refused(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1")
    await one.consume()
    (a1,) = await one.receive()
    await other.run(other.lake.create_topic("bills", scene.settings))
    await other.send("a1", topic="bills")
    await other.consume(("bills",))
    (foreign,) = await other.receive()
    await one.ack(foreign)  # the group's, of a topic that this consumer does not subscribe to
    await other.ack(a1)
    bad = ReceiptHandle(group="audit", topic="none", queue=0, offset=0, generation=0, attempt=1)
    with pytest.raises(ForeignReceipt, match="nothing was ever handed out of this queue"):
        await one.ack(bad.encode(await secret(one)))


async def secret(member: Member) -> str:
    """Of the group that it is in."""
    record: GroupRecord = await member.run(member.coordination.groups.get("audit"))
    return record.secret


@played_on(Scene)
async def test_a_handle_that_no_receive_gave_is_refused_before_anything_is_read(scene: Scene) -> None:
    """Who knows group, topic and offset knows all that is in it but for the seal."""
    one = scene.member("one")
    await one.send("a1", "a2")
    await one.consume(max_attempts=1)
    a1, _ = await one.receive()
    forged = ReceiptHandle.decode(a1.receipt_handle).encode("00" * 16)
    before = await scene.cell()
    for operation in (one.consumer.ack(forged), one.consumer.change_invisible_duration(forged, timedelta(hours=1))):
        with pytest.raises(ForeignReceipt, match=r"not made by this consumer group.*group audit gave"):
            await one.run(operation)
    with pytest.raises(ForeignReceipt, match="not made by this consumer group"):
        one.consumer.handles_of([forged], "ack")
    assert await scene.cell() == before
    await one.ack(a1)


@played_on(Scene)
async def test_a_group_that_was_made_again_takes_no_handle_of_before(scene: Scene) -> None:
    one, other = scene.member("one"), scene.member("other")
    await one.send("a1")
    await one.consume()
    (a1,) = await one.receive()
    await one.run(one.consumer.close())
    await other.run(other.coordination.groups.delete("audit"))
    await other.consume()
    with pytest.raises(ForeignReceipt, match=r"not made by this consumer group.*deleted and made again"):
        await other.ack(a1)
    (again,) = await other.receive()
    await other.ack(again)


@played_on(Scene)
async def test_of_several_acknowledgements_the_refused_one_is_told_and_the_others_are_made(scene: Scene) -> None:
    one = scene.member()
    await one.send("a1", "b1")
    await one.consume()
    await scene.let_pass(2)
    a1, b1 = await one.receive()
    await one.ack(a1)
    with pytest.raises(AlreadySettled):
        await one.ack(a1, b1)
    assert (await scene.cell()).markers == {}


@pytest.mark.parametrize("name", ["receive_max", "cache_messages", "cache_bytes"])
def test_options_that_make_no_sense_are_refused(name: str) -> None:
    for value in (0, -1, True, 1.5, "9"):
        with pytest.raises(InvalidArgument, match=f"{name} must be a positive whole number"):
            SimpleOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("carried_out", [True, False])
@played_on(Scene)
async def test_an_acknowledgement_that_its_owner_was_in_doubt_of_says_what_became_of_it(scene: Scene, carried_out: bool) -> None:
    """The owner loses its queue with the write: the next owner's expiry at the last attempt is not taken for the acknowledgement."""
    one = scene.member("one")
    await one.send("a1")
    await one.consume(max_attempts=1)
    (a1,) = await one.receive()
    keeper = one.consumer._owner.queues["orders", 0].keeper
    key = queue_key("audit", "orders", 0)

    async def lost(*requests: CellRequest) -> None:
        for request in requests if carried_out else ():
            await keeper.change(request.change)
        stored = await scene.table.memory.get(key)
        assert stored is not None
        other = expired(await scene.cell(), one.process.runtime.clock.wall_ms() + 20_000, GroupSettings(max_attempts=1)).cell
        await scene.table.memory.put(key, b"\2" * 16 + encode_cell(other.taken_by("other/1")), expected=stored.version)
        keeper.lose()
        for request in requests:
            request.fail(OwnershipLost("the queue was taken", operation="write", object=key))

    writes: list[asyncio.Task[None]] = []
    keeper.carry_out = lambda *requests: writes.append(asyncio.ensure_future(lost(*requests)))  # type: ignore[method-assign]
    if carried_out:
        await one.ack(a1)
        assert (await scene.cell()).dead_letters.assigned == ()
    else:
        with pytest.raises(AlreadySettled, match="given up"):
            await one.ack(a1)
        assert (await scene.cell()).dead_letters.assigned == (0,)
