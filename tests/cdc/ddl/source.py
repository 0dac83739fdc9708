"""What a campaign wants of a database: transactions drawn by chance, and what each of them left."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import pyarrow as pa

from tests.cdc.ddl.history import Table

Note: TypeAlias = Callable[[int], None]
"""Called behind each commit, with a place in the log at or behind which it lies."""


class Source(Protocol):
    """One writer at a time."""

    producer: str
    """By which cuts tell the capture's place."""
    empties: bool
    """Whether a table that is gone leaves an empty target; else none."""
    rest: float
    """How often it rests, of all transactions."""
    doing: str
    """What it does now."""
    refused: tuple[type[Exception], ...]
    """How it refuses a transaction that does not fit."""

    def capture(self) -> tuple[str, ...]:
        """What `penstock capture` is told of it."""

    def environment(self) -> Mapping[str, str]:
        """Variables of the capture's process."""

    def prepare(self) -> None:
        """Make the tables that there are at the beginning."""

    def beside(self) -> AbstractContextManager[None]:
        """What runs beside it all the time."""

    def transact(self, note: Note) -> str:
        """Draw something and do it. Returns what it was."""

    def rollback(self) -> None:
        """Give up what is not committed."""

    def restart(self) -> signal.Signals:
        """As after a crash, or in order. Returns how it ended."""

    def unseen(self, note: Note) -> None:
        """Do what a capture that runs would end with. Called while none runs."""

    def finish(self, note: Note) -> None:
        """End what is not ended yet."""

    def tables(self) -> dict[str, Table]:
        """What a capture should have now, by the names of the targets."""

    def shown(self, found: pa.Table) -> pa.Table:
        """A target in the form in which `tables` has rows."""

    def place_of(self, text: str) -> int:
        """A place as cuts write it."""
