"""Redrive: dead letters go back where they came from, as they were, each once."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from penstock.consumers.dead_letters.copy_writer import Copy, CopyWriter, name_of
from penstock.consumers.dead_letters.redrive import RedriveReport, redrive
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.consumers.dead_letters.writer import (
    DeadLetterWriter,
    dead_letter_properties,
    dead_letter_settings,
    original_properties,
)
from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.delivery import play_once
from penstock.coordinator.timers.options import TimerOptions
from penstock.log import (
    DataDamaged,
    InvalidArgument,
    LimitExceeded,
    LogLake,
    Message,
    MessageView,
    ReadOnlyError,
    TopicLimits,
    TopicNotFound,
    TopicSettings,
)
from penstock.log.limits import MIB
from penstock.log.stores import Put
from tests.consumers.letters import AT_ONCE, DLQ, Scene, ids, letters
from tests.playing import played_on

FIFO_ONE = TopicSettings(message_type="FIFO", queues=1)


async def bury(lake: LogLake, messages: list[MessageView], *, first: int = 0, topic: str = "orders") -> None:
    """All of one queue."""
    await DeadLetterWriter(lake, "billing", topic, messages[0].queue).write(letters(messages, first=first))


async def redriven(scene: Scene, topic: str = "orders") -> list[MessageView]:
    return [one for one in await scene.read(topic) if "REDRIVE_OFFSET" in one.properties]


@played_on(Scene, queues=4)
async def test_dead_letters_go_back_as_they_were(scene: Scene) -> None:
    messages = await scene.sent(12)
    for queue in range(4):
        mine = [one for one in messages if one.queue == queue]
        if mine:
            await bury(scene.lake, mine)
    report = await redrive(scene.lake, "billing")
    assert report == RedriveReport(sent=12, skipped=0, duplicates=0, last=11, topics={"orders": 12})
    back = {one.message_id: one for one in await redriven(scene)}
    dead = {one.message_id: one for one in await scene.read()}
    assert sorted(back) == sorted(ids(messages))
    for message in messages:
        again = back[message.message_id]
        assert again[3:7] == message[3:7], "id, message group, tag, keys"
        assert (again.queue, again.body, again.born_timestamp) == (message.queue, message.body, message.born_timestamp)
        assert again.properties == {**message.properties, "REDRIVE_OFFSET": str(dead[message.message_id].offset)}
        assert again.offset > message.offset
    for group in ("g0", "g1", "g2"):
        order = sorted((one for one in back.values() if one.message_group == group), key=lambda one: one.offset)
        assert ids(order) == [one.message_id for one in messages if one.message_group == group]


@played_on(Scene, queues=1)
async def test_a_repetition_sends_what_came_since(scene: Scene) -> None:
    messages = await scene.sent(6)
    await bury(scene.lake, messages[:4])
    assert await redrive(scene.process(), "billing") == RedriveReport(sent=4, last=3, topics={"orders": 4})
    assert await redrive(scene.process(), "billing") == RedriveReport(duplicates=4, last=3)
    await bury(scene.lake, messages[4:], first=4)
    assert await redrive(scene.lake, "billing") == RedriveReport(sent=2, duplicates=4, last=5, topics={"orders": 2})
    assert ids(await redriven(scene)) == ids(messages)


@played_on(Scene, queues=1)
async def test_redrives_at_once_send_each_letter_once_and_in_order(scene: Scene) -> None:
    messages = await scene.sent(30)
    await bury(scene.lake, messages)
    reports = await asyncio.gather(*(redrive(scene.process(), "billing", limit=limit) for limit in (10, 30, None)))
    assert sum(report.sent for report in reports) >= 30
    assert ids(await redriven(scene)) == ids(messages)


@played_on(Scene, queues=1)
async def test_a_message_that_dies_again_is_redriven_again(scene: Scene) -> None:
    (message,) = await scene.sent(1)
    await bury(scene.lake, [message])
    for times in range(1, 4):
        assert (await redrive(scene.lake, "billing")).sent == 1
        *_, again = await redriven(scene)
        assert (again.message_id, again.offset) == (message.message_id, times)
        await bury(scene.lake, [again], first=times)
    dead = await scene.read()
    assert ids(dead) == [message.message_id] * 4
    assert [one.properties["DLQ_ORIGIN_OFFSET"] for one in dead] == ["0", "1", "2", "3"]
    assert [one.properties.get("REDRIVE_OFFSET") for one in dead] == [None, "0", "1", "2"]


@played_on(Scene, queues=1)
async def test_a_user_s_own_property_of_the_mark_s_name_is_kept_beside_it(scene: Scene) -> None:
    """However often the message dies and goes back."""
    mine = {"REDRIVE_OFFSET": "mine", "DLQ_REDRIVE_OFFSET": "mine too", "other": "x"}
    await bury(scene.lake, await scene.sent(1, properties={"other": "first"}))
    (message,) = (await scene.sent(1, properties=mine))[-1:]
    for times in range(1, 4):
        await bury(scene.lake, [message], first=times)
        *_, dead = await scene.read()
        assert original_properties(dead.properties) == message.properties
        await redrive(scene.lake, "billing", where=lambda letter: letter.offset > 0)
        *_, message = await redriven(scene)
        assert message.properties == {
            "REDRIVE_OFFSET": str(times),
            "DLQ_REDRIVE_OFFSET": "mine",
            "DLQ_DLQ_REDRIVE_OFFSET": "mine too",
            "other": "x",
        }


@played_on(Scene, queues=1)
async def test_the_mark_in_letters_of_before_is_replaced(scene: Scene) -> None:
    """A letter of an earlier release does not tell whose property it was."""
    (message,) = await scene.sent(1, properties={"other": "x"})
    old = {**dead_letter_properties(letters([message])[0]), "REDRIVE_OFFSET": "7"}
    await scene.lake.create_topic(DLQ, dead_letter_settings(TopicLimits()))
    copies = CopyWriter(scene.lake, DLQ, name_of("dead-letters", "orders", 0), marks=("DLQ_SEQUENCE",), queue=0)
    await copies.write([Copy(0, message, old)])
    await redrive(scene.lake, "billing")
    (back,) = await redriven(scene)
    assert back.properties == {"other": "x", "REDRIVE_OFFSET": "0"}


@played_on(Scene, queues=1)
async def test_limit_and_where(scene: Scene) -> None:
    """Whatever was chosen before, the rest can go back later."""
    messages = await scene.sent(9)
    await bury(scene.lake, messages)
    assert await redrive(scene.lake, "billing", limit=2) == RedriveReport(sent=2, last=1, topics={"orders": 2})
    some = await redrive(scene.process(), "billing", limit=2, where=lambda one: one.message_group == "g0")
    assert some == RedriveReport(sent=2, skipped=3, duplicates=2, last=6, topics={"orders": 2})
    one = await redrive(scene.process(), "billing", where=lambda one: one.body == b"8")
    assert one == RedriveReport(sent=1, skipped=4, duplicates=4, last=8, topics={"orders": 1})
    assert await redrive(scene.process(), "billing") == RedriveReport(sent=4, duplicates=5, last=8, topics={"orders": 4})
    assert await redrive(scene.lake, "billing") == RedriveReport(duplicates=9, last=8)
    assert [one.body for one in await redriven(scene)] == [b"0", b"1", b"3", b"6", b"8", b"2", b"4", b"5", b"7"]


@played_on(Scene, queues=1)
async def test_what_one_redrive_has_begun_the_next_one_finishes(scene: Scene) -> None:
    """Letters were given their sequences, and nothing was sent."""
    messages = await scene.sent(5)
    await bury(scene.lake, messages)
    life = (await scene.lake.topic(DLQ)).tail.state.created_entry
    begun = RedriveCell(scene.process(), "billing", life)
    await begun.read()
    assert await begun.give([3, 1], earliest=0) == [3, 1]
    assert await redrive(scene.process(), "billing", limit=1) == RedriveReport(sent=1, last=0, topics={"orders": 1})
    assert [one.body for one in await redriven(scene)] == [b"3", b"1", b"0"]
    assert await redrive(scene.process(), "billing") == RedriveReport(sent=2, duplicates=3, last=4, topics={"orders": 2})


@played_on(Scene, queues=1)
async def test_two_that_choose_the_same_letters_at_once(scene: Scene) -> None:
    messages = await scene.sent(4)
    await bury(scene.lake, messages)
    life = (await scene.lake.topic(DLQ)).tail.state.created_entry
    one, other = RedriveCell(scene.process(), "billing", life), RedriveCell(scene.process(), "billing", life)
    for cell in (one, other):
        await cell.read()
    assert await one.give([0, 1], earliest=0) == [0, 1]
    assert await other.give([1, 2], earliest=0) == [2], "it looks again before it gives"
    assert other.cell.dead_letters.sequences() == [(0, 0), (1, 1), (2, 2)]


@played_on(Scene, queues=1)
async def test_what_is_remembered_is_not_lost_unnoticed(scene: Scene) -> None:
    messages = await scene.sent(3)
    await bury(scene.lake, messages[:2])
    await redrive(scene.lake, "billing")
    for info in await scene.store.list("coordination/redrives/"):
        await scene.store.delete(info.key)
    with pytest.raises(DataDamaged, match="what has gone back is not what is remembered of it"):
        await redrive(scene.process(), "billing", limit=1)
    assert ids(await redriven(scene)) == ids(messages[:2])


@played_on(Scene, queues=1)
async def test_letters_are_not_taken_for_sent_because_others_have_their_sequences(scene: Scene) -> None:
    """The cell was lost, and the next redrive chooses more letters than the one before had sent."""
    messages = await scene.sent(4)
    await bury(scene.lake, messages)
    assert (await redrive(scene.lake, "billing", where=lambda letter: letter.offset == 2)).sent == 1
    for info in await scene.store.list("coordination/redrives/"):
        await scene.store.delete(info.key)
    assert (await redrive(scene.process(), "billing", where=lambda letter: letter.offset < 2)).sent == 2
    assert sorted(ids(await redriven(scene))) == sorted(ids(messages[:3]))
    assert (await redrive(scene.process(), "billing", where=lambda letter: letter.offset != 2)).sent == 1
    assert sorted(ids(await redriven(scene))) == sorted(ids(messages))


@played_on(Scene, queues=1)
async def test_what_has_gone_back_to_another_topic_is_not_sent_again_when_one_is_numbered_anew(scene: Scene) -> None:
    await scene.lake.create_topic("returns", TopicSettings(queues=1))
    messages = [*await scene.sent(2), *await scene.sent(2, "returns")]
    await bury(scene.lake, messages[:2])
    await redrive(scene.lake, "billing", limit=1)
    for info in await scene.store.list("coordination/redrives/"):
        await scene.store.delete(info.key)
    await bury(scene.lake, messages[2:], topic="returns")
    await redrive(scene.process(), "billing", where=lambda letter: letter.offset != 0)
    back = [*await redriven(scene), *await redriven(scene, "returns")]
    assert sorted(ids(back)) == sorted(ids(messages))


@played_on(Scene, queues=1)
async def test_a_read_only_lake_sends_nothing(scene: Scene) -> None:
    await bury(scene.lake, await scene.sent(1))
    with pytest.raises(ReadOnlyError):
        await redrive(LogLake(scene.store, runtime=scene.lake.runtime, read_only=True), "billing")
    assert not await scene.store.list("coordination/")


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
@played_on(Scene)
async def test_a_limit_is_a_number_of_messages(scene: Scene, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match="limit must be a positive whole number, or None"):
        await redrive(scene.lake, "billing", limit=limit)


@played_on(Scene)
async def test_a_group_without_dead_letters_says_so(scene: Scene) -> None:
    with pytest.raises(TopicNotFound, match=r"has no dead-letter queue \(.*%DLQ%biling"):
        await redrive(scene.lake, "biling")


@played_on(Scene, queues=1)
async def test_letters_of_several_topics_go_back_to_each(scene: Scene) -> None:
    await scene.lake.create_topic("refunds", TopicSettings(queues=1))
    orders, refunds = await scene.sent(3), await scene.sent(3, "refunds")
    for n in range(3):
        await bury(scene.lake, orders[n : n + 1], first=n)
        await bury(scene.lake, refunds[n : n + 1], first=n, topic="refunds")
    assert await redrive(scene.lake, "billing") == RedriveReport(sent=6, last=5, topics={"orders": 3, "refunds": 3})
    assert ids(await redriven(scene)) == ids(orders)
    assert ids(await redriven(scene, "refunds")) == ids(refunds)


@played_on(Scene, queues=1)
async def test_what_cannot_go_back_is_skipped_and_said(scene: Scene) -> None:
    """And goes back once it can."""
    for topic in ("gone", "fifo"):
        await scene.lake.create_topic(topic, TopicSettings(queues=1))
    orders, gone, fifo = await scene.sent(2), await scene.sent(2, "gone"), await scene.sent(1, "fifo")
    await bury(scene.lake, orders[:1])
    await bury(scene.lake, gone, topic="gone")
    await bury(scene.lake, fifo, topic="fifo")
    stray = await scene.lake.producer(DLQ, options=AT_ONCE)
    await stray.send(Message(b"stray"))
    await bury(scene.lake, orders[1:], first=1)
    for topic in ("gone", "fifo"):
        await scene.lake.delete_topic(topic)
    await scene.lake.create_topic("fifo", FIFO_ONE)
    report = await redrive(scene.lake, "billing")
    assert (report.sent, report.skipped, report.duplicates, report.last) == (2, 4, 0, 5)
    assert report.refused == {
        "there is no topic gone": 2,
        "topic fifo takes FIFO messages now": 1,
        "it does not say where it comes from": 1,
    }
    await scene.lake.create_topic("gone", TopicSettings(queues=1))
    assert (await redrive(scene.lake, "billing")).sent == 2
    assert ids(await redriven(scene, "gone")) == ids(gone)


@played_on(Scene, queues=1)
async def test_letters_in_the_table_go_back_too(scene: Scene) -> None:
    messages = await scene.sent(6)
    await bury(scene.lake, messages[:4])
    await scene.publish()
    await bury(scene.lake, messages[4:], first=4)
    assert await redrive(scene.process(), "billing", limit=2) == RedriveReport(sent=2, last=1, topics={"orders": 2})
    await scene.publish()
    assert await redrive(scene.process(), "billing") == RedriveReport(sent=4, duplicates=2, last=5, topics={"orders": 4})
    assert ids(await redriven(scene)) == ids(messages)


@played_on(Scene, queues=1)
async def test_a_dead_letter_queue_that_was_made_again_is_redriven_from_its_beginning(scene: Scene) -> None:
    messages = await scene.sent(5)
    await bury(scene.lake, messages[:3])
    await redrive(scene.lake, "billing")
    await scene.lake.delete_topic(DLQ)
    await bury(scene.lake, messages[3:], first=3)
    assert await redrive(scene.lake, "billing") == RedriveReport(sent=2, last=1, topics={"orders": 2})
    assert ids(await redriven(scene)) == ids(messages)


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("days", [24, 26, 31])
@played_on(Scene, queues=1)
async def test_a_redrive_that_is_repeated_after_a_month_sends_nothing_again(scene: Scene, days: int, published: bool) -> None:
    messages = await scene.sent(5)
    await bury(scene.lake, messages[:4])
    await redrive(scene.lake, "billing", limit=3)
    await scene.pass_days(days)
    if published:
        await scene.publish()
    await bury(scene.process(), messages[4:], first=4)
    for sent in (2, 0):
        report = await redrive(scene.process(), "billing", where=lambda one: one.body != b"a day")
        assert (report.sent, report.duplicates) == (sent, 5 - sent)
    assert ids(await redriven(scene)) == ids(messages)


@played_on(Scene, queues=1)
async def test_a_letter_of_a_dead_letter_goes_back_to_the_dead_letters(scene: Scene) -> None:
    messages = await scene.sent(1)
    await bury(scene.lake, messages)
    (dead,) = await scene.read()
    await DeadLetterWriter(scene.lake, "audit", DLQ, 0).write(letters([dead]))
    assert (await redrive(scene.lake, "audit")).sent == 1
    report = await redrive(scene.lake, "billing")
    assert (report.sent, report.skipped) == (2, 0)
    assert ids(await redriven(scene)) == ids(messages) * 2


@played_on(Scene, queues=1)
async def test_a_letter_that_cannot_be_read_ends_it_behind_those_that_can_or_is_left_out(scene: Scene) -> None:
    messages = await scene.sent(3)
    large = messages[1]._replace(body=random.Random(1).randbytes(9 * MIB))  # it is staged
    for n, message in enumerate([messages[0], large, messages[2]]):
        await bury(scene.lake, [message], first=n)
    parts = [info.key for info in await scene.store.list("topics/dlq.billing/staged/jobs/") if "parquet" in info.key]
    assert parts
    for part in parts:
        await scene.store.put(part, b"damaged", mode=Put.REPLACE)
    with pytest.raises(DataDamaged):
        await redrive(scene.process(), "billing")
    assert ids(await redriven(scene)) == ids(messages[:1])
    report = await redrive(scene.process(), "billing", damaged="skip")
    assert (report.sent, report.duplicates, report.last) == (1, 1, 2)
    assert ids(await redriven(scene)) == ids([messages[0], messages[2]])


@played_on(Scene, queues=1)
async def test_many_go_in_several_batches_in_order(scene: Scene) -> None:
    (message,) = await scene.sent(1)
    many = [message._replace(message_id=f"{n:032x}") for n in range(2_300)]
    await bury(scene.lake, many)
    assert await redrive(scene.lake, "billing", limit=2_200) == RedriveReport(sent=2_200, last=2_199, topics={"orders": 2_200})
    assert await redrive(scene.lake, "billing") == RedriveReport(sent=100, duplicates=2_200, last=2_299, topics={"orders": 100})
    assert ids(await redriven(scene)) == ids(many)


@played_on(Scene, queues=1)
async def test_dead_letters_of_delayed_messages_go_back_without_a_delay(scene: Scene) -> None:
    """They were due once: they go into the topic itself, with the delivery time they had, and wait no more."""
    await scene.lake.create_topic("later", TopicSettings(message_type="DELAY", queues=1))
    sent = await (await scene.lake.producer("later", options=AT_ONCE)).send(Message(b"remind", "g", delay=timedelta(hours=1)))
    await play_once(scene.lake, timer_cells(scene.lake), "later", TimerOptions())
    assert await scene.read("later") == []
    scene.clock.advance(hours=1, seconds=1)
    await play_once(scene.lake, timer_cells(scene.lake), "later", TimerOptions())
    (delivered,) = await scene.read("later")
    assert delivered.message_id == sent.message_id
    await bury(scene.lake, [delivered], topic="later")
    assert await redrive(scene.lake, "billing") == RedriveReport(sent=1, last=0, topics={"later": 1})
    delivered_again = (await redriven(scene, "later"))[0]
    assert (delivered_again.message_id, delivered_again.message_group) == (sent.message_id, "g")
    assert delivered_again.delivery_timestamp == delivered.delivery_timestamp is not None
    (dead,) = await scene.read()
    assert dead.delivery_timestamp == delivered.delivery_timestamp
    assert len(await scene.read("%TIMER%later")) == 1


@pytest.mark.parametrize("which", ["far", "scattered"])
@played_on(Scene)
async def test_letters_that_cannot_be_remembered_are_not_sent_and_the_others_go_back(scene: Scene, which: str) -> None:
    remembered = RedriveCell(scene.lake, "billing", 1)
    await remembered.read()
    chosen = [2**24 + 20] if which == "far" else list(range(0, 200_000, 2))
    with pytest.raises(LimitExceeded, match="too scattered, or too far"):
        await remembered.give(chosen, earliest=0)
    assert await remembered.give([5, 7], earliest=0) == [5, 7]
    await remembered.read()
    await remembered.bury([(5, 0), (7, 1)])
    assert await remembered.give([2**24 + 20], earliest=2**24) == [2**24 + 20], "retention has taken what was before"
    await remembered.read()
    assert remembered.cell.settled.count_above == 1
    await remembered.close()
