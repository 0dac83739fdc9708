"""What a capture keeps in the lake besides its topic: where to go on in the source's log, and how far a snapshot is.
``captures/<topic>/<kind>/<name>/state``, written by compare-and-set, and beside it ``signals/<id>``, which ask for rows.

The place to go on is stored after the events before it are durable.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from ...log.errors import FencedError
from ...log.format.stored_json import Number, StoredForm, parse_stored
from ...log.paths import topic_folder
from ...log.stores.protocol import ObjectStore, Put
from ..events.table_types import CAPTURES
from .chosen_tables import ChosenTables
from .state_object import AsyncRunner, StateObject

FORMAT = 1
KINDS = ("debezium", "mongodb")
"""The captures that keep such a state, by the folders of a topic that have theirs."""
_TAKE_OVERS_MAX = 5


@dataclass(frozen=True, slots=True)
class RowsChunk:
    """Rows of a table that are sent as one batch. Written before the batch is sent."""

    table: str
    begins: bool
    """Whether it has the table's first rows."""
    after: tuple[int | str, ...] | None
    """The key behind which it begins, and of its last row; None: there is none, or reading cannot go on behind it."""
    last: tuple[int | str, ...] | None
    end: int
    """The last sequence: the producer has it, or nothing of the chunk is there."""

    def is_there(self, last_sequence: int) -> bool:
        """Whether it is in the topic, by the producer's last sequence."""
        return last_sequence >= self.end

    def behind(self, last_sequence: int) -> tuple[int | str, ...] | None:
        """The key behind which reading goes on; None: it begins with the table's first row."""
        return self.last if self.is_there(last_sequence) else self.after


@dataclass(frozen=True, slots=True)
class SourceState(ABC):
    """The state of one name and one topic."""

    life: str
    """The life of the topic, which may be deleted and made anew."""
    connector: str
    server: str
    """What tells the source's server, and the beginning of its log, from others."""
    offset: str | None = None
    """The connector's own words for a place in the log, at the beginning of a transaction; None: no capture has begun."""
    pending: tuple[str, ...] = ()
    """Tables whose rows are still to be read."""
    emptied: tuple[str, ...] = ()
    """Pending tables that are emptied in the topic before their rows come."""
    chunk: RowsChunk | None = None
    chosen: ChosenTables | None = None
    """What chooses the tables; None: an earlier release did not note it."""
    renewed: bool = False
    """Whether the topic may have rows of an earlier beginning, also where its producers' names are forgotten by now."""
    opened: tuple[int, int] = (0, 0)
    """Where in the topic's log the process that wrote the state opened its producer. A process that opened later takes the state over; one
    that opened earlier is refused."""

    @property
    @abstractmethod
    def place(self) -> str | None:
        """Where in the log the capture would go on, for people; None: it has not begun."""

    def without_pending(self, table: str) -> Self:
        """The state once the rows of a table are in the topic."""
        return replace(
            self,
            pending=tuple(one for one in self.pending if one != table),
            emptied=tuple(one for one in self.emptied if one != table),
            chunk=None,
        )


S = TypeVar("S", bound=SourceState)


class _ChunkForm(StoredForm, frozen=True):
    table: str
    begins: bool
    after: tuple[int | str, ...] | None
    last: tuple[int | str, ...] | None
    end: Number


class SourceStateForm(StoredForm, frozen=True, kw_only=True):
    """The stored form of what all such states have."""

    format: int
    life: str
    connector: str
    server: str
    offset: str | None
    pending: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    chunk: _ChunkForm | None = None
    opened: tuple[Number, Number] = (0, 0)
    chosen: tuple[tuple[str, str], ...] | None = None
    renewed: bool = False

    def fields(self) -> dict[str, Any]:
        """The fields of the state, by their names."""
        found = {name: value for name, value in msgspec.structs.asdict(self).items() if name != "format"}
        return {**found, "chunk": None if self.chunk is None else RowsChunk(**msgspec.structs.asdict(self.chunk))}


F = TypeVar("F", bound=SourceStateForm)


