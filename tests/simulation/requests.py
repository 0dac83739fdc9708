"""Requests over the simulated network, which delays, loses and repeats them.

Each process has a connection of its own. A request travels, takes effect in one instant and is answered; these are three events of the
loop, so anything can happen between them, and a request whose caller has crashed or given up still takes effect.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Literal, TypeVar, cast

from penstock.log.errors import PenstockError, PermissionDenied, StoreUnavailable
from penstock.log.stores.protocol import Conflict
from tests.simulation.faults import WRITES, Call, Fault, FaultPlan, Where
from tests.simulation.loop import SimLoop
from tests.simulation.network import Course, Network, plan_course
from tests.simulation.process import SimProcess
from tests.simulation.trace import Event, Trace

M = TypeVar("M")
T = TypeVar("T")


class Gate:
    """Holds one request back until the test lets it go."""

    def __init__(self, where: Where, side: Literal["before", "after"], reached: asyncio.Future[Call]) -> None:
        self.where = where
        self.side = side
        self._reached = reached
        self._seen = 0
        self._open = False
        self._held: Callable[[], None] | None = None

    async def reached(self) -> Call:
        """Wait until the request is held: before it takes effect, or after that and before its answer."""
        return await asyncio.shield(self._reached)

    def release(self) -> None:
        """Let the request go on, now if it is held, else when it comes."""
        self._open = True
        if self._held is not None:
            go_on, self._held = self._held, None
            go_on()

    def takes(self, call: Call) -> bool:
        if not self.where.matches(call):
            return False
        self._seen += 1
        return self._seen == self.where.occurrence

    def hold(self, call: Call, go_on: Callable[[], None]) -> None:
        if not self._reached.done():
            self._reached.set_result(call)
        if self._open:
            go_on()
        else:
            self._held = go_on


class SimService(Generic[M]):
    """What all processes of a run share over the network. ``memory`` is what it holds, for checks that cost no time and meet no faults."""

    def __init__(
        self,
        name: str,
        memory: M,
        *,
        loop: SimLoop,
        plan: FaultPlan | None,
        network: Network,
        rng_of: Callable[[str], random.Random],
        trace: Trace,
        counts: Counter[str],
    ) -> None:
        self.name = name
        self.memory = memory
        self.plan = plan
        self.network = network
        self.refuses: Callable[[Call], bool] = lambda _: False
        """Whether what does not answer a call says that the caller has no right to it."""
        self.heard: Callable[[Call], None] = lambda _: None
        """Called when a caller has its answer."""
        self.calls: list[Call] = []
        """Every call that left a client."""
        self.counts = counts
        self.loop = loop
        self.trace = trace
        self.rng_of = rng_of
        self.held: dict[str, _Request] = {}
        """By key, the writes that wait until another write of the key is about to take effect."""
        self._gates: list[Gate] = []
        self._in_flight = 0
        self._settled = asyncio.Event()
        self._settled.set()

    def hold(
        self,
        side: Literal["before", "after"] = "before",
        *,
        process: str | None = None,
        verb: str | None = None,
        key: Callable[[str], bool] | None = None,
        occurrence: int = 1,
    ) -> Gate:
        """Hold back one request from now on, before or after its effect. The client's time-out does not count meanwhile."""
        where = Where(process=process, verb=verb, key=key, occurrence=occurrence)
        gate = Gate(where, side, self.loop.create_future())
        self._gates.append(gate)
        return gate

    async def settled(self) -> None:
        """Wait until every request, late ones and repetitions too, has taken effect. Held ones never do."""
        await self._settled.wait()

    def departs(self) -> None:
        self._in_flight += 1
        self._settled.clear()

    def lands(self) -> None:
        self._in_flight -= 1
        if self._in_flight == 0:
            self._settled.set()

    @property
    def has_gates(self) -> bool:
        return bool(self._gates)

    def gate_of(self, call: Call) -> Gate | None:
        for gate in self._gates:
            if gate.takes(call):
                self._gates.remove(gate)
                return gate
        return None


class Connection(Generic[M]):
    """The way of one process to it."""

    def __init__(self, service: SimService[M], process: SimProcess) -> None:
        self._service = service
        self._process = process
        self._rng = service.rng_of(process.name)
        self._sent = 0

    async def call(
        self,
        verb: str,
        key: str,
        effect: Callable[[M], Coroutine[Any, Any, T]],
        body: bytes = b"",
        *,
        conditional: bool = False,
    ) -> T:
        service, process = self._service, self._process
        if process.crashed:
            await process.halt()
        self._sent += 1
        call = Call(len(service.calls) + 1, process.name, self._sent, verb, key, conditional)
        service.calls.append(call)
        fault = service.plan.decide(call) if service.plan is not None else None
        if (held := service.held.get(key)) is not None and conditional:
            if body and held.body == body:
                fault = Fault.LOST_REQUEST
            elif fault is Fault.OVERTAKEN:
                fault = None
        course = plan_course(fault, verb, service.network, self._rng)
        request = _Request(service, process, call, course, effect, body)
        if fault is not None:
            service.counts[f"fault: {fault.value}"] += 1
            request.note(fault.value)
        if course.first is not None:
            befall(process, course.first, course.stop_s)
            if not process.crashed:
                await asyncio.sleep(0)  # ends with the pause
        return cast("T", await request.send())


