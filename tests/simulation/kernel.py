"""One simulated world: a seed, and everything that follows from it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from tests.simulation.faults import FaultPlan
from tests.simulation.loop import SimLoop, UnhandledError
from tests.simulation.network import Network
from tests.simulation.process import SimClock, SimProcess
from tests.simulation.store import SimStore
from tests.simulation.table import TABLE_NETWORK, SimTable
from tests.simulation.trace import Trace

T = TypeVar("T")


class Kernel:
    """The world of one run. Everything random in it is derived from ``seed`` by name, so that adding an actor shifts no other."""

    def __init__(self, seed: int | str, *, shuffle: bool = True, max_steps: int = 5_000_000) -> None:
        self.seed = seed
        self.loop: SimLoop = SimLoop(self.rng("loop"), shuffle=shuffle, max_steps=max_steps)  # type: ignore[abstract]
        self.trace = Trace()
        self.counts: Counter[str] = Counter()
        """How often each thing happened: pauses, crashes and faults by name; scenarios add theirs."""
        self._names: Counter[str] = Counter()

    def rng(self, name: str) -> random.Random:
        """A stream of chance of its own."""
        return random.Random(f"{self.seed}/{name}")

    def process(self, name: str, *, max_offset_ms: int = 0, max_drift: float = 0.0, clock: SimClock | None = None) -> SimProcess:
        """A new process. Its wall clock is up to ``max_offset_ms`` off in either direction, and its monotonic clock up to
        ``max_drift`` (0.05 is 5 %) too fast or slow; or it has the ``clock`` of another, on the same machine. A name used
        before gets a number: ``worker``, ``worker#2``.
        """
        self._names[name] += 1
        if self._names[name] > 1:
            name = f"{name}#{self._names[name]}"
        if clock is None:
            rng = self.rng(f"clock/{name}")
            clock = SimClock(
                self.loop,
                offset_ms=rng.randint(-max_offset_ms, max_offset_ms),
                rate=1.0 + rng.uniform(-max_drift, max_drift),
                boot_s=rng.uniform(0.0, 1e6),
            )
        return SimProcess(name, loop=self.loop, clock=clock, rng=self.rng(f"process/{name}"), trace=self.trace, counts=self.counts)

    def restart(self, process: SimProcess) -> SimProcess:
        """A new process in place of one that crashed, on its machine."""
        return self.process(process.name.partition("#")[0], clock=process.clock)

    def store(self, *, name: str = "simulated", plan: FaultPlan | None = None, network: Network | None = None) -> SimStore:
        """A store that all processes share; each takes `SimStore.client`."""
        return SimStore(
            name,
            loop=self.loop,
            plan=plan,
            network=network or Network(),
            rng_of=lambda process: self.rng(f"{name}/{process}"),
            trace=self.trace,
            counts=self.counts,
        )

    def table(self, *, name: str = "table", plan: FaultPlan | None = None, network: Network | None = None) -> SimTable:
        """A coordination table that all processes share; each takes `SimTable.client`."""
        return SimTable(
            name,
            loop=self.loop,
            plan=plan,
            network=network or TABLE_NETWORK,
            rng_of=lambda process: self.rng(f"{name}/{process}"),
            trace=self.trace,
            counts=self.counts,
        )

    async def let_pass(self, duration: timedelta) -> None:
        """Wait, in virtual time."""
        await asyncio.sleep(duration.total_seconds())

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the world until ``main``, which is code of no process, is done. A kernel runs once.

        Raises what ``main`` raises, `Deadlock`, `LimitReached`, or `UnhandledError` for an exception that nobody looked at;
        each names the seed.
        """
        try:
            result: T = self.loop.run_until_complete(main)
            if self.loop.unhandled:
                first = self.loop.unhandled[0]
                raise UnhandledError(f"{first['host']}: {first['message']}") from first.get("exception")
            return result
        except BaseException as error:
            error.add_note(f"seed {self.seed!r}, {self.loop.steps} steps, {self.loop.now:.6f} s, {len(self.trace)} events")
            raise
        finally:
            self.loop.close()

    def digest(self) -> str:
        """Equal for equal runs."""
        return f"{self.trace.digest()} {self.loop.steps} {self.loop.now!r}"
