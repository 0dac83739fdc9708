"""What differs from one database to another: how it is started, captured and looked at. `postgres.py` is one; others need only this."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from .books import Rows


@dataclass(frozen=True)
class Snapshot:
    """The whole shop as the database itself showed it at one place of its log."""

    place: int
    place_text: str
    rows: Rows


class Source(Protocol):
    """A database of the demo's own, with an empty database ``shop``."""

    @property
    def name(self) -> str:
        """Its name and version, for people."""
        ...

    @property
    def refused(self) -> tuple[type[Exception], ...]:
        """What a transaction is refused with that may be tried again, such as a deadlock."""
        ...

    @property
    def lost(self) -> type[Exception]:
        """What it raises when it does not answer any more."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """The server, until the block ends. Raises `DemoFailedError`."""
        ...

    def capture(self) -> Sequence[str]:
        """The words behind ``penstock capture``, without the topic and the lake."""
        ...

    def connect(self) -> AbstractContextManager[Any]:
        """A connection as Python's DB-API has it; its transactions are committed by `commit`."""
        ...

    def place(self) -> str:
        """Where the database's log ends now."""
        ...

    def order(self, place: str) -> int:
        """A place as a number, by which places are ordered."""
        ...

    def snapshot(self) -> Snapshot:
        """All tables, read whole in one snapshot of which the database itself says the place. Writers go on meanwhile."""
        ...
