"""Where a group begins: members that start at once, and messages that arrive between their looks at the topic."""

from __future__ import annotations

from typing import Literal

import pytest

from penstock.consumers.handlers.results import ConsumeResult
from penstock.log.message.message import MessageView
from tests.simulation.consumers.plot import GroupPlan
from tests.simulation.consumers.records import Positioned
from tests.simulation.consumers.stage import GROUP, SUCCESS, Stage
from tests.simulation.faults import Fault, ScriptedFaults, Where
from tests.simulation.process import SimProcess

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(120)]


async def _at_once(_: SimProcess, __: MessageView) -> ConsumeResult:
    return SUCCESS


def begun(stage: Stage) -> list[int]:
    """Where the record let each queue begin."""
    told = [record for record in stage.world.history.records if isinstance(record, Positioned)]
    assert [record.line[2] for record in told] == [0, 1], "one vector, once"
    return [record.offset for record in told]


@pytest.mark.parametrize("first", ["earlier", "later"])
def test_latest_is_resolved_twice_and_counts_once(first: Literal["earlier", "later"]) -> None:
    """Two members of a new group look for the latest messages at once, and between their looks messages arrive in both queues. Whoever
    writes first has begun for both: what is behind its vector is delivered, once, and nothing before it.
    """
    stage = Stage(GroupPlan(start="latest"), queues=2, machines=2)

    async def script() -> None:
        for queue in range(2):
            await stage.send("before", queue=queue)
        stage.start(0)
        await stage.until("a process is there", lambda: stage.machine(0).process is not None)
        write = stage.hold(0, "put", f"groups/{GROUP}")
        await write.reached()
        for queue in range(2):
            await stage.send("between", "between", queue=queue)
        stage.start(1)
        if first == "earlier":
            await stage.until("the other has a process", lambda: stage.machine(1).process is not None)
            later = stage.hold(1, "put", f"groups/{GROUP}")
            await later.reached()
            write.release()
            await stage.until("it has begun", lambda: bool(stage.cell().owner))
            later.release()
        else:
            await stage.until("the other has begun", lambda: bool(stage.cell().owner))
            write.release()
        for queue in range(2):
            await stage.send("after", queue=queue)
        await stage.until("done", lambda: all(stage.is_settled(4, queue) for queue in range(2)))

    stage.play(script, behave=_at_once)
    start = 1 if first == "earlier" else 3
    assert begun(stage) == [start, start]
    for queue in range(2):
        assert [stage.started(offset, queue) for offset in range(4)] == [0] * start + [1] * (4 - start)


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.LATE_APPLY, Fault.OWN_CONFLICT, Fault.CRASH_AFTER])
def test_where_a_group_began_is_not_resolved_again_when_the_write_is_in_doubt(fault: Fault) -> None:
    """Messages arrive between the write and the next look: whoever goes on goes on with what stands."""
    stage = Stage(GroupPlan(start="latest"), queues=2)
    begins = Where(process="m0", verb="put", key=lambda key: key == f"groups/{GROUP}")
    stage.world.table.plan = ScriptedFaults([(begins, fault)])

    async def script() -> None:
        for queue in range(2):
            await stage.send("before", queue=queue)
        stage.start()
        for n in range(40):
            await stage.send(f"{n}", queue=n % 2)
        await stage.until("done", lambda: all(stage.is_settled(21, queue) for queue in range(2)), within_s=120)

    stage.world.befall_table(stage.world.table.plan)
    stage.play(script, behave=_at_once)
    assert stage.world.counts[f"fault: {fault.value}"] == 1
    for queue, start in enumerate(begun(stage)):
        assert [stage.started(offset, queue) for offset in range(21)] == [0] * start + [1] * (21 - start)
