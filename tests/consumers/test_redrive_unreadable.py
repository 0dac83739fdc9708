"""Redrives where letters, or what stands in their topics, cannot be read for a while or are refused: nothing is lost, and nothing sent twice."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.consumers.dead_letters.copy_writer import Copy, CopyWriter, SequencesTaken, name_of
from penstock.consumers.dead_letters.redrive import RedriveReport, redrive
from penstock.consumers.dead_letters.redrive_cell import RedriveCell, RedriveStates
from penstock.log import (
    DataDamaged,
    Position,
    TopicSettings,
)
from penstock.log.stores import Put
from tests.consumers.letters import DLQ, Scene, ids
from tests.consumers.test_redrive import FIFO_ONE, bury, redriven
from tests.playing import played_on


async def hidden(scene: Scene, topic: str) -> dict[str, bytes]:
    """Take the files of a topic's table away. Returns them, to be put back."""
    keys = [info.key for info in await scene.store.list(f"topics/{topic}/") if info.key.endswith(".parquet")]
    files = {key: (await scene.store.get(key)).data for key in keys if "/log/" not in key}
    assert files
    for key in files:
        await scene.store.delete(key)
    return files


async def put_back(scene: Scene, files: dict[str, bytes]) -> None:
    for key, data in files.items():
        await scene.store.put(key, data, mode=Put.REPLACE)


async def given(scene: Scene, *offsets: int) -> None:
    """A redrive dies after it gave these letters their sequences."""
    begun = RedriveCell(scene.process(), "billing", (await scene.lake.topic(DLQ)).tail.state.created_entry)
    await begun.read()
    assert await begun.give(offsets, earliest=0) == list(offsets)


@played_on(Scene, queues=1)
async def test_letters_that_cannot_be_read_for_a_while_go_back_once_they_can(scene: Scene) -> None:
    messages = await scene.sent(7)
    await bury(scene.lake, messages[:5])
    await scene.publish()
    await given(scene, 0, 1, 2, 3, 4)
    files = await hidden(scene, "dlq.billing")
    assert await redrive(scene.process(), "billing", damaged="skip") == RedriveReport()
    await bury(scene.lake, messages[5:], first=5)
    report = await redrive(scene.process(), "billing", damaged="skip")
    assert report == RedriveReport(sent=2, last=6, topics={"orders": 2})
    with pytest.raises(DataDamaged):
        await redrive(scene.process(), "billing")
    await put_back(scene, files)
    assert await redrive(scene.process(), "billing") == RedriveReport(duplicates=7, last=6)
    assert await redrive(scene.process(), "billing") == RedriveReport(duplicates=7, last=6)
    assert ids(await redriven(scene)) == ids([*messages[5:], *messages[:5]])


@played_on(Scene, queues=1)
async def test_a_letter_that_cannot_be_read_is_not_sent_twice_when_others_are_numbered_anew(scene: Scene) -> None:
    """It had gone back before the redrive died. Its number stays until it can be compared."""
    await scene.lake.create_topic("returns", TopicSettings(queues=1))
    messages, returns = await scene.sent(3), await scene.sent(2, "returns")
    await bury(scene.lake, messages[:2])
    await scene.publish()
    await bury(scene.lake, returns, topic="returns")
    await redrive(scene.lake, "billing", where=lambda letter: letter.offset == 2)
    for info in await scene.store.list("coordination/redrives/"):
        await scene.store.delete(info.key)
    await given(scene, 3, 0, 1)
    copies = [Copy(sequence, (await scene.read())[sequence - 1], {"REDRIVE_OFFSET": str(sequence - 1)}) for sequence in (1, 2)]
    life = (await scene.lake.topic(DLQ)).tail.state.created_entry
    await CopyWriter(scene.process(), "orders", name_of("redrive", "billing", life), marks=("REDRIVE_OFFSET",)).write(copies)
    files = await hidden(scene, "dlq.billing")
    await redrive(scene.process(), "billing", damaged="skip", where=lambda letter: letter.offset == 3)
    assert ids(await redriven(scene, "returns")) == ids(returns)
    await put_back(scene, files)
    await redrive(scene.process(), "billing", where=lambda letter: letter.offset < 2)
    assert ids(await redriven(scene)) == ids(messages[:2])


