"""25,000 messages/s into one queue in which one message group stands still: the others notice nothing, and nothing grows for it.

The rate is the real one. It lasts for one simulated second, as 25,000 messages and their judge take some seconds of a processor: enough
to pass the window of 10,000 messages more than twice. The minutes of the handler that runs for minutes are simulated ones, all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.limits import QueueLimits
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import GroupPlan
from tests.simulation.consumers.stage import FAILURE, GROUP, SUCCESS, Stage
from tests.simulation.process import SimProcess

pytestmark = [pytest.mark.simulation, pytest.mark.slow, pytest.mark.timeout(240)]

RATE = 25_000
"""Messages a second."""
TICK_S = 0.02
HANDLER_S = 0.0005
"""So that 16 handlers at once do 32,000 messages/s: when one of them is held up, the others have no more than a quarter to spare."""
GROUPS = 500
"""Number 0 is the one that stands still."""
WINDOW = QueueLimits().window
CACHE = 8_192
PLAN = GroupPlan(max_attempts=None, retry_s=0.05, threads=16, cache_messages=CACHE)
BEHIND_MAX = RATE // 2
"""Messages of the others that were sent and are not done: half a second's. It takes 0.1 s for one to be stored, fetched and granted."""


LANES_APART_BYTES = 1_024
"""Groups that share a lane run in turn, so that the settled offsets have gaps as wide as the 16 lanes are apart: a bit for each message between."""


class Flood:
    """Messages at that rate, and how far behind its consumer was at the worst moment."""

    def __init__(self, stage: Stage) -> None:
        self.sent = self.others_sent = self.others_done = 0
        self.behind = self.floor_behind = self.in_memory = 0
        self._stage = stage

    async def run(self, seconds: float) -> None:
        began_s = self._stage.now_s
        sending = []
        for tick in range(round(seconds / TICK_S)):
            await asyncio.sleep(max(0.0, began_s + tick * TICK_S - self._stage.now_s))
            numbers = range(self.sent, self.sent + round(RATE * TICK_S))
            sending.append(asyncio.ensure_future(self._stage.send_of_groups(*_messages(numbers))))
            self.sent = numbers.stop
            self.others_sent += sum(n % GROUPS != 0 for n in numbers)
            self.look()
        await asyncio.gather(*sending)
        self.look()

    def look(self) -> None:
        (queue,) = self._stage.machine().consumers[GROUP].statistics().queues
        self.behind = max(self.behind, self.others_sent - self.others_done)
        self.floor_behind = max(self.floor_behind, self.sent - self._stage.cell().settled.floor)
        self.in_memory = max(self.in_memory, queue.cached_messages)

    def check(self) -> None:
        assert self.behind <= BEHIND_MAX, f"{self.behind:,} messages that can run wait"
        assert self.floor_behind <= BEHIND_MAX + WINDOW, f"the floor is held back by {self.floor_behind:,} messages"
        assert self.in_memory <= CACHE + QueueLimits().retained


def _messages(numbers: Iterable[int]) -> list[tuple[str, str]]:
    return [(f"{n}", str(n % GROUPS)) for n in numbers]


def test_a_message_group_fails() -> None:
    """All the time, twenty times a second; then its handler heals."""
    stage = Stage(PLAN)
    flood = Flood(stage)
    healed = False

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(HANDLER_S)
        if message.message_group == "0":
            return SUCCESS if healed else FAILURE
        flood.others_done += 1
        return SUCCESS

    async def script() -> None:
        nonlocal healed
        stage.start()
        await stage.until("taken", lambda: bool(stage.cell().owner))
        await flood.run(1.0)
        flood.check()
        assert stage.started(0) >= 5, "it fails all the time"
        assert stage.cell().settled.floor > WINDOW, "its marker lets the floor go on"
        healed = True
        await stage.until("done", lambda: stage.is_settled(flood.sent))

    world = stage.play(script, behave=behave)
    assert world.witness.cell_bytes_max <= LANES_APART_BYTES, "one marker, and what the lanes are apart"


@pytest.mark.thorough
def test_a_handler_runs_for_three_minutes() -> None:
    """The flood comes in its first second, and again in its last ones; in between the queue is idle."""
    stage = Stage(PLAN, timeout_s=600.0)
    flood = Flood(stage)

    async def behave(_: SimProcess, message: MessageView) -> ConsumeResult:
        await asyncio.sleep(180 if message.body == b"0" else HANDLER_S)
        flood.others_done += message.message_group != "0"
        return SUCCESS

    async def script() -> None:
        stage.start()
        await stage.until("taken", lambda: bool(stage.cell().owner))
        began_s = stage.now_s
        for seconds, pause_s in ((0.6, 170), (0.4, 0)):
            await flood.run(seconds)
            flood.check()
            await stage.until("the others are done", lambda: flood.others_done == flood.others_sent, within_s=10)
            await stage.until("the floor is behind them", lambda: stage.cell().settled.floor == flood.sent, within_s=1)
            assert 0 in [marker.head for marker in stage.cell().markers.values()]
            await asyncio.sleep(pause_s)
        await stage.until("done", lambda: stage.is_settled(flood.sent), within_s=10)
        assert 180 <= stage.now_s - began_s < 185

    world = stage.play(script, behave=behave)
    assert stage.started(0) == 1
    assert world.witness.cell_bytes_max <= 25 * GROUPS, "at most a marker for each group, while the window is full"
