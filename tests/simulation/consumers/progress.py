"""C12: whether a queue stands still though something of it could go on: looked at whenever nothing is ready and time is about to pass.

At such a moment all that could be called was called. So whoever waits then for room that there is, or beside messages that it may run,
waits for ever, or until something else happens to wake it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.consumers.world import Consuming


def standing_still(world: Consuming) -> Iterator[str]:
    """The queues of which that is so, in words."""
    for machine in world.machines:
        process = machine.process
        if process is None or process.crashed or process.stopped:
            continue
        for group, consumer in machine.consumers.items():
            for line, processor in consumer._owner.queues.items():
                if not _is_at_rest(processor):
                    continue
                if why := _may_go_on(consumer._owner, processor):
                    yield f"C12 {group} {line} in {process.name}: {why}, and nothing wakes it: {processor.keeper.cell}"


def _is_at_rest(processor: Any) -> bool:
    """Whether its owner waits to be woken, and writes nothing."""
    reading = processor._rereading.task
    return not (
        processor.ended.is_set()
        or processor.keeper.ended.is_set()
        or processor._woken.is_set()
        or not processor._woken._waiters
        or processor._draining
        or not processor._around.member.may_start()
        or processor._around.worker.quiet
        or processor.keeper._writing
        or (reading is not None and not reading.done())  # it wakes the owner at its end
        or processor.schedule.running
    )


def _may_go_on(owner: Any, processor: Any) -> str | None:
    schedule, now_ms = processor.schedule, processor._clock.wall_ms()
    if (
        processor.starving
        and not processor._room.is_set()
        and schedule.room(processor.keeper.cell) > 0
        and owner.room(processor)[0] > 0
    ):
        return "it waits for room that it has"
    if schedule._loaded and not schedule.tracked.suspects and not schedule._waves:
        return "it has messages that are not granted"
    due = (lane for lane in schedule.blocked._active if lane.ready and lane.may_go_on(now_ms))
    if any(lane.marker.tries.company != 1 for lane in due):
        return "a message group is due"
    return None
