"""What clients may hold of a gateway that ask for messages: open polls, and answers that they have not read. Beyond, they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ...log import MessageView
from ...log.limits import MIB
from ..protocol import rocketmq_pb2 as pb
from ..protocol.status import Refused

OVERHEAD_BYTES: Final = 1_024
"""What a message takes beside its body, about."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much, of one client and of all. An answer that begins below these is given as a whole: at most 32 messages."""

    client_polls: int = 256
    polls: int = 20_000
    client_bytes: int = 64 * MIB
    bytes: int = 256 * MIB


@dataclass(slots=True)
class Budget:
    """Counts what is held now."""

    bounds: Bounds = field(default_factory=Bounds)
    _polls: Counter[str] = field(default_factory=Counter)
    _held: Counter[str] = field(default_factory=Counter)
    polls: int = 0
    held_bytes: int = 0

    @contextmanager
    def polling(self, client_id: str) -> Iterator[None]:
        """A block in which a client has one more open poll. Raises `Refused` when it has too many, or reads too little."""
        _check("open polls of this client", self._polls.get(client_id, 0) + 1, self.bounds.client_polls)
        _check("open polls at this gateway", self.polls + 1, self.bounds.polls)
        self._check_held(client_id)
        self._polls[client_id] += 1
        self.polls += 1
        try:
            yield
        finally:
            self.polls -= 1
            _less(self._polls, client_id, 1)

    @contextmanager
    def holding(self, client_id: str, messages: list[MessageView]) -> Iterator[None]:
        """A block in which a client reads messages. Raises `Refused` when it reads too little of others."""
        self._check_held(client_id)
        size_bytes = sum(len(one.content) + OVERHEAD_BYTES for one in messages)
        self._held[client_id] += size_bytes
        self.held_bytes += size_bytes
        try:
            yield
        finally:
            self.held_bytes -= size_bytes
            _less(self._held, client_id, size_bytes)

    def _check_held(self, client_id: str) -> None:
        _check("bytes of messages that this client has not read", self._held.get(client_id, 0), self.bounds.client_bytes)
        _check("bytes of messages that clients have not read", self.held_bytes, self.bounds.bytes)


def _check(what: str, found: int, most: int) -> None:
    if found > most:
        raise Refused(pb.TOO_MANY_REQUESTS, f"there are too many {what}: {found}, of {most} at most. Read, and try again later")


def _less(counter: Counter[str], name: str, count: int) -> None:
    counter[name] -= count
    if not counter[name]:
        del counter[name]
