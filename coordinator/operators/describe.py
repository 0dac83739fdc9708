"""Describes a consumer group as seen from outside: settings, members, and for every queue its progress and what holds it up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ...log.limits import shown
from ..groups.record import GroupSettings
from ..queues.cell import MessageState, QueueCell, Tries


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """One queue of a topic in a consumer group, as its cell says. A reset or command counts as soon as it is ordered."""

    topic: str
    queue: int
    owner: str
    """The member that owns it, perhaps dead by now; empty: nobody."""
    epoch: int
    """The epoch of the owner; rises with every take."""
    generation: int
    """The generation; rises with every reset."""
    floor: int
    """The offset below which all messages are settled, or wait individually (retries, blocked and parked message groups)."""
    next_offset: int | None
    """The offset of the next message to be stored. None: the topic is gone."""
    lag: int
    """The number of messages that are neither settled nor lost to retention. Of a blocked or parked message group only the first
    counts, as the others are not known without reading."""
    lag_time: timedelta
    """The age of the oldest of them, by its store time. 0 without lag, and where that message is damaged."""
    in_flight: int
    """Messages (of a blocked group: groups) in a handler, or handed out by ``receive``."""
    waiting: int
    """Messages that failed and are run again when due."""
    blocked: int
    """Message groups whose failed message is run again when due."""
    parked: int
    """Message groups that an operator must release or skip."""
    suspects: int
    """Messages and groups that were in flight in a worker that died, and are run again in small company."""
    dead_letters: int
    """Messages given up that are not known to be durable in the dead-letter queue yet."""
    lost_letters: int
    """Messages given up that will never have a dead letter: the message was gone before it was written, by retention or with its topic."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group at one moment."""

    name: str
    settings: GroupSettings
    members: tuple[str, ...]
    """The members that joined, some of them perhaps dead by now; ``lake.workers()`` tells."""
    queues: tuple[QueueProgress, ...]
    """The queues of all topics that it has begun, by topic and queue."""
    lost_letters: int = 0
    """Messages given up that will never have a dead letter, also those of queues that a topic lost when it was made again with fewer."""

    def __repr__(self) -> str:
        return shown(self, f"of group {self.name}", f"queues {len(self.queues)}", f"lag {self.lag}", f"members {len(self.members)}")

    @property
    def lag(self) -> int:
        """The lag in messages, of all queues."""
        return sum(one.lag for one in self.queues)

    @property
    def lag_time(self) -> timedelta:
        """The lag time of the queue that is furthest behind."""
        return max((one.lag_time for one in self.queues), default=timedelta())


def oldest_unsettled(cell: QueueCell, earliest: int, following: int) -> int | None:
    """The offset of the oldest existing message that is not settled. None when there is none."""
    unsettled = [max(first, earliest) for first, limit in cell.settled.gaps(following) if limit > earliest]
    listed = [] if cell.first_listed is None else [max(cell.first_listed, earliest)]
    return min([*unsettled[:1], *listed], default=None)


def queue_progress(
    topic: str, queue: int, cell: QueueCell, *, earliest: int, following: int | None, lag_time: timedelta
) -> QueueProgress:
    """The description of a queue by its cell. Messages from ``earliest`` up to ``following`` are kept."""
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

    return QueueProgress(
        topic=topic,
        queue=queue,
        owner=cell.owner,
        epoch=cell.epoch,
        generation=cell.generation,
        floor=cell.settled.floor,
        next_offset=following,
        lag=lag,
        lag_time=lag_time,
        in_flight=len(cell.granted) + count(lambda tries: tries.state in (MessageState.RUNNING, MessageState.OUT)),
        waiting=sum(tries.state is MessageState.WAITING for tries in cell.tries.values()) + cell.count_spilled,
        blocked=sum(tries.state is MessageState.WAITING for tries in markers),
        parked=sum(tries.state is MessageState.PARKED for tries in markers),
        suspects=count(lambda tries: tries.state is MessageState.SUSPECT),
        dead_letters=len(cell.dead_letters.assigned),
        lost_letters=cell.dead_letters.lost,
    )
