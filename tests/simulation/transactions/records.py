"""What the applications of a run did and were told, and what its table and store ever held: the evidence that `judge` judges."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

Place = tuple[str, int, int]
"""Topic, queue, offset."""


class HasId(Protocol):
    """A transaction, as far as it is told by its id."""

    @property
    def id(self) -> str | None: ...


class Book(StrEnum):
    """What the application's own database says of an order. It is written once."""

    PAID = "paid"
    VOID = "void"


class Fate(StrEnum):
    """What the table says of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(eq=False, slots=True)
class Sent:
    """A message that was given to a transaction."""

    topic: str
    body: bytes
    began_s: float
    durable_s: float | None = None
    """When the application was told so."""


@dataclass(eq=False, slots=True)
class Told:
    """One transaction, as its application saw it."""

    name: str
    """Of the order; bodies begin with it."""
    process: str
    began_s: float
    handle: HasId
    sends: list[Sent] = field(default_factory=list)
    committed_s: float | None = None
    """When the application was first told so."""
    rolled_back_s: float | None = None
    """When it was told that it is, for ever."""
    insisted: bool = False
    """It committed after a send had failed, of which nothing may be there then."""
    unknown_s: float | None = None
    """When it was told, as it asked for a commit, that there is no such transaction."""
    consumed: list[Place] = field(default_factory=list)
    """The messages that it settles."""

    @property
    def id(self) -> str:
        """Empty: nothing of it ever left its process."""
        return self.handle.id or ""


@dataclass(frozen=True, slots=True)
class Change:
    """A write of the table that changed what it says of a transaction."""

    at_s: float
    fate: Fate
    age_s: float = 0.0
    """Since the table's first word of it."""
    checks: int = 0


@dataclass(slots=True)
class History:
    """What was seen."""

    told: list[Told] = field(default_factory=list)
    books: dict[str, Book] = field(default_factory=dict)
    """The applications' database, by order."""
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """By transaction id, in order."""
    ordered: dict[str, set[Fate]] = field(default_factory=dict)
    """What operators ordered, by transaction id."""
    deleted: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """By topic: when its deletions began and had ended."""
    left: list[str] = field(default_factory=list)
    """What was still staged, or listed anywhere, after everything had been collected."""
    read: dict[str, dict[Place, bytes]] = field(default_factory=dict)
    """What a user read of each topic in the end."""
    to_consume: list[Place] = field(default_factory=list)
    """Every message of the topic that transactions consume from."""
    settled: dict[Place, str] = field(default_factory=dict)
    """Which transaction settled it, as its queue's cell was written."""
    settling: dict[str, str] = field(default_factory=dict)
    """By transaction, the cell of the queue that decided it."""
    wrong: list[str] = field(default_factory=list)
    """What an actor saw itself that must never be."""
    counts: Counter[str] = field(default_factory=Counter)
