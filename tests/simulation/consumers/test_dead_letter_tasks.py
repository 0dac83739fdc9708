"""Dead letters of a group's queues on their way to its dead-letter queue, with consumers that die, are replaced and reset in between.

The writer alone, moved write by write, has `tests/simulation/letters/test_by_hand.py`.
"""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from penstock.consumers.dead_letters.writer import REASON
from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.queues import dead_letter_task
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.keeper import Change, QueueKeeper
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import TOPIC, GroupPlan
from tests.simulation.consumers.stage import GROUP, SUCCESS, Stage
from tests.simulation.faults import Down
from tests.simulation.process import SimProcess
from tests.simulation.requests import Gate
from tests.simulation.small import few_letters

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]

DAY_S = 86_400.0


async def rejecting(_: SimProcess, message: MessageView) -> ConsumeResult:
    return ConsumeResult.DEAD_LETTER if message.body.startswith(b"bad") else SUCCESS


def letters(stage: Stage) -> list[tuple[int, int, bytes]]:
    """(queue, sequence, body), in the order in which they stand."""
    return [(one.origin[1], one.sequence, one.body) for one in stage.world.history.letters[GROUP]]


def held_letter(stage: Stage, number: int, side: Literal["before", "after"]) -> Gate:
    """Hold back what a machine's process writes to the dead-letter queue next, before or after it takes effect."""
    name = stage.process(number).name
    return stage.world.store.hold(side, process=name, verb="put", key=lambda key: f"dlq.{GROUP}/log/0" in key)


async def kill(stage: Stage, number: int) -> None:
    """For good."""
    stage.machine(number)._stopping = True
    stage.process(number).crash()


@pytest.mark.parametrize("side", ["before", "after"])
def test_two_queues_have_the_same_sequence_and_their_owner_dies(side: Literal["before", "after"]) -> None:
    """Each queue's first dead letter has sequence 0. One of the two writes is under way when their owner is killed; the heir writes what
    is not there, and no letter is taken for the other's.
    """
    stage = Stage(queues=2, machines=2)

    async def script() -> None:
        for queue in range(2):
            await stage.send(f"bad {queue}", f"good {queue}", queue=queue)
        stage.start(0)
        await stage.until("started", lambda: stage.machine(0).process is not None)
        gate = held_letter(stage, 0, side)
        await gate.reached()
        assert all(stage.cell(queue).dead_letters.sequences() == [(0, 0)] for queue in range(2))
        await kill(stage, 0)
        stage.start(1)
        await stage.until("taken", lambda: all(stage.cell(queue).epoch == 2 for queue in range(2)))
        gate.release()
        await stage.until("done", lambda: all(stage.is_settled(2, queue) for queue in range(2)))

    stage.play(script, behave=rejecting)
    assert sorted(letters(stage)) == [(0, 0, b"bad 0"), (1, 0, b"bad 1")]


def test_a_later_letter_is_given_while_the_earlier_one_is_under_way_and_a_new_owner_writes_both() -> None:
    """12 is held on its way to the log, 13 is given; the next owner finds both assigned. 13 never stands before 12, nor anything twice."""
    stage = Stage(machines=2)

    async def script() -> None:
        await stage.send(*(f"bad {n}" for n in range(12)))
        stage.start(0)
        await stage.until("twelve are buried", lambda: stage.is_settled(12))
        gate = held_letter(stage, 0, "before")
        await stage.send("bad 12")
        await gate.reached()
        await stage.send("bad 13")
        await stage.until("both are given", lambda: stage.cell().dead_letters.sequences() == [(12, 12), (13, 13)])
        stage.process(0).pause(60)
        stage.start(1)
        await stage.until("the heir has written both", lambda: stage.cell().epoch == 2 and stage.is_settled(14))
        gate.release()
        await stage.send("good")
        await asyncio.sleep(90)
        await stage.until("done", lambda: stage.is_settled(15))

    stage.play(script, behave=rejecting)
    assert letters(stage) == [(0, n, f"bad {n}".encode()) for n in range(14)]


async def begin_with_one_bad_in_each(stage: Stage) -> None:
    """A message that is rejected in either queue, and machine 0 at work."""
    for queue in range(2):
        await stage.send(f"bad {queue}", queue=queue)
    stage.start(0)
    await stage.until("started", lambda: stage.machine(0).process is not None)


