"""What holds a consumer group up, in one word and a sentence. Pure.

The words stand in `penstock group describe`, the console, the alerts and docs/troubleshooting.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import median

from ..workers.lease import MemberWork

KEEPS_UP = timedelta(seconds=5)
"""The age of the oldest message up to which a group with living owners keeps up."""
STORE_SLOW_MS = 1_000
"""The time of a cell's write from which it holds the handlers up."""


class Cause(StrEnum):
    """What holds a consumer group up."""

    NOTHING = "nothing"
    """No message waits, or only for moments."""
    NO_OWNER = "no owner"
    """Messages wait in queues without a living owner."""
    PARKED = "parked"
    """Message groups stand still until an operator releases or skips them."""
    RETRIES = "retries"
    """Messages failed, and wait for their next attempt."""
    THREADS_BUSY = "threads all busy"
    """More threads or processes would do more at once."""
    HANDLERS_SLOW = "handlers slow"
    """Threads are free, and messages wait for earlier ones of their message groups."""
    CACHE_FULL = "cache full"
    """Nothing more is fetched, as the cache or the cell has no room."""
    STORE_SLOW = "store slow"
    """Threads are free, and wait for reads or for writes of cells."""
    UNKNOWN = "not known"
    """The owners tell nothing of their work: they are no PushConsumers, or have just begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFacts:
    """What is known of a group's work at one moment."""

    lag: int = 0
    lag_time: timedelta = timedelta()
    retrying: int = 0
    """Messages that wait for another attempt, blocked message groups as one."""
    parked: int = 0
    in_flight: int = 0
    """Messages that were granted: running, and fetched ahead."""
    unowned: int = 0
    """The part of the lag in queues without a living owner, without what is parked."""
    members: tuple[MemberWork, ...] = ()
    """What the owners tell of their work."""

    @property
    def ready(self) -> int:
        """What waits for nothing but a handler."""
        return max(0, self.lag - self.retrying - self.parked)

    @property
    def threads(self) -> int:
        return sum(one.threads for one in self.members)

    @property
    def busy(self) -> int:
        return sum(one.busy for one in self.members)

    @property
    def write_ms(self) -> float:
        return max((one.write_ms for one in self.members), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWork:
    """How fast a group works, and what holds it up. None: nobody tells."""

    holds: Cause
    because: str
    """The same in a sentence, with what to do."""
    rate_in: float | None = None
    """Messages a second that came into the owned queues."""
    rate_out: float | None = None
    """Messages a second that were done."""
    catch_up: timedelta | None = None
    """The time until nothing waits at these rates. None: never, or not known."""
    handler_p50: timedelta | None = None
    """The time of half of the last handlers at most, running ones included."""
    handler_p95: timedelta | None = None
    threads: int | None = None
    busy: int | None = None
    """The threads whose handler runs now."""
    fetched_ahead: int | None = None
    """Messages in the owners' memory that no handler has begun."""


def holding(facts: WorkFacts) -> Cause:
    """The cause that most of the lag waits for."""
    if not facts.lag:
        return Cause.NOTHING
    if facts.unowned and facts.unowned >= facts.lag - facts.parked - facts.unowned:
        return Cause.NO_OWNER
    if facts.parked and facts.parked >= facts.ready + facts.retrying:
        return Cause.PARKED
    if facts.retrying and facts.retrying >= facts.ready:
        return Cause.RETRIES
    if facts.lag_time < KEEPS_UP and not facts.parked:
        return Cause.NOTHING
    return _in_the_owners(facts) if facts.threads else Cause.UNKNOWN


def _in_the_owners(facts: WorkFacts) -> Cause:
    if facts.write_ms >= STORE_SLOW_MS:
        return Cause.STORE_SLOW
    if facts.busy >= facts.threads:
        return Cause.THREADS_BUSY
    if any(one.paused or (one.full and not one.busy) for one in facts.members):
        return Cause.CACHE_FULL
    return Cause.HANDLERS_SLOW if facts.busy else Cause.STORE_SLOW


def work_of(facts: WorkFacts) -> GroupWork:
    cause = holding(facts)
    if not facts.members:
        return GroupWork(holds=cause, because=_because(cause, facts))
    rate_in, rate_out = (sum(rates) for rates in zip(*((one.in_per_s, one.out_per_s) for one in facts.members), strict=True))
    timed = [one for one in facts.members if one.p95_ms]
    gains = rate_out - rate_in
    return GroupWork(
        holds=cause,
        because=_because(cause, facts),
        rate_in=round(rate_in, 3),
        rate_out=round(rate_out, 3),
        catch_up=timedelta(seconds=round(facts.ready / gains)) if facts.ready and gains * 3600 * 24 * 365 > facts.ready else None,
        handler_p50=timedelta(milliseconds=median(one.p50_ms for one in timed)) if timed else None,
        handler_p95=timedelta(milliseconds=max(one.p95_ms for one in timed)) if timed else None,
        threads=facts.threads,
        busy=facts.busy,
        fetched_ahead=sum(one.fetched for one in facts.members),
    )


def _because(cause: Cause, facts: WorkFacts) -> str:
    return {
        Cause.NOTHING: "nothing waits, or only for moments",
        Cause.NO_OWNER: f"{facts.unowned:,} messages wait in queues that no living worker owns: start workers",
        Cause.PARKED: f"{facts.parked:,} message groups stand still until they are released or skipped",
        Cause.RETRIES: f"{facts.retrying:,} messages failed, and wait for their next attempt: see why below",
        Cause.THREADS_BUSY: f"{facts.busy} of {facts.threads} threads run a handler: add threads or processes, or make handlers quicker",
        Cause.HANDLERS_SLOW: f"{facts.busy} of {facts.threads} threads run a handler, and what is next waits for them in the order of its "
        "message group: make handlers quicker, or message groups finer",
        Cause.CACHE_FULL: "nothing more is fetched, as too much is unsettled: a handler hangs, many messages failed, or the cache is small for "
        "these messages",
        Cause.STORE_SLOW: f"{facts.busy} of {facts.threads} threads run a handler, and the others wait for the store: a write of a cell "
        f"takes {facts.write_ms:,.0f} ms",
        Cause.UNKNOWN: "its owners tell nothing of their work: they are no PushConsumers, or have just begun",
    }[cause]