@played_on(Scene, queues=1)
async def test_letters_that_are_refused_now_go_back_once_they_are_not(scene: Scene) -> None:
    """A redrive died after it had given them sequences, and their topics are gone, or take other messages, when the next one comes."""
    for topic in ("gone", "other"):
        await scene.lake.create_topic(topic, TopicSettings(queues=1))
    gone, other, orders = await scene.sent(1, "gone"), await scene.sent(1, "other"), await scene.sent(1)
    for topic, messages in (("gone", gone), ("other", other), ("orders", orders)):
        await bury(scene.lake, messages, topic=topic)
    await given(scene, 0, 1, 2)
    for topic in ("gone", "other"):
        await scene.lake.delete_topic(topic)
    await scene.lake.create_topic("other", FIFO_ONE)
    refused = {"there is no topic gone": 1, "topic other takes FIFO messages now": 1}
    for dry_run in (True, False, False):
        report = await redrive(scene.process(), "billing", dry_run=dry_run)
        assert report == RedriveReport(skipped=2, duplicates=1, last=2, refused=refused), dry_run
    await scene.lake.create_topic("gone", TopicSettings(queues=1))
    await scene.lake.delete_topic("other")
    await scene.lake.create_topic("other", TopicSettings(queues=1))
    assert await redrive(scene.process(), "billing") == RedriveReport(duplicates=3, last=2)
    for topic, messages in (("gone", gone), ("other", other), ("orders", orders)):
        assert ids(await redriven(scene, topic)) == ids(messages)


@played_on(Scene, queues=1)
async def test_what_stands_in_a_file_that_cannot_be_read_is_not_written_again(scene: Scene) -> None:
    messages = await scene.sent(3)
    await bury(scene.lake, messages)
    await scene.publish()
    files = await hidden(scene, "dlq.billing")
    with pytest.raises(DataDamaged, match="cannot be told whether these messages stand there"):
        await bury(scene.process(), messages)
    await put_back(scene, files)
    await bury(scene.process(), messages)
    assert ids(await scene.read()) == ids(messages)


@played_on(Scene, queues=1)
async def test_what_stands_there_under_another_name_is_not_its_own(scene: Scene) -> None:
    """Another group's redrive may have sent the same message back, with the same offset."""
    (message,) = await scene.sent(1)
    one, other = (
        CopyWriter(scene.process(), "orders", name_of("redrive", group, 1), marks=("REDRIVE_OFFSET",))
        for group in ("billing", "mailing")
    )
    await one.write([Copy(0, message, {"REDRIVE_OFFSET": "0"})])
    wanted = {(message.message_id, "0")}

    def place(message_id: str, properties: dict[str, str]) -> tuple[str, str]:
        return message_id, properties.get("REDRIVE_OFFSET", "")

    span: tuple[Position, Position] = ("earliest", "latest")
    assert await one.find_written(wanted, place, span) == wanted
    assert not await other.find_written(wanted, place, span)


@played_on(Scene, queues=1)
async def test_what_stands_there_is_found_though_others_cannot_be_read(scene: Scene) -> None:
    messages = await scene.sent(4)
    await bury(scene.lake, messages[:2])
    await scene.publish()
    await hidden(scene, "dlq.billing")
    for _ in range(2):
        await bury(scene.process(), messages[2:], first=2)


@pytest.mark.parametrize("readable", [0, 1])
@played_on(Scene, queues=1)
async def test_what_retention_took_is_not_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch, readable: int) -> None:
    """Of the letters that one redrive gave sequences, the next one finds that the first is gone, and cannot read the second now."""

    async def offsets(reader: Any) -> dict[int, tuple[int, int]]:
        return {0: (1, 2 + readable)}

    messages = await scene.sent(2 + readable)
    await bury(scene.lake, messages[:2])
    await scene.publish()
    await hidden(scene, "dlq.billing")
    if readable:
        await bury(scene.lake, messages[2:], first=2)
    await given(scene, *range(len(messages)))
    monkeypatch.setattr("penstock.consumers.dead_letters.redrive.Reader.offsets", offsets)
    assert (await redrive(scene.process(), "billing", damaged="skip")).duplicates == readable
    cell = RedriveCell(scene.process(), "billing", (await scene.lake.topic(DLQ)).tail.state.created_entry)
    await cell.read()
    assert cell.cell.dead_letters.sequences() == [(1, 1)]
    states = await RedriveStates.read(scene.process(), "billing", (await scene.lake.topic(DLQ)).tail.state.created_entry)
    assert [states.of(offset) for offset in range(4)] == ["sent", "on its way", "sent" if readable else "no", "no"]


@played_on(Scene, queues=1)
async def test_numbering_anew_moves_what_was_compared_and_does_not_stand_there(scene: Scene) -> None:
    cell = RedriveCell(scene.lake, "billing", 1)
    await cell.read()
    await cell.give((3, 5, 7), earliest=0)
    taken = SequencesTaken("others stand there", operation="write copies")
    taken.last_sequence, taken.written = 9, frozenset({1})
    await cell.renumber(taken, [(3, 0), (5, 1)])
    letters = cell.cell.dead_letters
    assert (letters.sequences(), letters.next_sequence) == ([(7, 2), (3, 10)], 11)
    taken.last_sequence, taken.written = 20, frozenset({10})
    await cell.renumber(taken, [(3, 10)])
    letters = cell.cell.dead_letters
    assert (letters.sequences(), letters.next_sequence) == ([(7, 2)], 11)
