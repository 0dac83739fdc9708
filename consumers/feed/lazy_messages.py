"""Fetched messages as columns until a handler gets them, to spare the garbage collector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, TypeAlias, overload

import pyarrow as pa

from ...log.message.message import VALUE, Column, MessageView, view_columns, views_of
from ...log.schema.value_column import ValueColumn

_OFFSET, _GROUP, _BODY = (MessageView._fields.index(name) for name in ("offset", "message_group", "body"))

_offset_of, _body_of = itemgetter(_OFFSET), itemgetter(_BODY)

_FEW = 32
"""The number of messages of a group up to which making those of all groups together is faster than a group at a time."""

Places: TypeAlias = "range | list[int]"
"""Ascending."""


class FetchedRows:
    """Messages of one queue, by rising offsets."""

    __slots__ = ("_columns", "_value_bytes", "offsets")

    def __init__(self, columns: Sequence[Column | Sequence[Any]], *, value_bytes: float = 0.0) -> None:
        """``value_bytes`` is the mean size of a typed row."""
        self._columns = columns
        self._value_bytes = value_bytes
        self.offsets: list[int] = [*columns[_OFFSET]]

    @staticmethod
    def fetched(topic: str, batch: pa.RecordBatch, *, epoch: int) -> FetchedRows:
        """The rows of a batch with `MESSAGE_SCHEMA`, which is not kept."""
        value_bytes = batch.column(VALUE).nbytes / max(1, batch.num_rows) if VALUE in batch.schema.names else 0.0
        return FetchedRows(view_columns(topic, batch, epoch=epoch), value_bytes=value_bytes)

    def all(self) -> LazyMessages:
        return LazyMessages([(self, range(len(self.offsets)))], self.offsets)

    def by_group(self, places: Places) -> dict[str | None, Places]:
        groups = self._columns[_GROUP]
        if isinstance(groups, repeat):
            return {next(groups): places}
        found = defaultdict(list)
        for place, group in zip(places, _getter(places)(groups), strict=True):
            found[group].append(place)
        return dict(found)

    def groups(self, places: Places) -> Sequence[str | None]:
        groups = self._columns[_GROUP]
        return [next(groups)] * len(places) if isinstance(groups, repeat) else _getter(places)(groups)

    def only(self, places: Places) -> FetchedRows:
        """The rows at some places; no others are kept."""
        get = _getter(places)

        def some(column: Column | Sequence[Any]) -> Column | Sequence[Any]:
            if isinstance(column, ValueColumn):
                return column.only(places)
            return column if isinstance(column, repeat) else get(column)

        return FetchedRows([some(column) for column in self._columns], value_bytes=self._value_bytes)

    def messages(self, places: Places) -> list[MessageView]:
        get = _getter(places)
        return list(views_of([column if isinstance(column, repeat) else get(column) for column in self._columns]))

    def body_bytes(self, places: Places) -> int:
        bodies = self._columns[_BODY]
        if isinstance(bodies, repeat):
            return int(len(places) * self._value_bytes)
        return sum(map(len, filter(None, _getter(places)(bodies))))


def _getter(places: Places) -> Callable[[Any], Sequence[Any]]:
    if isinstance(places, range):
        return itemgetter(slice(places.start, places.stop))
    if len(places) <= 1:
        return itemgetter(slice(places[0], places[0] + 1) if places else slice(0))
    return itemgetter(*places)


class LazyMessages(Sequence[MessageView]):
    """Some messages of one queue, in order, all made at first use."""

    __slots__ = ("_offsets", "made", "parts")

    def __init__(
        self, parts: Sequence[tuple[FetchedRows, Places]], offsets: list[int] | None, made: list[MessageView] | None = None
    ) -> None:
        """``offsets`` may be left out where the messages are made: a list less for the garbage collector."""
        self.parts = parts
        self.made = made
        self._offsets = offsets

    @property
    def offsets(self) -> list[int]:
        offsets = self._offsets
        return [*map(_offset_of, self.made or ())] if offsets is None else offsets

    @staticmethod
    def of(messages: Iterable[MessageView]) -> LazyMessages:
        if isinstance(messages, LazyMessages):
            return messages
        return LazyMessages((), None, list(messages))

    @staticmethod
    def fetched(topic: str, batch: pa.RecordBatch, *, epoch: int) -> LazyMessages:
        return FetchedRows.fetched(topic, batch, epoch=epoch).all()

    @staticmethod
    def joined(those: Sequence[LazyMessages]) -> LazyMessages:
        if len(those) == 1:
            return those[0]
        if any(one.made is not None for one in those):
            return LazyMessages((), None, [message for one in those for message in one])
        return LazyMessages([part for one in those for part in one.parts], [offset for one in those for offset in one.offsets])

    def cut(self, start: int, stop: int | None = None) -> LazyMessages:
        parts, made = self.parts, self.made
        if made is not None:
            return LazyMessages((), None, made[start:stop])
        offsets = self.offsets[start:stop]
        if len(parts) == 1:
            rows, places = parts[0]
            return LazyMessages([(rows, places[start:stop])], offsets)
        found: list[tuple[FetchedRows, Places]] = []
        stop = len(self) if stop is None else stop
        for rows, places in parts:
            if kept := places[max(start, 0) : max(stop, 0)]:
                found.append((rows, kept))
            start, stop = start - len(places), stop - len(places)
        return LazyMessages(found, offsets)

    def each(self) -> list[LazyMessages]:
        """Each message by itself; they are made now."""
        return [LazyMessages((), None, [message]) for message in self]

    def by_group(self) -> dict[str | None, LazyMessages]:
        if self.made is None and len(self.parts) == 1:
            rows, places = self.parts[0]
            places_of = rows.by_group(places)
            if len(places_of) * _FEW <= len(self):
                return {group: rows.only(at).all() for group, at in places_of.items()}
        found: defaultdict[str | None, list[MessageView]] = defaultdict(list)
        for group, message in zip(self.groups(), self._messages(), strict=True):
            found[group].append(message)
        return {group: LazyMessages((), None, own) for group, own in found.items()}

    def groups(self) -> Sequence[str | None]:
        """The message group of each."""
        parts, made = self.parts, self.made
        if made is not None:
            return [message.message_group for message in made]
        if len(parts) == 1:
            rows, places = parts[0]
            return rows.groups(places)
        return [group for rows, places in parts for group in rows.groups(places)]

    def at(self, positions: list[int]) -> LazyMessages:
        """The messages at some positions, ascending."""
        parts = self.parts
        if self.made is None and len(parts) == 1:
            get = _getter(positions)
            rows, places = parts[0]
            return LazyMessages([(rows, list(get(places)))], list(get(self.offsets)))
        messages = self._messages()
        return LazyMessages((), None, [messages[at] for at in positions])

    def without(self, offsets: set[int]) -> LazyMessages:
        parts, made = self.parts, self.made
        if made is not None:
            return LazyMessages((), None, [message for message in made if message.offset not in offsets])
        kept = [offset for offset in self.offsets if offset not in offsets]
        return LazyMessages([(rows, [at for at in places if rows.offsets[at] not in offsets]) for rows, places in parts], kept)

    @property
    def body_bytes(self) -> int:
        parts, made = self.parts, self.made
        if made is not None:
            return sum(map(len, filter(None, map(_body_of, made))))
        return sum(rows.body_bytes(places) for rows, places in parts)

    def __len__(self) -> int:
        offsets = self._offsets
        return len(self.made or ()) if offsets is None else len(offsets)

    def __iter__(self) -> Iterator[MessageView]:
        return iter(self._messages())

    @overload
    def __getitem__(self, at: int) -> MessageView: ...

    @overload
    def __getitem__(self, at: slice) -> list[MessageView]: ...

    def __getitem__(self, at: int | slice) -> MessageView | list[MessageView]:
        return self._messages()[at]

    def _messages(self) -> list[MessageView]:
        # The parts are read first: whichever thread makes the messages lets go of the parts afterwards.
        parts, made = self.parts, self.made
        if made is None:
            if len(parts) == 1:
                rows, places = parts[0]
                made = rows.messages(places)
            else:
                made = [message for rows, places in parts for message in rows.messages(places)]
            self.made = made
            self.parts = ()
        return made
