"""Many at once: what fails, or was in flight at a death, by the thousand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from penstock.consumers.handlers.results import ConsumeResult, RetryAfter
from penstock.consumers.limits import QueueLimits
from penstock.consumers.statistics import QueueStatistics
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.coordinator.queues import keeper
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import GroupPlan
from tests.simulation.consumers.stage import FAR_TABLE, GROUP, SUCCESS, Stage
from tests.simulation.process import SimProcess
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]


def test_fifteen_hundred_suspects_are_done_in_seconds() -> None:
    """They were in flight when their process was killed; none of them is at fault, and they are not run one by one."""
    stage = Stage(GroupPlan(threads=1600, cache_messages=4000, order=DeliveryOrder.CONCURRENT), machines=2)
    hold = asyncio.Event()

    async def behave(process: SimProcess, message: MessageView) -> ConsumeResult:
        if process.name == "m0":
            await hold.wait()
        return SUCCESS

    async def script() -> None:
        await stage.send_together(*(f"{n}" for n in range(1500)))
        stage.start(0)
        await stage.until("in flight", lambda: stage.cell().in_flight == 1500, within_s=30)
        stage.start(1)
        await asyncio.sleep(3)
        stage.process(0).crash()
        await stage.until("taken", lambda: stage.cell().epoch == 2, within_s=10)
        assert await stage.until("done", lambda: stage.is_settled(1500), within_s=30) < 10

    stage.play(script, behave=behave)


@pytest.mark.slow
def test_thousands_of_message_groups_fail_at_once() -> None:
    """Their cell does not grow beyond its bound, and nothing is dropped for that: what finds no room waits unsettled, and fetching pauses.
    When the handler heals all are settled, and nobody has become a dead letter.
    """
    groups = thoroughly(5_000, 4_000)
    stage = Stage(GroupPlan(max_attempts=100, threads=500), table=FAR_TABLE)
    broken = True

    async def behave(_: SimProcess, message: MessageView) -> object:
        again_ms = 4_000 + int(message.body)  # each at a time of its own, or the cell needs hardly any room for them
        return RetryAfter(timedelta(milliseconds=again_ms)) if broken else SUCCESS

    def failing() -> int:
        return len(stage.cell().markers)

    async def script() -> None:
        nonlocal broken
        await stage.send_together(*(f"{n}" for n in range(groups)), group=None)
        stage.start()
        await stage.until("full of failures", lambda: failing() >= QueueLimits().tracked)
        for _ in range(30):
            await asyncio.sleep(0.2)
            assert failing() <= QueueLimits().tracked * 5 // 4
        assert not stage.started(groups - 1), "no room for it"
        broken = False
        await stage.until("done", lambda: stage.is_settled(groups))

    world = stage.play(script, behave=behave)
    assert world.witness.cell_bytes_max <= CELL_BYTES_MAX
    assert world.history.letters["billing"] == []


@pytest.mark.slow
@pytest.mark.thorough
def test_thousands_of_messages_fail_at_once() -> None:
    """They wait outside of the cell, which stays small; the queue goes on fetching, and keeps only few of them in memory. Each runs again when
    it is due, and none twice.
    """
    count, wait_s = thoroughly(6_000, 3_000), 20.0
    stage = Stage(GroupPlan(order=DeliveryOrder.CONCURRENT, threads=500), table=FAR_TABLE, quiet_s=3600.0)
    due_s: dict[int, float] = {}
    late_s: list[float] = []

    async def behave(_: SimProcess, message: MessageView) -> object:
        number = int(message.body)
        if number in due_s:
            late_s.append(stage.now_s - due_s[number])
            return SUCCESS
        due_s[number] = stage.now_s + wait_s + number / 500
        return RetryAfter(timedelta(seconds=due_s[number] - stage.now_s))

    def queue() -> QueueStatistics:
        (found,) = stage.machine().consumers[GROUP].statistics().queues
        return found

    async def script() -> None:
        await stage.send_together(*(f"{n}" for n in range(count)), group=None)
        stage.start()
        await stage.until("all failed", lambda: len(due_s) == count, within_s=wait_s)
        await stage.until("all wait", lambda: queue().waiting_messages == count)
        assert (queue().lag_messages, queue().fetching_paused) == (count, False)
        assert stage.bare().count_spilled > count - 2 * QueueLimits().tracked
        schedule = stage.machine().consumers[GROUP]._owner.queues["orders", 0].schedule
        assert len(schedule.tracked.messages) <= QueueLimits().retained + 24
        await stage.until("done", lambda: stage.is_settled(count), within_s=120)

    world = stage.play(script, behave=behave)
    assert world.witness.cell_bytes_max <= CELL_BYTES_MAX // 2
    assert min(late_s) >= -0.001
    assert max(late_s) < 1


def test_a_cell_without_any_room_ends_no_consumer_and_its_queue_goes_on_once_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(GroupPlan(max_attempts=None, retry_s=0.2))
    failing, room = True, keeper.ROOM_BYTES

    async def behave(_: SimProcess, message: MessageView) -> object:
        if failing and message.body.startswith(b"bad"):
            raise RuntimeError("it is down")
        return SUCCESS

    async def script() -> None:
        nonlocal failing
        await stage.send_of_groups(*((f"bad {n}", f"b{n}") for n in range(40)), ("good", "g"))
        monkeypatch.setattr(keeper, "ROOM_BYTES", 300)
        stage.start()
        await stage.until("some are blocked", lambda: bool(stage.cell().markers or stage.cell().tries))
        await asyncio.sleep(30)
        assert stage.machine().consumers, "it is still there"
        failing = False
        monkeypatch.setattr(keeper, "ROOM_BYTES", room)
        await stage.until("done", lambda: stage.is_settled(41))

    world = stage.play(script, behave=behave)
    assert world.counts["a consumer ended by itself"] == 0
