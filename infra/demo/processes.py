"""The demo's producer processes, side by side: started, one killed with its acknowledgement on the way, started again.

Each has a process group of its own, so that Ctrl-C reaches only the parent, which ends them; and ends when the parent does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Self

from ...log.runtime import Clock
from ...log.stores import StoreStatistics
from .outcome import Crash, DemoFailed, Produced, total
from .reports import Done, Failed, Ready, Report, Sent, Share, Stuck, decode_report


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears how it goes."""

    started: Callable[[int], None] = field(default=lambda events: None)
    """All have read their shares, so many events together, and begin to send."""
    durable: Callable[[int], None] = field(default=lambda events: None)
    """So many events are durable now."""
    killed: Callable[[Crash], None] = field(default=lambda crash: None)
    returned: Callable[[Crash], None] = field(default=lambda crash: None)
    """The killed producer has sent the rest."""


class _Child:
    """One process."""

    def __init__(self, process: Process, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._name = name
        self._to = process.stdin
        self._from = process.stdout

    @classmethod
    async def start(cls, share: Share) -> Self:
        program = sys.executable, "-P", "-m", f"{__package__}.producer"
        child = cls(await create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, start_new_session=True), share.name)
        child.say(json.dumps(asdict(share)))
        return child

    def say(self, line: str) -> None:
        self._to.write(line.encode() + b"\n")

    async def hear(self) -> Report:
        """Its next report. Raises `DemoFailed` when it failed, or ended without one."""
        line = await self._from.readline()
        if not line:
            code = await self._process.wait()
            raise DemoFailed("a producer process ended before its work", object=self._name, observed=f"exit code {code}")
        report = decode_report(line)
        if isinstance(report, Failed):
            raise DemoFailed(f"a producer failed: {report.message}", object=self._name)
        return report

    async def kill(self) -> None:
        """SIGKILL, if it still runs; returns when nothing of it is left."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._to.close()
        await self._process.communicate()


async def run_producers(
    *, lake: str, topic: str, events: str, producers: int, clock: Clock, listener: Listener | None = None
) -> Produced:
    """Send a capture by so many processes at once. The one with the largest share is killed half-way and started again.

    Raises `DemoFailed` when one of them fails; the others are ended then, as they are when this call is cancelled.
    """
    shares = [Share(lake=lake, topic=topic, events=events, producers=producers, producer=n) for n in range(producers)]
    return await _Run(producers, clock, listener or Listener()).run(shares)


class _Run:
    """All producers of one demo."""

    def __init__(self, producers: int, clock: Clock, listener: Listener) -> None:
        self._clock = clock
        self._listener = listener
        self._all_ready = asyncio.Barrier(producers)
        self._children: list[_Child] = []
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
            await asyncio.gather(*(child.kill() for child in self._children))
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
        self._begin()
        victim = max(self._shares, key=lambda name: self._shares[name])
        child.say("stick" if share.name == victim else "send")
        end = await self._follow(child, share)
        if isinstance(end, Done):
            return
        await child.kill()
        crash = _crash(share, end)
        self._listener.killed(crash)
        child = await self._start(share)
        child.say("send")
        if isinstance(end := await self._follow(child, share), Done):
            self._crash = replace(crash, durable=end.already)
            self._listener.returned(self._crash)

    async def _start(self, share: Share) -> _Child:
        """A process that has read its share."""
        child = await _Child.start(share)
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

    async def _follow(self, child: _Child, share: Share) -> Done | Stuck:
        """Its reports, up to the one after which it does nothing more."""
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


def _crash(share: Share, stuck: Stuck) -> Crash:
    unheard = stuck.unheard
    return Crash(
        producer=share.name,
        entry=unheard.entry,
        own_entry=unheard.own_entry,
        events=unheard.events,
        first=stuck.first,
        last=unheard.last,
        acknowledged=stuck.acknowledged,
    )
