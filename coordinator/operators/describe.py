"""Describes a consumer group from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ...log.limits import shown
from ..cells.keys import worker_of
from ..groups.record import GroupProtocol, GroupSettings
from ..queues.cell import MessageState, QueueCell, Tries
from ..registry.failures import LastFailure
from ..registry.former_work import NOTHING, FormerWork
from ..workers.lease import Heartbeat
from .holding import GroupWork, WorkFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProgress:
    """One queue of a topic in a consumer group. A reset or command counts as soon as it is ordered."""

    topic: str
    queue: int
    owner: str
    """The owning member, perhaps dead; empty without one."""
    epoch: int
    """Rises with every take."""
    generation: int
    """Rises with every reset."""
    committed_offset: int
    """The offset below which all messages are settled or listed."""
    next_offset: int | None
    """None: the topic is gone."""
    lag: int
    """The number of messages neither settled nor lost to retention. Of a blocked or parked message group only the first counts."""
    lag_time: timedelta
    """The age of the oldest, by store time. 0 without lag, and where it is damaged."""
    in_flight: int
    """Messages (of a blocked group: groups) in a handler, or handed out by ``receive``."""
    waiting: int
    """Messages that failed and will run again."""
    blocked: int
    """Message groups whose failed message will run again."""
    parked: int
    interrupted: int
    """Messages and groups that were in flight in a worker that died."""
    dead_letters: int
    """Messages given up whose dead letter is not known to be durable."""
    lost_letters: int
    """Messages without a dead letter for ever: retention or the topic's deletion took them first."""
    waits_for: int | None = None
    """The queue that its message groups had before the topic got more, whose messages come first. None: those are done, or behind a failed one."""
    waiting_groups: int = 0
    """Message groups that wait as one of their messages failed, or is in flight, in a queue that they had before."""

    @property
    def waits_text(self) -> str:
        """``waits for queue 1``; empty where no message waits for a former queue."""
        if self.waits_for is not None:
            return f"waits for queue {self.waits_for}" if self.lag else ""
        return f"message groups that wait for a former queue: {self.waiting_groups}" if self.waiting_groups else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMember:
    """A member of a group of Kafka's clients, as it joined the last finished generation. It may be dead."""

    member_id: str
    instance_id: str | None
    """The name of a static member."""
    client_id: str
    host: str
    principal: str
    """Empty where nobody proves who it is."""
    queues: Mapping[str, tuple[int, ...]]
    """The queues that are assigned to it, by topic, as far as its group's kind of assignment is known."""

    @property
    def queues_text(self) -> str:
        """``orders 0, 1; returns 2``."""
        return "; ".join(f"{topic} {', '.join(map(str, queues))}" for topic, queues in self.queues.items()) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaGroup:
    """What is true of a group of Kafka's clients alone."""

    state: str
    """Kafka's word: Stable with members, Empty without. A rebalance under way is known to the coordinator only."""
    protocol_type: str
    """Such as ``consumer`` or ``connect``."""
    assignor: str
    generation: int
    coordinator: str
    """The gateway that took the group last; empty: none did."""
    members: tuple[KafkaMember, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group at one moment."""

    name: str
    settings: GroupSettings
    members: tuple[str, ...]
    """The members that joined, some perhaps dead."""
    queues: tuple[QueueProgress, ...]
    """Sorted by topic and queue."""
    lost_letters: int = 0
    """Messages without a dead letter for ever, those of queues that a remade topic lacks included."""
    protocol: GroupProtocol = GroupProtocol.PENSTOCK
    """KAFKA: the settings do not apply, and queues without a committed offset are left out."""
    kafka: KafkaGroup | None = None
    """None for groups of Penstock's own consumers."""
    failures: tuple[LastFailure, ...] = ()
    """Why messages that are not done failed last, the newest first, as far as that is kept. None of a group of Kafka's clients."""
    work: GroupWork | None = None
    """How fast it works, and what holds it up. None for a group of Kafka's clients, and where that was not looked for."""

    def __repr__(self) -> str:
        return shown(self, f"of group {self.name}", f"queues {len(self.queues)}", f"lag {self.lag}", f"members {len(self.members)}")

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.queues)

    @property
    def lag_time(self) -> timedelta:
        """The greatest lag time of a queue."""
        return max((one.lag_time for one in self.queues), default=timedelta())


