"""What happened in a run, in order, and a hash that tells two runs apart."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class Event(NamedTuple):
    """One thing that happened in the simulated world."""

    time_s: float
    process: str
    verb: str
    key: str
    outcome: str


class Trace:
    """All events of a run."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __len__(self) -> int:
        return len(self.events)

    def digest(self) -> str:
        seen = hashlib.sha256()
        for event in self.events:
            seen.update(repr(tuple(event)).encode())
        return seen.hexdigest()

    def tail(self, count: int = 40) -> str:
        """The last events, for people."""
        return "\n".join(f"{e.time_s:14.6f} {e.process:<12} {e.verb:<12} {e.key:<48} {e.outcome}" for e in self.events[-count:])
