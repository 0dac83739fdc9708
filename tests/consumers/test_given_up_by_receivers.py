"""Messages that their receivers give up: by the owner's process or beside it, once each, and refused as acknowledgements are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from penstock.consumers.dead_letters.writer import REASON, RECONSUME_TIMES
from penstock.coordinator.groups.record import DeadLetterPolicy
from penstock.coordinator.limits import LETTERS_MAX
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.invisibility import given_up
from penstock.coordinator.queues.offsets import SettledOffsets
from penstock.coordinator.queues.receipt_handle import AlreadySettled, DeadLettersWait, ReceiptAhead, ReceiptExpired, ReceiptHandle
from penstock.log.errors import DataDamaged
from tests.consumers.receiving import NOW, Scene, bodies
from tests.playing import played_on

ORDERS = ("ORDERLY", "CONCURRENT")
LONG = timedelta(hours=1)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("beside", [False, True])
@played_on(Scene)
async def test_a_message_given_up_is_a_dead_letter_once_and_its_group_goes_on(scene: Scene, order: str, beside: bool) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(delivery_order=order, max_attempts=9)
    await two.consume(delivery_order=order, max_attempts=9)
    await scene.let_pass(5)
    owner, other = (one, two) if (await scene.cell()).owner == one.consumer._membership.member.id else (two, one)
    by = other if beside else owner
    await one.send("a1", "a2", "a3")
    await scene.let_pass(2)
    first, *_ = await owner.receive(1, invisible=LONG)
    await owner.run(owner.consumer.change_invisible_duration(first, NOW))
    await scene.let_pass(2)
    again = await owner.receive(2, invisible=LONG)
    assert [one.delivery_attempt for one in again if one.body == b"a1"] == [2]
    await by.run(by.consumer.dead_letter(next(one for one in again if one.body == b"a1")))
    for call in (by.consumer.dead_letter, by.consumer.ack):
        with pytest.raises(AlreadySettled):
            await by.run(call(again[0]))
    await scene.let_pass(12)
    (letter,) = await scene.letters()
    assert letter.body == b"a1"
    assert (letter.properties[RECONSUME_TIMES], letter.properties[REASON]) == ("1", "its receiver gave it up")
    for message in again[1:]:
        await by.ack(message)
    rest = await owner.receive(3)
    await owner.ack(*rest)
    assert {*bodies(again), *bodies(rest)} == {"a1", "a2", "a3"}
    with pytest.raises(AlreadySettled):
        await by.run(by.consumer.dead_letter(again[0]))


@pytest.mark.parametrize("order", ORDERS)
@played_on(Scene)
async def test_the_next_owner_writes_the_letter_with_its_attempts(scene: Scene, order: str) -> None:
    one = scene.member("one")
    await one.consume(delivery_order=order)
    await one.send("a1")
    await scene.let_pass(2)
    (message,) = await one.receive(1, invisible=LONG)
    await one.run(one.consumer.change_invisible_duration(message, NOW))
    (message,) = await one.receive(1, invisible=LONG)
    one.process.crash()
    two = scene.member("two")
    await two.consume(delivery_order=order)
    await two.run(two.consumer.dead_letter(message.receipt_handle))
    assert (await scene.cell()).dead_letters.refused == ((0, 2),)
    await scene.let_pass(60)
    (letter,) = await scene.letters()
    assert letter.properties[RECONSUME_TIMES] == "1"
    assert (await scene.cell()).dead_letters == DeadLetters(1)


@pytest.mark.parametrize("beside", [False, True])
@played_on(Scene)
async def test_by_policy_its_message_group_is_parked(scene: Scene, beside: bool) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume(dead_letter_policy="park")
    await one.send("a1", "a2", "b1")
    await scene.let_pass(2)
    found = await one.receive(3, invisible=LONG)
    await two.consume(dead_letter_policy="park")
    by = two if beside else one
    await by.run(by.consumer.dead_letter(found[0]))
    (parked,) = [marker for marker in (await scene.cell()).markers.values() if marker.tries.state is MessageState.PARKED]
    assert parked.head == 0
    for message in (found[0], found[1]):
        with pytest.raises(ReceiptExpired, match="release or skip"):
            await by.run(by.consumer.ack(message))
    await by.ack(found[2])
    await by.run(by.operators.skip("audit"))
    await scene.let_pass(15)
    assert bodies(await scene.letters()) == ["a1"]
    assert bodies(await one.receive(3)) == ["a2"]


@pytest.mark.parametrize("beside", [False, True])
@played_on(Scene)
async def test_of_one_receive_the_earlier_message_is_given_up_first(scene: Scene, beside: bool) -> None:
    one, two = scene.member("one"), scene.member("two")
    await one.consume()
    await one.send("a1", "a2")
    await scene.let_pass(2)
    found = await one.receive(2, invisible=LONG)
    await two.consume()
    by = two if beside else one
    with pytest.raises(ReceiptAhead):
        await by.run(by.consumer.dead_letter(found[1]))
    for message in found:
        await by.run(by.consumer.dead_letter(message))
    await scene.let_pass(12)
    assert bodies(await scene.letters()) == ["a1", "a2"]


def handle(offset: int, *, lane: int | None = None, following: int | None = None) -> ReceiptHandle:
    return ReceiptHandle(
        group="audit", topic="orders", queue=0, offset=offset, generation=0, attempt=3, lane=lane, following=following
    )


ALONE = QueueCell(settled=SettledOffsets(9), tries={4: Tries(MessageState.OUT, 3, 1, 100)})
OF_LANE = QueueCell(settled=SettledOffsets(9), markers={7: Marker(4, 8, Tries(MessageState.OUT, 3, 1, 100))})


def test_it_is_refused_as_an_acknowledgement_is() -> None:
    def refused(cell: QueueCell, named: ReceiptHandle, now_ms: int = 50) -> None:
        given_up(cell, named, policy=DeadLetterPolicy.CONTINUE, now_ms=now_ms)

    for cell, named in ((ALONE, handle(4)), (OF_LANE, handle(4, lane=7))):
        with pytest.raises(ReceiptExpired):
            refused(cell, named, 100)
        with pytest.raises(AlreadySettled, match="given up by its receiver"):
            refused(given_up(cell, named, policy=DeadLetterPolicy.CONTINUE, now_ms=50), named)
    with pytest.raises(ReceiptAhead):
        refused(OF_LANE, handle(6, lane=7))


@pytest.mark.parametrize(("cell", "named"), [(ALONE, handle(4)), (OF_LANE, handle(4, lane=7, following=6))])
def test_without_room_for_its_letter_it_stays_out(cell: QueueCell, named: ReceiptHandle) -> None:
    def tried(letters: int) -> QueueCell:
        full = QueueCell(
            settled=cell.settled, tries=cell.tries, markers=cell.markers, dead_letters=DeadLetters(letters, tuple(range(letters)))
        )
        return given_up(full, named, policy=DeadLetterPolicy.CONTINUE, now_ms=50)

    with pytest.raises(DeadLettersWait, match=f"fewer than {LETTERS_MAX}"):
        tried(LETTERS_MAX)
    after = tried(LETTERS_MAX - 1)
    assert after.dead_letters.assigned[-1] == 4
    assert after.dead_letters.refused == ((4, 3),)
    assert decode_cell(encode_cell(after), where="cell") == after
    assert [marker.head for marker in after.markers.values()] == ([6] if cell.markers else [])


@pytest.mark.parametrize(
    "change",
    [
        lambda letters: letters.without_written(1),
        lambda letters: letters.without_own(),
        lambda letters: letters.left((), 0),
    ],
)
def test_a_cell_forgets_the_attempts_with_the_letter(change: Callable[[DeadLetters], DeadLetters]) -> None:
    letters = change(DeadLetters(1, (3,)).with_refused(4, 2))
    assert letters.refused == ()
    assert DeadLetters(1, (3,)).with_refused(4, 2).without_written(0).refused == ((4, 2),)


def test_attempts_of_letters_that_nobody_assigned_are_damage() -> None:
    cell = QueueCell(dead_letters=DeadLetters(1, (3,), refused=((4, 2),)))
    with pytest.raises(DataDamaged):
        decode_cell(encode_cell(cell), where="cell")