def oldest_unsettled(cell: QueueCell, earliest: int, following: int) -> int | None:
    """The offset of the oldest existing message that is not settled."""
    unsettled = [max(first, earliest) for first, limit in cell.settled.gaps(following) if limit > earliest]
    listed = [] if cell.first_listed is None else [max(cell.first_listed, earliest)]
    return min([*unsettled[:1], *listed], default=None)


def queue_progress(
    topic: str,
    queue: int,
    cell: QueueCell,
    *,
    earliest: int,
    following: int | None,
    lag_time: timedelta,
    left: FormerWork = NOTHING,
) -> QueueProgress:
    """Messages from ``earliest`` up to ``following`` are kept; ``left`` is to be done in former queues."""
    lag = 0
    if following is not None:
        unsettled = cell.settled.gaps(following)
        lag = (
            sum(limit - max(first, earliest) for first, limit in unsettled if limit > earliest)
            + len(cell.tries)
            + cell.count_spilled
            + len(cell.markers)
        )
    markers = [marker.tries for group, marker in cell.markers.items() if group not in left.blocked]

    def count(chosen: Callable[[Tries], bool]) -> int:
        return sum(map(chosen, cell.tries.values())) + sum(map(chosen, markers))

    return QueueProgress(
        topic=topic,
        queue=queue,
        owner=cell.owner,
        epoch=cell.epoch,
        generation=cell.generation,
        committed_offset=cell.settled.floor,
        next_offset=following,
        lag=lag,
        lag_time=lag_time,
        in_flight=len(cell.granted) + count(lambda tries: tries.state in (MessageState.RUNNING, MessageState.OUT)),
        waiting=sum(tries.state is MessageState.WAITING for tries in cell.tries.values()) + cell.count_spilled,
        blocked=sum(tries.state is MessageState.WAITING for tries in markers),
        parked=sum(tries.state is MessageState.PARKED for tries in markers),
        interrupted=count(lambda tries: tries.state is MessageState.SUSPECT),
        dead_letters=len(cell.dead_letters.assigned),
        lost_letters=cell.dead_letters.lost,
        waits_for=left.queue,
        waiting_groups=len(cell.markers) - len(markers),
    )


def facts_of(queues: Sequence[QueueProgress], heartbeats: Mapping[str, Heartbeat], group: str) -> WorkFacts:
    """``heartbeats`` are those of the owners' workers, by worker. A worker without one, or that was fenced, is over."""
    living = {member for worker, one in heartbeats.items() if not one.fenced for member in _members(worker, one)}
    numbers = {(worker, one.number) for worker, beat in heartbeats.items() for one in beat.members if one.group == group}
    return WorkFacts(
        lag=sum(one.lag for one in queues),
        lag_time=max((one.lag_time for one in queues), default=timedelta()),
        retrying=sum(one.waiting + one.blocked + one.interrupted for one in queues),
        parked=sum(one.parked for one in queues),
        in_flight=sum(one.in_flight for one in queues),
        unowned=sum(max(0, one.lag - one.parked) for one in queues if one.owner not in living),
        members=tuple(
            work for worker, beat in heartbeats.items() if not beat.fenced for work in beat.work if (worker, work.number) in numbers
        ),
    )


def workers_to_ask(queues: Sequence[QueueProgress]) -> list[str]:
    """The workers of the queues' owners."""
    return sorted({worker_of(one.owner) for one in queues if one.owner})


def _members(worker: str, beat: Heartbeat) -> list[str]:
    return [f"{worker}/{one.number}" for one in beat.members]
