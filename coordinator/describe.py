"""What a consumer group looks like from outside: settings, members, and for every queue how far it is and what holds it up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from .cell import QueueCell, State, Tries
from .groups import GroupSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """One queue of a topic in a consumer group, as its cell says; a reset or command counts as soon as it is ordered."""

    topic: str
    queue: int
    owner: str
    """The member that holds it, perhaps dead by now; empty: nobody."""
    epoch: int
    """Of the owner: rises with every take."""
    generation: int
    """Rises with every reset."""
    floor: int
    """All messages below are settled, or wait by themselves (retries, blocked and parked message groups)."""
    next_offset: int | None
    """Of the next message to be stored; None: the topic is gone."""
    lag: int
    """Messages that are neither settled nor lost to retention. Of a blocked or parked message group only the first counts, as what is behind
    it is not known without reading."""
    lag_time: timedelta
    """The age of the oldest of them, by its store time; 0 without lag, and where that message is damaged."""
    in_flight: int
    """Messages (of a blocked group: groups) in a handler, or handed out by ``receive``."""
    waiting: int
    """Messages that failed and are run again when due."""
    blocked: int
    """Message groups of which a failed message is run again when due."""
    parked: int
    """Message groups that an operator must release or skip."""
    suspects: int
    """Messages and groups that were in flight in a worker that died, and are run again in small company."""
    dead_letters: int
    """Given up, and not known to be durable in the dead-letter queue yet."""
    lost_letters: int
    """Given up, without a dead letter, and never to have one: the message was gone before it was written, by retention or with its topic."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group at one moment."""

    name: str
    settings: GroupSettings
    members: tuple[str, ...]
    """Those that joined, some of them perhaps dead by now; ``lake.workers()`` tells."""
    queues: tuple[QueueStanding, ...]
    """Of all topics that it has begun, by topic and queue."""
    lost_letters: int = 0
    """Messages given up that never will have a dead letter; also those of queues that a topic had before it was made again with fewer."""

    @property
    def lag(self) -> int:
        """In messages, of all queues."""
        return sum(one.lag for one in self.queues)

    @property
    def lag_time(self) -> timedelta:
        """Of the queue that is furthest behind."""
        return max((one.lag_time for one in self.queues), default=timedelta())


def oldest_unsettled(cell: QueueCell, earliest: int, following: int) -> int | None:
    """The offset of the oldest message that is there and not settled; None when there is none."""
    unsettled = [max(first, earliest) for first, limit in cell.settled.gaps(following) if limit > earliest]
    listed = [] if cell.first_listed is None else [max(cell.first_listed, earliest)]
    return min([*unsettled[:1], *listed], default=None)


def standing(
    topic: str, queue: int, cell: QueueCell, *, earliest: int, following: int | None, lag_time: timedelta
) -> QueueStanding:
    """What a cell says of its queue, whose messages from ``earliest`` up to ``following`` are kept."""
    lag = 0
    if following is not None:
        unsettled = cell.settled.gaps(following)
        lag = (
            sum(limit - max(first, earliest) for first, limit in unsettled if limit > earliest)
            + len(cell.tries)
            + cell.count_spilled
            + len(cell.markers)
        )
    markers = [marker.tries for marker in cell.markers.values()]

    def count(chosen: Callable[[Tries], bool]) -> int:
        return sum(map(chosen, cell.tries.values())) + sum(map(chosen, markers))

    return QueueStanding(
        topic=topic,
        queue=queue,
        owner=cell.owner,
        epoch=cell.epoch,
        generation=cell.generation,
        floor=cell.settled.floor,
        next_offset=following,
        lag=lag,
        lag_time=lag_time,
        in_flight=len(cell.granted) + count(lambda tries: tries.state in (State.RUNNING, State.OUT)),
        waiting=sum(tries.state is State.WAITING for tries in cell.tries.values()) + cell.count_spilled,
        blocked=sum(tries.state is State.WAITING for tries in markers),
        parked=sum(tries.state is State.PARKED for tries in markers),
        suspects=count(lambda tries: tries.state is State.SUSPECT),
        dead_letters=len(cell.dead_letters.assigned),
        lost_letters=cell.dead_letters.lost,
    )
