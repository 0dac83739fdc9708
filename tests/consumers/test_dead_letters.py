"""Dead letters: what lies in ``%DLQ%<group>``, and that each lies there once, whoever writes it and however often."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pytest

from penstock.consumers.dead_letters.copy_writer import SequencesTaken, name_of
from penstock.consumers.dead_letters.writer import (
    REASON_CHARS_MAX,
    DeadLetter,
    DeadLetterWriter,
    dead_letter_properties,
    origin_of,
    original_properties,
    renumbered,
)
from penstock.coordinator.queues.cell import DeadLetters, QueueCell
from penstock.coordinator.queues.keeper import OwnershipLost
from penstock.log import InvalidArgument, LimitExceeded, Message, MessageType, MessageView, TopicLimits, TopicSettings
from penstock.log.limits import MIB, PRODUCER_NAME_BYTES_MAX
from penstock.log.message.message import check_message
from penstock.log.paths import dead_letter_topic
from penstock.log.topic.topics import create_topic
from tests.consumers.letters import AT_ONCE, DLQ, Scene, ids, letters
from tests.playing import played_on

LIMITS = TopicLimits(max_body_bytes=5 * MIB, max_properties=200, max_properties_bytes=20_000, max_message_group_bytes=100)


@played_on(Scene, limits=LIMITS)
async def test_the_first_dead_letter_makes_the_topic(scene: Scene) -> None:
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await writer.write([])
    assert list(await scene.lake.topics()) == ["orders"]
    await writer.write(letters(await scene.sent(1)))
    settings = (await scene.lake.topics())[DLQ].settings
    assert (settings.message_type, settings.queues, settings.retention) == (MessageType.NORMAL, 1, timedelta(days=3))
    assert (settings.limits.max_body_bytes, settings.limits.max_message_group_bytes) == (5 * MIB, 100)
    largest = Message(b"x" * 5 * MIB, properties={f"{n:03}": "v" * 90 for n in range(200)})
    check_message(largest, MessageType.NORMAL, LIMITS)
    (message,) = await scene.sent(1)
    dead = dead_letter_properties(DeadLetter(7, message._replace(properties=dict(largest.properties)), 17, "x" * 1000))
    assert len(dead) > 200
    check_message(largest._replace(properties={**dead, "DLQ_SEQUENCE": "9" * 19}), MessageType.NORMAL, settings.limits)


@played_on(Scene)
async def test_a_dead_letter_is_the_message_and_says_where_it_comes_from_and_why(scene: Scene) -> None:
    message = (await scene.sent(5))[4]
    await DeadLetterWriter(scene.lake, "billing", "orders", message.queue).write(letters([message], first=12))
    (dead,) = await scene.read()
    assert dead[3:7] == message[3:7], "id, message group, tag, keys"
    assert (dead.body, dead.born_timestamp) == (message.body, message.born_timestamp)
    assert dead.properties == {
        "n": "4",
        "DLQ_ORIGIN_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": message.message_id,
        "DLQ_ORIGIN_QUEUE": str(message.queue),
        "DLQ_ORIGIN_OFFSET": str(message.offset),
        "RECONSUME_TIMES": "16",
        "DLQ_REASON": "boom",
        "DLQ_SEQUENCE": "12",
    }
    assert origin_of(dead.properties) == ("orders", message.queue, message.offset, 16, "boom")
    assert original_properties(dead.properties) == message.properties


@pytest.mark.parametrize(
    ("reason", "stored"),
    [
        ("ValueError: no\n  such\torder", "ValueError: no such order"),
        ("x" * 1000, "x" * REASON_CHARS_MAX),
        ("ü" * 300, "ü" * REASON_CHARS_MAX),
        ("\x1b[31mred \udcff", "·[31mred ·"),
        ("", ""),
    ],
)
@played_on(Scene)
async def test_the_reason_is_one_line_that_a_property_can_hold(scene: Scene, reason: str, stored: str) -> None:
    messages = await scene.sent(1)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages, reason=reason, attempts=0))
    (dead,) = await scene.read()
    assert (dead.properties["DLQ_REASON"], dead.properties["RECONSUME_TIMES"]) == (stored, "0")


@played_on(Scene)
async def test_a_dead_letter_that_dies_loses_nothing_of_what_it_was(scene: Scene) -> None:
    names = {"DLQ_REASON": "mine", "DLQ_": "odd", "DLQ_DLQ_X": "x", "RECONSUME_TIMES": "many", "ORIGIN_TOPIC": "o"}
    first = (await scene.sent(1, properties=names))[0]
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters([first]))
    (dead,) = await scene.read()
    await DeadLetterWriter(scene.lake, "audit", DLQ, 0).write(letters([dead], first=3))
    (dead_twice,) = await scene.read("%DLQ%audit")
    assert origin_of(dead_twice.properties) == (DLQ, 0, 0, 16, "boom")
    assert original_properties(dead_twice.properties) == dead.properties
    assert original_properties(original_properties(dead_twice.properties)) == first.properties
    assert dead_twice.message_id == first.message_id


@played_on(Scene)
async def test_the_same_call_again_writes_nothing_twice(scene: Scene) -> None:
    messages = await scene.sent(6)
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await writer.write(letters(messages[:3]))
    await writer.write(letters(messages[:3]))
    await writer.write(letters(messages[1:5], first=1))
    await writer.close()
    await writer.write(letters(messages[2:], first=2))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_the_next_owner_writes_what_is_not_there(scene: Scene) -> None:
    messages = await scene.sent(5)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:3], first=10))
    await DeadLetterWriter(scene.process(), "billing", "orders", 0).write(letters(messages[1:], first=11))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_who_was_the_owner_adds_nothing_that_the_next_one_wrote(scene: Scene) -> None:
    """Also where each believes to be the owner, and both write in turns."""
    messages = await scene.sent(6)
    one, other = (DeadLetterWriter(scene.process(), "billing", "orders", 0) for _ in range(2))
    for known in range(1, len(messages) + 1):
        await one.write(letters(messages[:known]))
        await other.write(letters(messages[:known]))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_owners_that_write_at_once_write_each_letter_once_and_in_order(scene: Scene) -> None:
    messages = await scene.sent(40)
    writers = [DeadLetterWriter(scene.process(), "billing", "orders", 0) for _ in range(3)]
    for limit in (10, 20, 40):
        await asyncio.gather(*(writer.write(letters(messages[:limit])) for writer in writers))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_two_calls_of_one_owner_take_turns(scene: Scene) -> None:
    messages = await scene.sent(4)
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await asyncio.gather(writer.write(letters(messages[:2])), writer.write(letters(messages)))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_queues_and_topics_with_the_same_sequences_do_not_meet(scene: Scene) -> None:
    await scene.lake.create_topic("refunds", TopicSettings(queues=1))
    orders, refunds = await scene.sent(6), await scene.sent(2, "refunds")
    by_queue = {queue: [one for one in orders if one.queue == queue] for queue in range(2)}
    assert all(by_queue.values())
    for queue, messages in by_queue.items():
        await DeadLetterWriter(scene.lake, "billing", "orders", queue).write(letters(messages))
    await DeadLetterWriter(scene.lake, "billing", "refunds", 0).write(letters(refunds))
    assert ids(await scene.read()) == ids([*by_queue[0], *by_queue[1], *refunds])


@played_on(Scene)
async def test_longest_names(scene: Scene) -> None:
    group, topic = "g" * 249, "t" * 249
    with pytest.raises(LimitExceeded, match="the consumer group's name is too long"):
        dead_letter_topic(group + "g")
    with pytest.raises(InvalidArgument, match="bad consumer group name"):
        dead_letter_topic("a\nb")
    names = {name_of("dead-letters", topic, queue) for queue in range(2)} | {name_of("dead-letters", topic[1:], 0)}
    assert len(names) == 3
    assert all(len(name.encode()) <= PRODUCER_NAME_BYTES_MAX for name in names)
    assert name_of("dead-letters", "orders", 3) == "dead-letters/orders/3"
    await scene.lake.create_topic(topic, TopicSettings(queues=2))
    messages = [one for one in await scene.sent(4, topic) if one.queue == 1]
    for lake in (scene.lake, scene.process()):
        await DeadLetterWriter(lake, group, topic, 1).write(letters(messages))
    assert ids(await scene.read("%DLQ%" + group)) == ids(messages)


@played_on(Scene)
async def test_a_topic_that_somebody_made_is_taken_as_it_is(scene: Scene) -> None:
    tiny = TopicLimits(max_body_bytes=1, max_properties=1, max_properties_bytes=1, max_message_group_bytes=1)
    # A lake refuses such settings by now.
    settings = TopicSettings(message_type=MessageType.FIFO, queues=4, limits=tiny)
    await create_topic(scene.lake.store, scene.lake.runtime, DLQ, settings)
    messages = await scene.sent(12)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages))
    found = await scene.read()
    assert ids(found) == ids(messages)
    assert {one.queue for one in found} == {0}


@played_on(Scene)
async def test_many_and_large_ones_go_in_several_batches_in_order(scene: Scene) -> None:
    (message,) = await scene.sent(1)
    large = [message._replace(message_id=f"{n:032x}", body=b"%d" % n * MIB) for n in range(6)]
    small = [message._replace(message_id=f"{n:032x}") for n in range(6, 2_506)]
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters([*large, *small]))
    found = await scene.read()
    assert ids(found) == [f"{n:032x}" for n in range(2_506)]
    assert [one.body for one in found[:6]] == [one.body for one in large]


@played_on(Scene)
async def test_who_may_not_write_any_more_writes_nothing(scene: Scene) -> None:
    messages = await scene.sent(3)
    answers = [True, True, True, False]
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0, may_write=lambda: answers.pop(0))
    await writer.write(letters(messages[:1]))
    await writer.write(letters(messages[:2]))
    with pytest.raises(OwnershipLost, match="nothing more may be written under this name by this process"):
        await writer.write(letters(messages))
    assert ids(await scene.read()) == ids(messages[:2])
    with pytest.raises(OwnershipLost):
        await DeadLetterWriter(scene.lake, "other", "orders", 0, may_write=lambda: False).write(letters(messages))
    assert "%DLQ%other" not in await scene.lake.topics()


@played_on(Scene)
async def test_a_topic_that_is_deleted_and_made_again_gets_the_rest(scene: Scene) -> None:
    messages = await scene.sent(6)
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await writer.write(letters(messages[:2]))
    operator = scene.process()
    await operator.delete_topic(DLQ)
    await writer.write(letters(messages[2:4], first=2))
    assert ids(await scene.read()) == ids(messages[2:4])
    await operator.delete_topic(DLQ)
    await operator.create_topic(DLQ, TopicSettings(queues=1))
    await writer.write(letters(messages[3:], first=3))
    assert ids(await scene.read()) == ids(messages[4:]), "the one before had been written, and was deleted with the topic"


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("days", [24, 26, 31])
@played_on(Scene)
async def test_what_is_found_after_a_month_is_not_written_again(scene: Scene, days: int, published: bool) -> None:
    """The owner died between the append and its cell's write; the name may have left the state before the next one comes."""
    messages = await scene.sent(5)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:3], first=7))
    await scene.pass_days(days)
    if published:
        await scene.publish()
    for lake in (scene.process(), scene.process()):  # the second one finds the name as the first one left it
        await DeadLetterWriter(lake, "billing", "orders", 0).write(letters(messages[1:3], first=8))
    fresh = await scene.sent(1)
    await DeadLetterWriter(scene.process(), "billing", "orders", 0).write(letters([*messages[1:], *fresh], first=8))
    found = [one for one in await scene.read() if one.body != b"a day"]
    assert ids(found) == ids([*messages, *fresh])


