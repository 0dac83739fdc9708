"""Dead letters that go back to their group alone, and letters that are changed before they go back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock import ConsumeResult, Message, MessageView, connect
from penstock.consumers.dead_letters.edit import LetterEdit
from penstock.consumers.dead_letters.group_filter import filter_of_group
from penstock.consumers.dead_letters.redrive import RedriveReport, redrive
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.coordinator import GroupSettings
from penstock.log import LogLake, Reader
from tests.consumers.letters import DLQ, Scene
from tests.consumers.test_redrive import bury, redriven
from tests.playing import played_on
from tests.waiting import wait_until

SETTINGS = GroupSettings()


async def taken(lake: LogLake, group: str, settings: GroupSettings = SETTINGS) -> list[bytes]:
    """The bodies that a group takes of orders."""
    kept = filter_of_group(group, settings, "orders")
    batches = [kept.apply(rows) async for rows in Reader(await lake.topic("orders")).read(queue=0)]
    return [body for rows in batches for body in pa.Table.from_batches([rows])["body"].to_pylist()]


@played_on(Scene, queues=1)
async def test_what_goes_back_to_one_group_is_nothing_to_others(scene: Scene) -> None:
    await bury(scene.lake, (await scene.sent(4))[:3])
    assert (await redrive(scene.lake, "billing", where=lambda one: one.offset == 0, only_group=True)).sent == 1
    assert (await redrive(scene.process(), "billing", where=lambda one: one.offset == 1)).sent == 1
    assert await taken(scene.process(), "billing") == [b"0", b"1", b"2", b"3", b"0", b"1"]
    assert await taken(scene.process(), "mails") == [b"0", b"1", b"2", b"3", b"1"]
    first, second = await redriven(scene)
    assert first.properties == {"n": "0", "REDRIVE_OFFSET": "0", "REDRIVE_GROUP": "billing"}
    assert second.properties == {"n": "1", "REDRIVE_OFFSET": "1"}
    again = await redrive(scene.process(), "billing", where=lambda one: one.offset < 2)
    assert (again.sent, again.duplicates) == (0, 2)
    assert GroupSettings(filters={"orders": "none"}).filters
    assert await taken(scene.process(), "billing", GroupSettings(filters={"orders": "none"})) == []


@played_on(Scene, queues=1)
async def test_one_that_dies_again_goes_back_to_all_if_it_is_meant_so(scene: Scene) -> None:
    (message,) = await scene.sent(1, properties={"REDRIVE_GROUP": "mine", "n": "0"})
    await bury(scene.lake, [message])
    for times, alone in enumerate((True, False, True)):
        await redrive(scene.process(), "billing", only_group=alone)
        *_, back = await redriven(scene)
        mark = {"REDRIVE_GROUP": "billing"} if alone else {}
        assert back.properties == {"DLQ_REDRIVE_GROUP": "mine", "n": "0", "REDRIVE_OFFSET": str(times), **mark}
        await bury(scene.lake, [back], first=times + 1)


@played_on(Scene, queues=1)
async def test_a_property_of_a_sender_hides_nothing(scene: Scene) -> None:
    await scene.sent(1, properties={"REDRIVE_GROUP": "mine", "REDRIVE_OFFSET": "0"})
    assert await taken(scene.lake, "billing") == [b"0"]


@pytest.mark.parametrize("is_sent", [False, True])
@played_on(Scene, queues=1)
async def test_what_was_broken_off_goes_on_to_the_group_that_was_meant(scene: Scene, is_sent: bool) -> None:
    await bury(scene.lake, await scene.sent(2))
    life = (await scene.lake.topic(DLQ)).life
    begun = RedriveCell(scene.process(), "billing", life)
    await begun.read()
    assert await begun.give([0], earliest=0, alone=True) == [0]
    for _ in range(1 + is_sent):
        await redrive(scene.process(), "billing")
    assert [one.properties.get("REDRIVE_GROUP") for one in await redriven(scene)] == ["billing", None]
    await begun.read()
    assert not begun.cell.granted


@played_on(Scene, queues=1)
async def test_a_changed_letter_goes_back_in_its_place_once(scene: Scene) -> None:
    messages = await scene.sent(2)
    await bury(scene.lake, messages)
    edit = LetterEdit(
        body=b"mended", by="ann", message_group="g9", tag="new", keys=("k",), properties={"a": "b", "DLQ_REASON": "mine"}
    )
    chosen = {"where": lambda one: one.offset == 1, "edits": {1: edit}}
    assert await redrive(scene.lake, "billing", **chosen) == RedriveReport(sent=1, skipped=1, last=1, topics={"orders": 1})  # type: ignore[arg-type]
    assert (await redrive(scene.process(), "billing", **chosen)).duplicates == 1  # type: ignore[arg-type]
    (back,) = await redriven(scene)
    assert (back.message_id, back.body, back.message_group, back.tag, back.keys) == (
        messages[1].message_id,
        b"mended",
        "g9",
        "new",
        ("k",),
    )
    assert back.properties == {"a": "b", "DLQ_REASON": "mine", "REDRIVE_OFFSET": "1", "REDRIVE_EDITED_BY": "ann"}
    assert [one.body for one in await scene.read()] == [b"0", b"1"]  # the letters are as they were


def letters(lake: penstock.Lake) -> int:
    """The number of dead letters of billing."""
    try:
        return lake.describe_topic("%DLQ%billing").messages
    except penstock.TopicNotFound:  # none yet, or its log has not begun
        return 0


def test_consumers_of_another_group_get_nothing_of_it(tmp_path: Path) -> None:
    got: dict[str, list[bytes]] = {"billing": [], "mails": []}

    def listener(group: str) -> penstock.Listener:
        def listen(message: MessageView) -> ConsumeResult:
            got[group].append(message.body)
            return ConsumeResult.SUCCESS

        return listen

    with connect(tmp_path / "lake") as lake:
        lake.create_topic("orders", queues=1)
        lake.create_group("billing", max_attempts=1, delivery_order="CONCURRENT")
        with lake.producer("orders", linger=timedelta(0)) as producer:
            producer.send(Message(b"bad")).result()
        with lake.push_consumer("orders", group="billing", listener=lambda _: ConsumeResult.FAILURE, start="earliest"):
            wait_until(lambda: letters(lake) == 1, "the letter is written")
        with lake.push_consumer("orders", group="mails", listener=listener("mails"), start="earliest"):
            wait_until(lambda: got["mails"] == [b"bad"], "the other group has it once")
            assert lake.redrive("billing", only_group=True).sent == 1
            with lake.push_consumer("orders", group="billing", listener=listener("billing")):
                wait_until(lambda: b"bad" in got["billing"], "its group has it again")
            with lake.producer("orders", linger=timedelta(0)) as producer:
                producer.send(Message(b"next")).result()
            wait_until(lambda: b"next" in got["mails"], "the other group goes on")
        assert got["mails"] == [b"bad", b"next"]