class _Request:
    """A request on its way."""

    __slots__ = ("answer", "body", "call", "course", "effect", "error", "gate", "process", "result", "service")

    def __init__(
        self, service: SimService[Any], process: SimProcess, call: Call, course: Course, effect: Callable[[Any], Any], body: bytes
    ) -> None:
        self.service = service
        self.process = process
        self.call = call
        self.course = course
        self.effect = effect
        self.body = body
        self.gate = service.gate_of(call) if service.has_gates else None
        self.result: Any = None
        self.error: PenstockError | None = None
        self.answer: asyncio.Future[Any] = service.loop.create_future()

    def send(self) -> asyncio.Future[Any]:
        course, loop = self.course, self.service.loop
        if course.effect_s is not None:
            self.service.departs()
            if self.gate is not None and self.gate.side == "before":
                loop.call_world(course.effect_s, self.gate.hold, self.call, self.take_effect)
            else:
                loop.call_world(course.effect_s, self.take_effect)
        if course.held_s is not None:
            self.service.departs()
            self.service.held[self.call.key] = self
            loop.call_world(course.held_s, self.land)
        if course.error_s is not None:
            loop.call_world(course.error_s, self.give_up)
        return self.answer

    def land(self) -> None:
        """Take effect at last, unless it has done so already."""
        if self.service.held.get(self.call.key) is self:
            del self.service.held[self.call.key]
            self.take_effect()

    def take_effect(self) -> None:
        course, service = self.course, self.service
        if self.call.verb in WRITES and (held := service.held.get(self.call.key)) is not None:
            held.land()
        service.lands()
        self.result, self.error = self.apply("")
        if self.error is None and self.call.verb in WRITES and (self.process.crashed or self.answer.done()):
            service.counts["write landed after its caller was gone"] += 1
        if course.again_s is not None:
            service.departs()
            service.loop.call_world(course.again_s, self.repeat)
        if course.then is not None:
            befall(self.process, course.then, course.stop_s)
        if self.gate is not None and self.gate.side == "after":
            self.gate.hold(self.call, self.leave)
        else:
            self.leave()

    def leave(self) -> None:
        if self.course.answer_s is not None:
            self.service.loop.call_world(self.course.answer_s, self.arrive)

    def repeat(self) -> None:
        self.service.lands()
        if self.apply("again: ")[1] is None:
            self.service.counts["write landed twice"] += 1

    def apply(self, label: str) -> tuple[Any, PenstockError | None]:
        try:
            result = _at_once(self.effect(self.service.memory))
        except PenstockError as error:
            self.note(f"{label}{error.kind}")
            return None, error.with_traceback(None)  # no cycle through this frame: collections are rare
        self.note(f"{label}{len(self.body)} bytes {zlib.crc32(self.body):08x}" if self.body else f"{label}{_brief(result)}")
        return result, None

    def arrive(self) -> None:
        if self.answer.done():
            self.service.counts["answer to nobody"] += 1
            return
        self.service.heard(self.call)
        if self.error is not None:
            self.answer.set_exception(self.error)
        elif self.course.own_conflict:
            self.answer.set_exception(Conflict("another's stands there", operation=self.call.verb, object=self.call.key))
        else:
            self.answer.set_result(self.result)

    def give_up(self) -> None:
        if self.answer.done():
            return
        what = {"operation": self.call.verb, "object": self.call.key}
        if self.service.refuses(self.call):
            self.answer.set_exception(PermissionDenied("the store refused", **what))
        elif self.course.undecided:
            self.answer.set_exception(Conflict("the store could not decide", **what))
        else:
            self.answer.set_exception(StoreUnavailable("no answer", **what))

    def note(self, outcome: str) -> None:
        call = self.call
        self.service.trace.events.append(Event(self.service.loop.now, call.process, call.verb, call.key, outcome))


def befall(process: SimProcess, fault: Fault, stop_s: float) -> None:
    """Let the process meet its part of a fault."""
    if fault in {Fault.PAUSE_BEFORE, Fault.PAUSE_AFTER}:
        process.pause(stop_s)
    elif fault in {Fault.SUSPEND_BEFORE, Fault.SUSPEND_AFTER}:
        process.suspend(stop_s)
    else:
        process.crash()


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    # MemoryStore's methods never wait, so one step carries them to their end.
    try:
        work.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    raise AssertionError("the memory store waited")


def _brief(result: object) -> str:
    return f"{len(result)} found" if isinstance(result, list) else "ok"
