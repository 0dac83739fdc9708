"""The state of a capture in the lake: its place in the source's log, and its snapshot's progress.

The key is ``captures/<topic>/<kind>/<name>/state``, written by compare-and-set; ``signals/<id>`` beside it ask for rows. The
place is stored after the events before it are durable.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.stores.protocol import ObjectStore, Put
from ..events.table_types import CAPTURES
from .chosen_tables import ChosenTables
from .state_store import AsyncRunner, CaptureState, StateStore

_FORMAT = 1
KINDS = ("debezium", "mongodb")


RowKey = tuple[int | str, ...]


class RowsChunk(StoredForm, frozen=True):
    """Rows of a table in one batch, recorded before it is sent."""

    table: str
    begins: bool
    """Whether it has the table's first rows."""
    after: RowKey | None
    """The key before its first row, and its last row's; None: no such row, or no key to go on from."""
    last: RowKey | None
    end: Number
    """The last sequence: the producer has it, or nothing of the chunk is there."""

    def is_there(self, last_sequence: int) -> bool:
        return last_sequence >= self.end

    def behind(self, last_sequence: int) -> RowKey | None:
        """The key to read on from; None: the table's beginning."""
        return self.last if self.is_there(last_sequence) else self.after


@dataclass(frozen=True, slots=True)
class SourceState(CaptureState, ABC):
    """The state of one name and one topic."""

    connector: str
    server: str
    """The identity of the source's server, and of its log."""
    offset: str | None = None
    """The connector's own text for a place in the log, at a transaction's beginning; None: no capture has begun."""
    pending: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    """Pending tables that are emptied in the topic first."""
    chunk: RowsChunk | None = None
    chosen: ChosenTables | None = None
    """The choice of tables; None: an earlier release did not note it."""
    renewed: bool = False
    """Whether the topic may have rows of an earlier beginning, even if its producers' names are forgotten."""
    opened: tuple[int, int] = (0, 0)
    """The place in the topic's log where the state's writer opened its producer. A process that opened later takes the state
    over; an earlier one is refused.
    """

    @property
    @abstractmethod
    def place(self) -> str | None:
        """The place in the log to go on from, for people; None: not begun."""

    def without_pending(self, table: str) -> Self:
        return replace(
            self,
            pending=tuple(other for other in self.pending if other != table),
            emptied=tuple(other for other in self.emptied if other != table),
            chunk=None,
        )


S = TypeVar("S", bound=SourceState)


class SourceStateForm(StoredForm, frozen=True, kw_only=True):
    """The stored form of such states."""

    format: int
    life: str
    connector: str
    server: str
    offset: str | None
    pending: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    chunk: RowsChunk | None = None
    opened: tuple[Number, Number] = (0, 0)
    chosen: tuple[tuple[str, str], ...] | None = None
    renewed: bool = False

    def fields(self) -> dict[str, Any]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "format"}


F = TypeVar("F", bound=SourceStateForm)


def parse_source_state(data: bytes, where: str, form: type[F], place: type[StoredForm]) -> F:
    """The form of a stored state. ``place``: the form of its place in the log. Raises `DataDamaged`, `NewerFormatError`."""
    found = parse_stored(data, form, what="the state of a capture", where=where, operation="capture")
    if found.offset is not None:
        what = "the place in the log, in the state of a capture,"
        parse_stored(found.offset, place, what=what, where=where, operation="capture")
    return found


class SourceStateStore(StateStore[S]):
    """Reads and writes the state and its signals."""

    format = _FORMAT
    kind: ClassVar[str]

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, name: str) -> None:
        super().__init__(store, run, topic=topic, folder=f"{self.kind}/", name=f"{name}/state")
        self._folder = self.key.removesuffix("state")

    @staticmethod
    def _is_state(key: str) -> bool:
        return key.endswith("/state")

    def take_over(self, life: str, opened: tuple[int, int]) -> S | None:
        """The stored state, closed to processes that opened their producers earlier. Raises `FencedError` after a later one's
        take-over, and as `load`.
        """

        def claimed(state: S) -> S | None:
            if state.life != life or state.opened == opened:
                return None
            if state.opened > opened:
                raise self._fenced(self.key)
            return replace(state, opened=opened)

        return self._claim(claimed)

    # --- Signals ------------------------------------------------------------------------------------------------------------------

    def signal(self, name: str, tables: Iterable[str]) -> None:
        data = json.dumps({"format": _FORMAT, "tables": [*tables]}).encode()
        self._run(lambda: self._store.put(f"{self._folder}signals/{name}", data, mode=Put.CREATE))

    def signals(self) -> dict[str, tuple[str, ...]]:
        """The requested tables that the state lacks, by the signal's key."""
        return {
            found.key: parse_stored(
                self._run(partial(self._store.get, found.key)).data,
                _Signal,
                what="a signal",
                where=found.key,
                operation="capture",
            ).tables
            for found in self._run(lambda: self._store.list(f"{self._folder}signals/"))
        }

    def forget_signals(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._run(partial(self._store.delete, key))


def name_of(key: str) -> str | None:
    """The capture's name in a state's key ``captures/TOPIC/KIND/NAME/state``; None for other keys."""
    match key.removeprefix(CAPTURES).split("/"):
        case [_, kind, name, "state"] if kind in KINDS:
            return name
    return None


class _Signal(StoredForm, frozen=True):
    format: int
    tables: tuple[str, ...]
