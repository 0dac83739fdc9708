"""Leases: who may believe what about a worker, and until when. Durations on the reader's own clock; two clocks are never compared."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ..log.stored import Number, TimeMs, damaged

FORMAT = 1
LEASE_S = 5.0
"""A worker that is not heard of for so long, and a quarter more, is replaced."""
LEASE_ON_STORE_S = 15.0
"""Where every heartbeat is a request to S3."""
LEASE_IDLE_S = 60.0
LEASE_MS_MAX = 7 * 24 * 3600 * 1000
"""What says more is damaged: nobody would ever take the queues of such a worker."""
IDLE_AFTER_S = 600.0
"""Without traffic for so long, and with nothing in flight, a worker takes the idle lease."""
MARGIN = 0.25
"""Clocks may run at different rates; so much longer than the lease whoever waits for its end waits."""
BEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Listed:
    """A member that lives, as its worker's heartbeat says."""

    number: int
    """Of those of its worker, from 1; never given twice."""
    group: str = ""
    """The consumer group, or empty for who only plays roles."""
    topics: tuple[str, ...] = ()
    """What it consumes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heartbeat:
    """A worker's own cell: it alone renews it, and whoever takes its queues fences it first."""

    worker: str
    lease_ms: int
    beat: int = 0
    """Raised by each renewal, so that no two are alike."""
    fenced: bool = False
    """Taken for dead: the worker starts nothing more, and opens a new session."""
    fenced_ms: int = 0
    """When, by the clock of who did it."""
    members: tuple[Listed, ...] = ()
    """Those that live in it; one that is not here is over, for ever."""
    label: str = ""
    """What the worker calls itself, for people; two may have the same."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When somebody else's heartbeat was first seen as it is now, by the observer's monotonic clock."""

    beat: int
    lease_ms: int
    since_s: float


def sighted(before: Sighting | None, found: Heartbeat, now_s: float) -> Sighting:
    """What an observer knows after reading a heartbeat; ``now_s`` is when the answer came."""
    if before is not None and (before.beat, before.lease_ms) == (found.beat, found.lease_ms):
        return before
    return Sighting(found.beat, found.lease_ms, now_s)


def is_expired(sighting: Sighting, now_s: float) -> bool:
    """Whether the worker may be fenced: its heartbeat stood still for the lease it names itself, and the margin."""
    return now_s - sighting.since_s > sighting.lease_ms / 1000 * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a worker may believe in its own lease."""

    lease_s: float
    sent_s: float
    """When the last confirmed renewal was sent: the answer says nothing about how long it was on its way."""

    @property
    def until_s(self) -> float:
        """From here on the worker starts nothing."""
        return self.sent_s + self.lease_s

    @property
    def renew_s(self) -> float:
        """When it is time to renew."""
        return self.sent_s + self.lease_s / BEATS_PER_LEASE


def lease_s(*, usual_s: float, idle_s: float, in_flight: bool) -> float:
    """The lease that a worker should have now, after so much time without traffic."""
    return LEASE_IDLE_S if idle_s >= IDLE_AFTER_S and not in_flight else usual_s


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """For the worker's cell."""
    members = [[one.number, one.group, *one.topics] for one in heartbeat.members]
    document = {"format": FORMAT, **asdict(heartbeat), "members": members}
    return json.dumps(document, separators=(",", ":")).encode()


class _Form(Struct, frozen=True):
    """Later versions may put more into it."""

    worker: str
    lease_ms: Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
    beat: Number
    fenced: bool
    members: tuple[tuple[int | str, ...], ...]
    label: str
    fenced_ms: TimeMs = 0


def decode_heartbeat(data: bytes, *, where: str) -> Heartbeat:
    """What `encode_heartbeat` gave, by this version or one that knows more. Raises `DataDamaged`."""
    try:
        form = msgspec.json.decode(data, type=_Form)
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


def _listed(number: int | str, group: int | str, *topics: int | str) -> Listed:
    texts = tuple(topic for topic in topics if isinstance(topic, str))
    if not isinstance(number, int) or number < 0 or not isinstance(group, str) or len(texts) != len(topics):
        raise ValueError("a member is a number, a group and topics")
    return Listed(number, group, texts)