@played_on(Scene)
async def test_of_a_message_that_died_again_after_a_reset_both_letters_are_there(scene: Scene) -> None:
    """Also when the name has left the state meanwhile: a letter is told by its sequence, not by its message alone."""
    (message,) = await scene.sent(1)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters([message], first=5))
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters([message], first=6))
    await scene.pass_days(31)
    for lake in (scene.process(), scene.process()):
        await DeadLetterWriter(lake, "billing", "orders", 0).write(letters([message] * 2, first=6))
    found = [one for one in await scene.read() if one.body != b"a day"]
    assert [(one.message_id, one.properties["DLQ_SEQUENCE"]) for one in found] == [(message.message_id, str(n)) for n in (5, 6, 7)]


@played_on(Scene)
async def test_an_owner_of_long_ago_writes_nothing_after_the_next_one_has_opened_the_name(scene: Scene) -> None:
    """It wakes a month later with a letter that was buried and has expired; the next owner's opening has said so."""
    messages = await scene.sent(3)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:2]))
    await scene.lake.delete_topic(DLQ)  # as if retention had taken them
    await scene.pass_days(31)
    heir = DeadLetterWriter(scene.process(), "billing", "orders", 0)
    assert await heir._copies.last_sequence(1) == 1
    with pytest.raises(SequencesTaken, match="or none"):  # and what it would do about that, it needs its cell for
        await DeadLetterWriter(scene.process(), "billing", "orders", 0).write(letters(messages[1:2], first=1))
    assert await scene.read() == []
    await heir.write(letters(messages[2:], first=2))
    assert ids(await scene.read()) == ids(messages[2:])