def test_what_a_reset_finds_assigned_is_written_first_and_dies_again_under_a_new_sequence() -> None:
    """In both queues, by another owner than gave the first sequence."""
    stage = Stage(queues=2, machines=2)

    async def script() -> None:
        await begin_with_one_bad_in_each(stage)
        gate = held_letter(stage, 0, "before")
        await gate.reached()
        await kill(stage, 0)
        await stage.operate(lambda operators: operators.reset(GROUP, TOPIC, "earliest"))
        stage.start(1)
        await stage.until("done again", lambda: all(stage.cell(q).generation == 1 and stage.is_settled(1, q) for q in range(2)))
        gate.release()

    stage.play(script, behave=rejecting)
    assert [one for one in letters(stage) if one[0] == 0] == [(0, 0, b"bad 0"), (0, 1, b"bad 0")]
    assert [one for one in letters(stage) if one[0] == 1] == [(1, 0, b"bad 1"), (1, 1, b"bad 1")]


def test_letters_under_a_name_that_has_left_the_state_are_not_written_again() -> None:
    """Their owner died between the append and its cell's write, and nobody came for a month, in which others used the topic."""
    stage = Stage(queues=2, machines=2)

    async def script() -> None:
        await begin_with_one_bad_in_each(stage)
        await stage.until("given", lambda: all(stage.cell(queue).dead_letters.sequences() == [(0, 0)] for queue in range(2)))
        gates = [stage.hold(0, "put", f"queues/{GROUP}/{TOPIC}/{queue}") for queue in range(2)]
        for gate in gates:
            await gate.reached()
        await kill(stage, 0)
        stranger = stage.world.kernel.process("stranger")
        lake = stage.world.lake(stranger)
        for day in range(31):
            await asyncio.sleep(DAY_S)
            producer = await stranger.run(lake.producer(f"%DLQ%{GROUP}", name=f"stranger {day}"))
            await stranger.run(producer.close())
        await stranger.run(lake.close())
        stage.start(1)
        await stage.until("taken", lambda: all(stage.cell(queue).epoch == 2 for queue in range(2)))
        for gate in gates:
            gate.release()
        await stage.until("done", lambda: all(stage.is_settled(1, queue) for queue in range(2)), within_s=120)

    stage.play(script, behave=rejecting)
    assert sorted(letters(stage)) == [(0, 0, b"bad 0"), (1, 0, b"bad 1")]


def test_a_letter_is_written_as_soon_as_its_sequence_stands_in_the_cell_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sequence may be written together with what an earlier letter's burial has to say: that burial goes on before anybody else."""
    change = QueueKeeper.change

    async def answered_late(keeper: QueueKeeper, wanted: Change) -> QueueCell:
        cell = await change(keeper, wanted)
        if len(cell.dead_letters.assigned) > 0:  # who assigned it hears of that late
            await asyncio.sleep(0.5)
        return cell

    monkeypatch.setattr(QueueKeeper, "change", answered_late)
    stage = Stage(GroupPlan(max_attempts=1))
    told: list[tuple[str, str]] = []

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(0.2 * int(message.body))
        return ConsumeResult.FAILURE

    async def look() -> None:
        lake = stage.world.lake(stage.process())
        reader = await lake.reader(f"%DLQ%{GROUP}")
        told.extend([(one.body.decode(), one.properties[REASON]) async for one in reader.messages()])

    async def script() -> None:
        await stage.send_of_groups(*((f"{n}", f"g{n}") for n in range(8)))
        stage.start()
        await stage.until("done", lambda: stage.is_settled(8))
        await stage.process().run(look())

    stage.play(script, behave=behave)
    assert sorted(told) == [(f"{n}", "the listener answered FAILURE") for n in range(8)]


