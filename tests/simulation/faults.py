"""What can go wrong with one store call, and who decides when it does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol


class Fault(Enum):
    """What goes wrong. Unless said otherwise, a call without an answer ends as `StoreUnavailable` at the client's time-out."""

    CRASH_BEFORE = "crash before"
    """The process crashes; the request never leaves."""
    CRASH_IN_FLIGHT = "crash in flight"
    """The process crashes; the request takes effect late."""
    CRASH_AFTER = "crash after"
    """The process crashes as the request takes effect."""
    LOST_REQUEST = "lost request"
    """No effect, no answer."""
    LOST_ANSWER = "lost answer"
    """Takes effect; no answer."""
    LATE_APPLY = "late apply"
    """Takes effect long after the caller gave up."""
    OVERTAKEN = "lands after the decision"
    """A conditional write gets no answer, nor do its repetitions. It takes effect just before the next other write of its key would, whoever
    sent that: all who read the key have decided by then."""
    DUPLICATE = "duplicate"
    """Takes effect, is answered, and takes effect once more long after."""
    UNAVAILABLE = "503"
    """Refused at once, without effect."""
    UNDECIDED = "409"
    """A conditional write refused as undecided, without effect."""
    OWN_CONFLICT = "412 after own success"
    """A conditional write takes effect; the answer is that of a hidden second try."""
    SLOW = "slow"
    """Takes most of the client's time-out, or more."""
    PAUSE_BEFORE = "pause before"
    """The process is paused before the request leaves."""
    PAUSE_AFTER = "pause after"
    """The process is paused as the request takes effect; the answer waits for it."""
    SUSPEND_BEFORE = "suspend before"
    """As a pause, but the machine is suspended."""
    SUSPEND_AFTER = "suspend after"


WRITES = frozenset({"put", "put_large", "delete"})
_ONLY_WRITES = frozenset({Fault.CRASH_IN_FLIGHT, Fault.LATE_APPLY, Fault.DUPLICATE})
_ONLY_CONDITIONAL = frozenset({Fault.UNDECIDED, Fault.OWN_CONFLICT, Fault.OVERTAKEN})
DRAWN = tuple(fault for fault in Fault if fault is not Fault.OVERTAKEN)
"""The faults of a swarm. The other one stops a key for so long that only scenarios made for it have it."""


class Call(NamedTuple):
    """One request to the store, as it leaves the client."""

    number: int
    """Over all processes, from 1."""
    process: str
    process_number: int
    """Of this process, from 1."""
    verb: str
    key: str
    conditional: bool


def possible(fault: Fault, call: Call) -> bool:
    """Whether ``fault`` means anything for ``call``."""
    if fault in _ONLY_CONDITIONAL:
        return call.conditional
    return call.verb in WRITES or fault not in _ONLY_WRITES


class FaultPlan(Protocol):
    """Decides, once for every call, what goes wrong with it."""

    def decide(self, call: Call) -> Fault | None: ...


class RandomFaults:
    """Each call goes wrong with a probability for each fault. Calls of a process depend on that process's calls only."""

    def __init__(self, rates: Mapping[Fault, float], rng_of: Callable[[str], random.Random]) -> None:
        self._rates = sorted(rates.items(), key=lambda item: item[0].value)
        self._total = sum(rates.values())
        self._rng_of = rng_of
        self._rngs: dict[str, random.Random] = {}
        self.active = True
        """Cleared to let everybody come to an end."""

    @classmethod
    def swarm(cls, rng_of: Callable[[str], random.Random], *, rate: float = 0.05, without: Iterable[Fault] = ()) -> RandomFaults:
        """Some kinds of fault, ``rate`` in all on average: runs that leave kinds out go deeper into the others."""
        rng = rng_of("swarm")
        kinds = [fault for fault in DRAWN if fault not in set(without)]
        chosen = [fault for fault in kinds if rng.random() < 0.5] or kinds
        weights = [rng.random() for _ in chosen]
        total = rate * rng.uniform(0.2, 1.8)
        return cls({fault: total * weight / sum(weights) for fault, weight in zip(chosen, weights, strict=True)}, rng_of)

    def decide(self, call: Call) -> Fault | None:
        if not self.active:
            return None
        rng = self._rngs.get(call.process)
        if rng is None:
            rng = self._rngs[call.process] = self._rng_of(f"faults/{call.process}")
        point = rng.random()
        if point >= self._total:
            return None
        for fault, rate in self._rates:
            point -= rate
            if point < 0:
                return fault if possible(fault, call) else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Picks one call: the ``occurrence``-th (from 1) of those that match all that is given."""

    process: str | None = None
    verb: str | None = None
    key: Callable[[str], bool] | None = None
    occurrence: int = 1

    def matches(self, call: Call) -> bool:
        return (
            (self.process is None or self.process == call.process)
            and (self.verb is None or self.verb == call.verb)
            and (self.key is None or self.key(call.key))
        )


class ScriptedFaults:
    """Named faults at named calls; where two meet, the first one listed. ``Where(occurrence=n)`` alone is call n of the run."""

    def __init__(self, script: Sequence[tuple[Where, Fault]]) -> None:
        self._script = list(script)
        self._seen = [0] * len(self._script)
        self.done: list[tuple[Call, Fault]] = []
        """What was injected; empty when the script met no call."""

    def decide(self, call: Call) -> Fault | None:
        found: Fault | None = None
        for index, (where, fault) in enumerate(self._script):
            if where.matches(call):
                self._seen[index] += 1
                if self._seen[index] == where.occurrence and found is None:
                    found = fault
        if found is not None:
            self.done.append((call, found))
        return found


class Outage(RandomFaults):
    """Whatever would be written under keys that contain ``part`` is refused, as long as it is ``active``; else what another plan decides."""

    def __init__(self, part: str, others: FaultPlan | None) -> None:
        super().__init__({}, random.Random)
        self._part = part
        self._others = others

    def decide(self, call: Call) -> Fault | None:
        if not self.active:
            return None
        if call.verb in WRITES and self._part in call.key:
            return Fault.UNAVAILABLE
        return None if self._others is None else self._others.decide(call)


class Down:
    """Whatever would be written under keys that contain ``part`` is refused, until it is ``up``."""

    def __init__(self, part: str) -> None:
        self._part = part
        self.up = False

    def decide(self, call: Call) -> Fault | None:
        return Fault.UNAVAILABLE if not self.up and call.verb in WRITES and self._part in call.key else None


def single_faults(calls: Iterable[Call], kinds: Iterable[Fault] = tuple(Fault)) -> Iterator[tuple[Where, Fault]]:
    """Every possible fault at every call of a run that had none: each pair is the script of one run."""
    for call in calls:
        for fault in kinds:
            if possible(fault, call):
                yield Where(process=call.process, occurrence=call.process_number), fault
