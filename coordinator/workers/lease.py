"""Leases: what may be believed about a worker, and until when. Durations are on the reader's own clock; two clocks are never compared."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ...log.format.forms import decoded
from ...log.format.stored_json import Number, TimeMs, damaged

FORMAT = 1
LEASE_S = 5.0
"""The time after which a silent worker is replaced, plus a quarter."""
LEASE_ON_STORE_S = 15.0
"""The lease where every heartbeat is a request to S3."""
LEASE_IDLE_S = 60.0
LEASE_MS_MAX = 7 * 24 * 3600 * 1000
"""The longest lease. A longer one is damage: nobody would ever take the queues of such a worker."""
IDLE_AFTER_S = 600.0
"""The time without traffic, and with nothing in flight, after which a worker takes the idle lease."""
MARGIN = 0.25
"""The part of a lease that an observer waits longer, as clocks may run at different rates."""
BEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class ListedMember:
    """A live member, as its worker's heartbeat says."""

    number: int
    """The member's number in its worker, from 1; never given twice."""
    group: str = ""
    """The consumer group; empty for a member that only plays roles."""
    topics: tuple[str, ...] = ()
    """The topics that it consumes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """A worker's own cell. Only the worker renews it, and a process that takes its queues fences it first."""

    worker: str
    lease_ms: int
    beat: int = 0
    """The number of the renewal, so that no two are alike."""
    fenced: bool = False
    """Whether the worker was taken for dead. It starts nothing more, and opens a new session."""
    fenced_ms: int = 0
    """The time of the fencing, by the clock of the process that did it."""
    members: tuple[ListedMember, ...] = ()
    """The members that live in it. A member that is not here is over, for ever."""
    label: str = ""
    """The worker's name for people; two may have the same."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The time when another's heartbeat was first seen as it is now, by the observer's monotonic clock."""

    beat: int
    lease_ms: int
    since_s: float


def sighted(before: Sighting | None, found: Heartbeat, now_s: float) -> Sighting:
    """An observer's knowledge after reading a heartbeat; ``now_s`` is the time when the answer came."""
    if before is not None and (before.beat, before.lease_ms) == (found.beat, found.lease_ms):
        return before
    return Sighting(found.beat, found.lease_ms, now_s)


def is_expired(sighting: Sighting, now_s: float) -> bool:
    """Whether the worker may be fenced: its heartbeat did not change for its own stated lease, and the margin."""
    return now_s - sighting.since_s > sighting.lease_ms / 1000 * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class LeaseHold:
    """The time for which a worker may believe in its own lease."""

    lease_s: float
    sent_s: float
    """The time when the last confirmed renewal was sent: the answer does not say how long it was on its way."""

    @property
    def until_s(self) -> float:
        """The time from which the worker starts nothing."""
        return self.sent_s + self.lease_s

    @property
    def renew_s(self) -> float:
        """The time of the next renewal."""
        return self.sent_s + self.lease_s / BEATS_PER_LEASE


def lease_s(*, usual_s: float, idle_s: float, in_flight: bool) -> float:
    """The lease that a worker should have now, after this much time without traffic."""
    return LEASE_IDLE_S if idle_s >= IDLE_AFTER_S and not in_flight else usual_s


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """A heartbeat as bytes for the worker's cell."""
    members = [[one.number, one.group, *one.topics] for one in heartbeat.members]
    document = {"format": FORMAT, **asdict(heartbeat), "members": members}
    return json.dumps(document, separators=(",", ":")).encode()


class _Form(Struct, frozen=True):
    """The stored form of a heartbeat. Later versions may have more fields."""

    worker: str
    lease_ms: Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
    beat: Number
    fenced: bool
    members: tuple[tuple[int | str, ...], ...]
    label: str
    fenced_ms: TimeMs = 0


def decode_heartbeat(data: bytes, *, where: str) -> Heartbeat:
    """The inverse of `encode_heartbeat`, also for heartbeats of versions that know more. Raises `DataDamaged`."""
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
    )


def _listed(number: int | str, group: int | str, *topics: int | str) -> ListedMember:
    texts = tuple(topic for topic in topics if isinstance(topic, str))
    if not isinstance(number, int) or number < 0 or not isinstance(group, str) or len(texts) != len(topics):
        raise ValueError("a member is a number, a group and topics")
    return ListedMember(number, group, texts)