@pytest.mark.parametrize("order", list(DeliveryOrder))
@pytest.mark.parametrize("last", ["waits", "dies", "is replaced"])
def test_dead_letters_that_cannot_be_written_stop_what_is_given_up_and_nothing_else(order: DeliveryOrder, last: str) -> None:
    """No more are assigned than there is room for, however many messages fail; what would be given up is not run again while its owner
    lives, and what is good goes on. Once they can be written all of it drains, each letter once.
    """
    stage = Stage(GroupPlan(max_attempts=1, order=order), machines=2)
    outage = Down(f"dlq.{GROUP}/log")
    bad = 30

    async def script() -> None:
        stage.world.store.plan = outage
        await stage.send_of_groups(*((f"bad {n}", f"b{n % 6}") for n in range(bad)))
        stage.start(0)
        await stage.until("full", lambda: len(stage.cell().dead_letters.assigned) == 4)
        await stage.send_of_groups(*((f"good {n}", f"g{n}") for n in range(30)))
        await stage.until("the good are done", lambda: all(stage.started(bad + n) for n in range(30)))
        await asyncio.sleep(30)
        assert len(stage.cell().dead_letters.assigned) == 4
        assert max(stage.started(n) for n in range(bad)) == 1
        if last == "dies":
            await kill(stage, 0)
        if last != "waits":
            stage.start(1)
        if last == "is replaced":
            await stage.machine(0).stop()
        if last != "waits":
            await stage.until("taken", lambda: stage.cell().epoch == 2)
            await asyncio.sleep(30)
            assert len(stage.cell().dead_letters.assigned) == 4
        outage.up = True
        await stage.until("done", lambda: stage.is_settled(bad + 30))

    with few_letters(4):
        world = stage.play(script, behave=rejecting)
    assert world.counts["a consumer ended by itself"] == 0
    assert sorted(body for _, _, body in letters(stage)) == sorted(f"bad {n}".encode() for n in range(bad))


def test_messages_that_an_operator_skips_wait_for_room_too() -> None:
    stage = Stage(GroupPlan(max_attempts=1, policy=DeadLetterPolicy.PARK))
    outage = Down(f"dlq.{GROUP}/log")

    async def script() -> None:
        stage.world.store.plan = outage
        await stage.send_of_groups(*((f"bad {n}", f"b{n % 3}") for n in range(12)))
        stage.start()
        for turn in range(3):
            parked = [turn * 3 + n for n in range(3)]
            await stage.until("parked", lambda heads=parked: sorted(one.head for one in stage.cell().markers.values()) == heads)  # type: ignore[misc]
            await stage.operate(lambda operators: operators.skip(GROUP))
            if len(stage.cell().dead_letters.assigned) >= 4:
                break
        await asyncio.sleep(10)
        assert len(stage.cell().dead_letters.assigned) == 6, "the third order waits"
        outage.up = True
        await stage.until("skipped", lambda: sorted(one.head for one in stage.cell().markers.values()) == [9, 10, 11])
        await stage.operate(lambda operators: operators.skip(GROUP))
        await stage.until("done", lambda: stage.is_settled(12))

    with few_letters(4):
        stage.play(script, behave=rejecting)
    assert sorted(body for _, _, body in letters(stage)) == sorted(f"bad {n}".encode() for n in range(12))


def test_an_owner_that_lives_for_a_moment_only_makes_the_line_of_letters_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell hears of each few that are written, not only of all."""
    monkeypatch.setattr(dead_letter_task, "_TOGETHER", 3)
    stage = Stage(GroupPlan(max_attempts=1), machines=2)
    outage = Down(f"dlq.{GROUP}/log")

    async def script() -> None:
        stage.world.store.plan = outage
        await stage.send_of_groups(*((f"bad {n}", f"b{n}") for n in range(20)))
        stage.start(0)
        await stage.until("given up", lambda: len(stage.cell().dead_letters.assigned) == 20)
        outage.up = True
        await stage.until("some are buried", lambda: len(stage.cell().dead_letters.assigned) < 20)
        left = len(stage.cell().dead_letters.assigned)
        outage.up = False
        assert left > 0
        await kill(stage, 0)
        stage.start(1)
        await stage.until("taken", lambda: stage.cell().epoch == 2)
        assert len(stage.cell().dead_letters.assigned) <= left
        outage.up = True
        await stage.until("done", lambda: stage.is_settled(20))

    stage.play(script, behave=rejecting)
    assert [sequence for _, sequence, _ in letters(stage)] == list(range(20))
