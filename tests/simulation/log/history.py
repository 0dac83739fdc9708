"""What the actors of a run saw, and what the store ever held: the evidence that `checker` judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.log.errors import UnknownOutcome
from penstock.log.produce.receipts import Receipt, SendResult
from penstock.log.runtime.runtime import Clock
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Buffer, ObjectMissing, Put, PutMode, StoredObject, Version


class Archive(MemoryStore):
    """A memory store that forgets nothing: the first object under every key stays readable through `first`."""

    def __init__(self, *, name: str, clock: Clock) -> None:
        super().__init__(name=name, clock=clock)
        self.first: dict[str, StoredObject] = {}
        self.deleted: list[str] = []
        self.created: list[str] = []
        """Every key that came into being, again each time that it did."""
        self.replaced: list[str] = []
        """Every key whose object gave way to another."""

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        absent = key not in self._objects
        version = await super().put(key, data, mode=mode)
        if absent:
            self.created.append(key)
            self.first.setdefault(key, await self.get(key))
        else:
            self.replaced.append(key)
        return version

    async def damage(self, key: str, data: Buffer) -> None:
        """What no process does: other bytes under a key, as if they had been written there."""
        await super().put(key, data, mode=Put.REPLACE)

    async def delete(self, key: str) -> None:
        if key in self._objects:
            self.deleted.append(key)
        await super().delete(key)

    def objects(self) -> list[str]:
        """The keys of all that is there."""
        return list(self._objects)

    def holds(self, key: str) -> bool:
        return key in self._objects


class Past(MemoryStore):
    """Reads of what ever was, as if nothing had been deleted."""

    def __init__(self, archive: Archive) -> None:
        super().__init__()
        self._archive = archive

    async def get(self, key: str) -> StoredObject:
        found = self._archive.first.get(key)
        if found is None:
            raise ObjectMissing("there never was such an object", object=key)
        return found


@dataclass(eq=False, slots=True)
class Send:
    """One message that an application gave to a producer."""

    body: bytes
    receipt: Receipt
    sequence: int | None = None
    is_placed: bool = False
    """Whether its sender named its queue."""

    @property
    def outcome(self) -> SendResult | BaseException | None:
        """What the receipt says in the end; None: the process died before it knew (`History.closed` sees to that)."""
        if not self.receipt.done():
            return None
        error = self.receipt.exception()
        return self.receipt.result() if error is None else error

    @property
    def is_unknown(self) -> bool:
        return self.outcome is None or isinstance(self.outcome, UnknownOutcome)


@dataclass(eq=False, slots=True)
class Session:
    """One open producer, from its opening to its end."""

    process: str
    producer: str
    named: bool
    generation: int
    opened_at: int | None = None
    """Of a named one, the last sequence it found."""
    sends: list[Send] = field(default_factory=list)


Place = tuple[int, int, int]
"""The entry that created this life of the topic, queue, offset."""
Lost = tuple[int, int, int, int]
"""The same of a range: life, queue, first offset, limit offset (exclusive)."""


class Damage(NamedTuple):
    """What befell an object on the store."""

    footer: bool
    """Whether its footer cannot be read either; else only its rows are gone."""


@dataclass(slots=True)
class History:
    """What was seen."""

    sessions: list[Session] = field(default_factory=list)
    seen: dict[Place, bytes] = field(default_factory=dict)
    """What stands at each place, as the first reader to see it saw it."""
    audit: dict[Place, bytes] = field(default_factory=dict)
    """The last life of the topic as a user read it in the end, table and log joined."""
    starts: dict[int, int] = field(default_factory=dict)
    """The earliest offset that was kept of each queue then."""
    lost: list[Lost] = field(default_factory=list)
    """What repairs, and in the end the table, named as lost."""
    damaged: dict[str, Damage] = field(default_factory=dict)
    """Objects that were damaged on purpose."""
    wrong: list[str] = field(default_factory=list)
    """What an actor saw itself that must never be."""
    counts: Counter[str] = field(default_factory=Counter)

    def read(self, who: str, place: Place, body: bytes) -> None:
        """A reader saw ``body`` at ``place``."""
        first = self.seen.setdefault(place, body)
        if first != body:
            self.wrong.append(f"I6 {who} read {body!r} at {place}, where {first!r} was read before")

    def is_lost(self, life: int, queue: int, first: int, limit: int) -> bool:
        """Whether all offsets of a range were named as lost."""
        for *place, start, end in sorted(self.lost):
            if place == [life, queue] and start <= first:
                first = max(first, end)
        return first >= limit

    def closed(self, session: Session) -> None:
        """The producer of a session was closed by a process that lives on: so everything sent has an outcome."""
        for send in session.sends:
            if not send.receipt.done():
                label = f"{send.body[:40]!r} of {session.process}"
                self.wrong.append(f"I13 {label} was left without an outcome by the closing of producer {session.producer}")