def given(cell: QueueCell, messages: Sequence[MessageView]) -> list[DeadLetter]:
    """What a cell has assigned."""
    return [DeadLetter(sequence, messages[offset], 17, "") for offset, sequence in cell.dead_letters.sequences()]


@pytest.mark.parametrize("count", [1, 2, 3])
@played_on(Scene)
async def test_cells_that_begin_anew_are_noticed_and_numbered_behind_what_is_there(scene: Scene, count: int) -> None:
    """Else what they give up would be taken for written; whether they give up fewer than there are, as many, or more."""
    messages = await scene.sent(6)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:2]))
    cell = QueueCell().with_dead_letters([3, 4, 5][:count])
    writer = DeadLetterWriter(scene.process(), "billing", "orders", 0)
    with pytest.raises(SequencesTaken, match=r"%DLQ%billing; expected: sequence 0 to be the message") as caught:
        await writer.write(given(cell, messages))
    assert ids(await scene.read()) == ids(messages[:2])
    seen = cell.dead_letters.sequences()
    cell = renumbered(cell, caught.value, seen)
    assert [offset for offset, _ in cell.dead_letters.sequences()] == [3, 4, 5][:count]
    assert min(sequence for _, sequence in cell.dead_letters.sequences()) == max(2, count), "none of them twice"
    assert renumbered(cell, caught.value, seen) == cell
    await writer.write(given(cell, messages))
    assert ids(await scene.read()) == ids([*messages[:2], *messages[3 : 3 + count]])


