"""The demo's producer processes, side by side: started, one killed with its acknowledgement on the way, started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from penstock.log.runtime.runtime import Clock
from penstock.log.stores import StoreStatistics

from ..outcome import Crash, DemoFailed, DriverCrash, Produced, total
from .child import Child
from .reports import Done, Ready, Sent, Share, Stuck


@dataclass(frozen=True, slots=True)
class Listener:
    """The callbacks that are told of a run's progress."""

    following: Callable[[], None] = field(default=lambda: None)
    """The driver follows the topic."""
    started: Callable[[int], None] = field(default=lambda events: None)
    """All producers have read their shares, ``events`` events together, and begin to send."""
    durable: Callable[[int], None] = field(default=lambda events: None)
    """This many events are durable now."""
    killed: Callable[[Crash], None] = field(default=lambda crash: None)
    driver_killed: Callable[[DriverCrash], None] = field(default=lambda crash: None)
    driver_returned: Callable[[DriverCrash], None] = field(default=lambda crash: None)
    returned: Callable[[Crash], None] = field(default=lambda crash: None)
    """The killed producer has sent the rest."""


async def run_producers(
    *,
    lake: str,
    topic: str,
    events: str,
    producers: int,
    clock: Clock,
    events_per_s: float = 0.0,
    syncing: asyncio.Event | None = None,
    crashes: bool = True,
    listener: Listener | None = None,
) -> Produced:
    """Send a capture by ``producers`` processes at once. With ``crashes``, the one with the largest share is killed half-way and started
    again.

    Together they send ``events_per_s``, or as fast as they can, once ``syncing`` is set.

    Raises `DemoFailed` when one of them fails. The others are ended then, as they are when this call is cancelled.
    """
    of_one = events_per_s / producers
    shares = [
        Share(lake=lake, topic=topic, events=events, producers=producers, producer=n, events_per_s=of_one) for n in range(producers)
    ]
    return await _Run(producers, clock, listener or Listener(), syncing, crashes=crashes).run(shares)


class _Run:
    """All producers of one demo."""

    def __init__(self, producers: int, clock: Clock, listener: Listener, syncing: asyncio.Event | None, *, crashes: bool) -> None:
        self._clock = clock
        self._crashes = crashes
        self._syncing = syncing
        self._listener = listener
        self._all_ready = asyncio.Barrier(producers)
        self._children: list[Child] = []
        self._shares: dict[str, int] = {}
        self._durable: dict[str, int] = {}
        self._requests: list[StoreStatistics] = []
        self._crash: Crash | None = None
        self._begun_s: float | None = None

    async def run(self, shares: Sequence[Share]) -> Produced:
        try:
            async with asyncio.TaskGroup() as group:
                for share in shares:
                    group.create_task(self._produce(share))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await asyncio.gather(*(child.end() for child in self._children))
        assert self._begun_s is not None
        return Produced(
            events=sum(self._shares.values()),
            seconds=self._clock.monotonic_s() - self._begun_s,
            crash=self._crash,
            requests=total(self._requests),
        )

    async def _produce(self, share: Share) -> None:
        child = await self._start(share)
        await self._all_ready.wait()
        if self._syncing is not None:
            await self._syncing.wait()
        self._begin()
        victim = max(self._shares, key=lambda name: self._shares[name])
        child.say("stick" if self._crashes and share.name == victim else "send")
        end = await self._follow(child, share)
        if isinstance(end, Done):
            return
        await child.end()
        crash = _crash(share, end, self._clock.wall_ms())
        self._listener.killed(crash)
        child = await self._start(share)
        child.say("send")
        if isinstance(end := await self._follow(child, share), Done):
            self._crash = replace(crash, durable=end.already)
            self._listener.returned(self._crash)

    async def _start(self, share: Share) -> Child:
        """A process that has read its share."""
        child = await Child.start("producer", asdict(share), name=share.name)
        self._children.append(child)
        match await child.hear():
            case Ready(events):
                self._shares[share.name] = events
                return child
            case report:
                raise DemoFailed("a producer spoke out of turn", object=share.name, observed=report)

    def _begin(self) -> None:
        if self._begun_s is not None:
            return
        events = sum(self._shares.values())
        if not events:
            raise DemoFailed("there are no events to send")
        self._begun_s = self._clock.monotonic_s()
        self._listener.started(events)

    async def _follow(self, child: Child, share: Share) -> Done | Stuck:
        """The child's last report, after which it does nothing more."""
        while True:
            match report := await child.hear():
                case Sent(durable):
                    self._note(share, durable)
                case Done() | Stuck():
                    self._note(share, self._shares[share.name] if isinstance(report, Done) else report.acknowledged)
                    self._requests.append(report.requests)
                    return report
                case _:
                    raise DemoFailed("a producer spoke out of turn", object=share.name, observed=report)

    def _note(self, share: Share, durable: int) -> None:
        self._durable[share.name] = durable
        self._listener.durable(sum(self._durable.values()))


def _crash(share: Share, stuck: Stuck, killed_ms: int) -> Crash:
    unheard = stuck.unheard
    return Crash(
        producer=share.name,
        entry=unheard.entry,
        own_entry=unheard.own_entry,
        events=unheard.events,
        first=stuck.first,
        last=unheard.last,
        acknowledged=stuck.acknowledged,
        killed_ms=killed_ms,
    )