def parse_source_state(data: bytes, where: str, form: type[F], place: type[StoredForm]) -> F:
    """The form of a stored state. ``place``: the form of its place in the log. Raises `DataDamaged`, `NewerFormatError`."""
    found = parse_stored(data, form, what="the state of a capture", where=where, operation="capture")
    if found.offset is not None:
        what = "the place in the log, in the state of a capture,"
        parse_stored(found.offset, place, what=what, where=where, operation="capture")
    return found


class SourceStateStore(ABC, Generic[S]):
    """Reads and writes the state. Only the process that read or wrote it last may write it next."""

    kind: ClassVar[str]

    def __init__(self, store: ObjectStore, run: AsyncRunner, *, topic: str, name: str) -> None:
        self._store, self._run = store, run
        self._captures = f"{CAPTURES}{topic_folder(topic)}/{self.kind}/"
        self._folder = f"{self._captures}{name}/"
        self._object = StateObject(store, run, f"{self._folder}state")

    @staticmethod
    @abstractmethod
    def parse(data: bytes, where: str) -> S:
        """A stored state. Raises `DataDamaged`, `NewerFormatError`."""

    @property
    def key(self) -> str:
        """The key of the state."""
        return self._object.key

    def load(self) -> S | None:
        """The stored state. Raises `DataDamaged`, `NewerFormatError`."""
        data = self._object.read()
        return None if data is None else self.parse(data, self.key)

    def others(self) -> dict[str, S]:
        """The states of other captures of this kind into this topic, by their keys. Raises as `load` does."""
        listed = self._run(lambda: self._store.list(self._captures))
        keys = [one.key for one in listed if one.key.endswith("/state") and one.key != self.key]
        return {key: self.parse(self._run(partial(self._store.get, key)).data, key) for key in keys}

    def take_over(self, life: str, opened: tuple[int, int]) -> S | None:
        """The stored state, which no process that opened its producer earlier writes from now on. Raises `FencedError` when one that did so later
        has taken it over, and as `load` does.
        """
        for attempt in range(_TAKE_OVERS_MAX):
            state = self.load()
            if state is None or state.life != life or state.opened == opened:
                return state
            if state.opened > opened:
                break
            taken = replace(state, opened=opened)
            try:
                self.save(taken)
            except FencedError:  # the earlier process has just written
                if attempt + 1 == _TAKE_OVERS_MAX:
                    raise
            else:
                return taken
        raise self._object.fenced()

    def save(self, state: S) -> None:
        """Replace the stored state. Raises `FencedError` when another capture has written it meanwhile."""
        self._object.write(json.dumps({"format": FORMAT, **asdict(state)}, separators=(",", ":"), ensure_ascii=False).encode())

    def remove(self) -> None:
        """Remove the state of a capture that did not begin."""
        self._object.remove()

    # --- Signals ------------------------------------------------------------------------------------------------------------------

    def signal(self, name: str, tables: Iterable[str]) -> None:
        """Ask the capture to read these tables once more."""
        data = json.dumps({"format": FORMAT, "tables": [*tables]}).encode()
        self._run(lambda: self._store.put(f"{self._folder}signals/{name}", data, mode=Put.CREATE))

    def signals(self) -> dict[str, tuple[str, ...]]:
        """What was asked and not yet noted in the state: tables by the signal's key."""
        return {
            one.key: parse_stored(
                self._run(partial(self._store.get, one.key)).data,
                _Signal,
                what="a signal",
                where=one.key,
                operation="capture",
            ).tables
            for one in self._run(lambda: self._store.list(f"{self._folder}signals/"))
        }

    def forget_signals(self, keys: Iterable[str]) -> None:
        """Remove signals that the state has."""
        for key in keys:
            self._run(partial(self._store.delete, key))


def name_of(key: str) -> str | None:
    """The name of the capture whose state a key has, ``captures/TOPIC/KIND/NAME/state``; None: it is no such key."""
    match key.removeprefix(CAPTURES).split("/"):
        case [_, kind, name, "state"] if kind in KINDS:
            return name
    return None


class _Signal(StoredForm, frozen=True):
    format: int
    tables: tuple[str, ...]
