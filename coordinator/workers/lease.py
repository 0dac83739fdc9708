"""Leases of workers. Durations are on the reader's own clock; two clocks are never compared."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ...log.format.forms import decoded
from ...log.format.stored_json import Number, TimeMs, damaged

FORMAT = 1
LEASE_S = 5.0
"""The silence, plus a quarter, after which a worker is replaced."""
LEASE_ON_STORE_S = 15.0
"""The lease where heartbeats are requests to S3."""
LEASE_IDLE_S = 60.0
LEASE_MS_MAX = 7 * 24 * 3600 * 1000
"""The longest lease, against damaged ones."""
IDLE_AFTER_S = 600.0
MARGIN = 0.25
"""The observer's extra part of a lease, as clocks run at different rates."""
BEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class ListedMember:
    """A live member in its worker's heartbeat."""

    number: int
    """Counted from 1; never given twice within a worker."""
    group: str = ""
    """Empty for a member that only plays roles."""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberWork:
    """What a consumer tells of its work, for operators."""

    number: int
    """The member's."""
    threads: int
    busy: int
    """The threads whose handler runs."""
    fetched: int
    """Messages in memory that no handler has begun."""
    in_per_s: float
    """Messages that came into its queues."""
    out_per_s: float
    """Messages that were done."""
    p50_ms: float
    """The times of its last handlers, running ones included; 0: it had none."""
    p95_ms: float
    write_ms: float
    """The time of a write of its cells."""
    full: bool
    """Whether nothing more is fetched, as the cache has no room."""
    paused: bool
    """The same, as a queue's cell has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """A worker's own cell. A process that takes its queues fences it first."""

    worker: str
    lease_ms: int
    beat: int = 0
    """Makes each renewal different."""
    fenced: bool = False
    """Whether the worker was taken for dead."""
    fenced_ms: int = 0
    """The time of the fencing, by the fencing process's clock."""
    members: tuple[ListedMember, ...] = ()
    """The living members. A missing one is over, for ever."""
    label: str = ""
    """A name for people."""
    work: tuple[MemberWork, ...] = ()
    """What some members tell of their work; nothing depends on it."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When a heartbeat was first seen as it is, by the observer's monotonic clock."""

    beat: int
    lease_ms: int
    since_s: float


def sighting_of(before: Sighting | None, found: Heartbeat, now_s: float) -> Sighting:
    """``now_s`` is the time of the answer."""
    if before is not None and (before.beat, before.lease_ms) == (found.beat, found.lease_ms):
        return before
    return Sighting(found.beat, found.lease_ms, now_s)


def is_expired(sighting: Sighting, now_s: float) -> bool:
    """Whether the heartbeat stood still for its lease and the margin."""
    return now_s - sighting.since_s > sighting.lease_ms / 1000 * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class LeaseHold:
    """The time for which a worker may rely on its own lease."""

    lease_s: float
    sent_s: float
    """When the last confirmed renewal was sent."""

    @property
    def until_s(self) -> float:
        """The time from which the worker starts nothing."""
        return self.sent_s + self.lease_s

    @property
    def renew_s(self) -> float:
        return self.sent_s + self.lease_s / BEATS_PER_LEASE


def lease_s(*, usual_s: float, idle_s: float, in_flight: bool) -> float:
    return LEASE_IDLE_S if idle_s >= IDLE_AFTER_S and not in_flight else usual_s


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    members = [[one.number, one.group, *one.topics] for one in heartbeat.members]
    document = {"format": FORMAT, **asdict(heartbeat), "members": members, "work": [astuple(one) for one in heartbeat.work]}
    if not heartbeat.work:
        del document["work"]
    return json.dumps(document, separators=(",", ":")).encode()


_Amount: TypeAlias = Annotated[float, Meta(ge=0)]


class _Form(Struct, frozen=True):
    worker: str
    lease_ms: Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
    beat: Number
    fenced: bool
    members: tuple[tuple[int | str, ...], ...]
    label: str
    fenced_ms: TimeMs = 0
    work: tuple[tuple[Number, Number, Number, Number, _Amount, _Amount, _Amount, _Amount, _Amount, bool, bool], ...] = ()


def decode_heartbeat(data: bytes, *, where: str) -> Heartbeat:
    """Raises `DataDamaged`."""
    try:
        form = decoded(data, _Form)
        members = tuple(_listed(*one) for one in form.members)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError) as error:
        raise damaged("a worker's heartbeat", error, where=where) from error
    return Heartbeat(
        worker=form.worker,
        lease_ms=form.lease_ms,
        beat=form.beat,
        fenced=form.fenced,
        fenced_ms=form.fenced_ms,
        members=members,
        label=form.label,
        work=tuple(MemberWork(*one) for one in form.work),
    )


def _listed(number: int | str, group: int | str, *topics: int | str) -> ListedMember:
    texts = tuple(topic for topic in topics if isinstance(topic, str))
    if not isinstance(number, int) or number < 0 or not isinstance(group, str) or len(texts) != len(topics):
        raise ValueError("a member is a number, a group and topics")
    return ListedMember(number, group, texts)