@played_on(Scene)
async def test_the_letter_of_a_message_that_was_sent_back_is_not_taken_for_the_one_before(scene: Scene) -> None:
    """Both have one id. The cell that gave the first its sequence was put back, and it gives the same to the second."""
    (message,) = await scene.sent(1)
    again = message._replace(offset=message.offset + 1)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write([DeadLetter(0, message, 1, "")])
    with pytest.raises(SequencesTaken) as caught:
        await DeadLetterWriter(scene.process(), "billing", "orders", 0).write([DeadLetter(0, again, 1, "")])
    assert (caught.value.last_sequence, caught.value.written) == (0, frozenset())


def test_letters_that_were_given_while_the_others_were_compared_are_numbered_anew_too() -> None:
    cell = QueueCell(dead_letters=DeadLetters(1, (100,)))
    seen = cell.dead_letters.sequences()
    cell = renumbered(cell.with_dead_letters([101, 102]), taken(last_sequence=1), seen)
    assert cell.dead_letters.sequences() == [(100, 3), (101, 4), (102, 5)]


def test_what_stands_as_it_was_assigned_is_not_numbered_anew() -> None:
    cell = QueueCell(dead_letters=DeadLetters(4, (7, 8, 9), former=2))
    seen = cell.dead_letters.sequences()
    cell = renumbered(cell, taken(last_sequence=9, written={1, 3}), seen)
    assert (cell.dead_letters.sequences(), cell.dead_letters.former) == ([(8, 10)], 1)


