"""The owners of waiting queues: a queue keeps a dead owner until another worker takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from ...terminal import output

if TYPE_CHECKING:
    from ....coordinator import GroupDescription, WorkerStatus

SUSPICIOUS = timedelta(seconds=5)
"""The age of the oldest message from which owners are watched."""
WATCHED = timedelta(seconds=25)
"""The 20 s between an idle worker's heartbeats, and a quarter more."""
_ENDED = "ended"
_DEAD = "is dead: it did not renew its lease"
_SAID = {"silent": f"has been silent for {output.format_value(WATCHED)}", "expired": _DEAD, "fenced": _DEAD, _ENDED: "has ended"}
_SHOWN = 8


def owner_text(owner: str) -> str:
    return f"{owner[:_SHOWN]}…{owner[owner.rfind('/') :]}" if len(owner) > 2 * _SHOWN else owner


def verdicts(found: GroupDescription, workers: Sequence[WorkerStatus]) -> Iterator[str]:
    """A line for each owner that may not live, and one about the takers."""
    by_worker = {one.worker: one for one in workers}
    states: set[str] = set()
    for owner in sorted({one.owner for one in found.queues if one.owner}):
        seen = by_worker.get(owner.rpartition("/")[0])
        state = _state(owner, seen)
        states.add(state)
        if state == "lives":
            continue
        label = seen.heartbeat.label if seen is not None and seen.heartbeat is not None else ""
        process = f" (process {output.printable(label)})" if label else ""
        queues = ", ".join(f"{one.topic} {one.queue}" for one in found.queues if one.owner == owner)
        yield f"Owner {owner_text(owner)}{process} of {queues} {_SAID[state]}."
    if not states - {"lives"}:
        yield "All owners live."
    elif any(one.state.value == "lives" for one in workers):
        yield f"Other consumers of {found.name} live, and take its queues within seconds."
    elif not any(one.may_live for one in workers):
        yield f"No worker of {found.name} lives, so nobody takes its queues: start one."


def _state(owner: str, seen: WorkerStatus | None) -> str:
    """A worker that does not list the owner any more has outlived it."""
    if seen is None or seen.heartbeat is None:
        return _ENDED
    listed = {f"{seen.worker}/{one.number}" for one in seen.heartbeat.members}
    return seen.state.value if owner in listed else _ENDED