def test_what_others_have_gone_on_with_is_not_numbered_anew() -> None:
    cell = QueueCell(dead_letters=DeadLetters(4, (9,)))
    assert renumbered(cell, taken(last_sequence=9), [(7, 1), (8, 2)]) is cell


def taken(*, last_sequence: int, written: Collection[int] = ()) -> SequencesTaken:
    error = SequencesTaken("taken")
    error.last_sequence, error.written = last_sequence, frozenset(written)
    return error


@played_on(Scene)
async def test_a_letter_stands_if_another_owner_has_just_written_it(scene: Scene) -> None:
    """An owner that died before its cell knew: nothing is written again, nothing numbered anew."""
    messages = await scene.sent(3)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:2]))
    await DeadLetterWriter(scene.process(), "billing", "orders", 0).write(letters(messages))
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene)
async def test_a_letter_stands_where_store_times_lag(scene: Scene) -> None:
    """Of a topic that nobody wrote to for weeks they move by a day with each entry: the copy is older than its message by them."""
    first = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await first.write(letters(await scene.sent(1)))
    producer = await scene.lake.producer("orders", options=AT_ONCE)
    for _ in range(20):
        scene.clock.advance(hours=24)
        await producer.send(Message(b"a day", message_group="d"))
    messages = await scene.sent(1)
    await first.write(letters(messages, first=1))
    await DeadLetterWriter(scene.process(), "billing", "orders", 0).write(letters(messages, first=1))
    assert len(await scene.read()) == 2


@played_on(Scene)
async def test_of_a_letter_whose_message_is_gone_only_the_same_counts_as_written(scene: Scene) -> None:
    messages = await scene.sent(3)
    await DeadLetterWriter(scene.lake, "billing", "orders", 0).write(letters(messages[:2]))
    writer = DeadLetterWriter(scene.process(), "billing", "orders", 0)
    place = messages[1].offset
    assert await writer.write([], lost=[(place + 77, 0), (place, 1)]) == [0]


@played_on(Scene)
async def test_a_call_that_is_cancelled_can_be_made_again(scene: Scene) -> None:
    messages = await scene.sent(3)
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    for turns in range(60):
        task = asyncio.ensure_future(writer.write(letters(messages)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await writer.write(letters(messages))
    assert ids(await scene.read()) == ids(messages)


@pytest.mark.parametrize(
    "change",
    [
        {"DLQ_ORIGIN_TOPIC": None},
        {"DLQ_ORIGIN_OFFSET": "x"},
        {"DLQ_ORIGIN_OFFSET": "-2"},
        {"DLQ_ORIGIN_OFFSET": "\u0662"},
        {"DLQ_ORIGIN_QUEUE": ""},
    ],
)
def test_what_is_no_dead_letter_has_no_origin(change: dict[str, Any]) -> None:
    whole = {
        "DLQ_ORIGIN_TOPIC": "t",
        "DLQ_ORIGIN_QUEUE": "1",
        "DLQ_ORIGIN_OFFSET": "2",
        "RECONSUME_TIMES": "3",
        "DLQ_REASON": "r",
    }
    assert origin_of(whole) == ("t", 1, 2, 3, "r")
    assert origin_of({name: value for name, value in {**whole, **change}.items() if value is not None}) is None


@played_on(Scene)
async def test_what_anybody_sends_to_the_topic_is_no_matter(scene: Scene) -> None:
    messages = await scene.sent(2)
    writer = DeadLetterWriter(scene.lake, "billing", "orders", 0)
    await writer.write(letters(messages[:1]))
    producer = await scene.lake.producer(DLQ, options=AT_ONCE)
    await producer.send(Message(b"stray"))
    await writer.write(letters(messages[1:], first=1))
    assert [one.body for one in await scene.read()] == [b"0", b"stray", b"1"]
