"""Builds the rows of a batch: columns at once, routed, and sorted by queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..limits import as_timedelta
from .columns import with_value
from .message import LOG_SCHEMA, RARE, VALUE, Message, from_us
from .routing import Router

_HEX = np.frombuffer(b"".join(b"%04x" % number for number in range(1 << 16)), np.uint32)
_ID_CHARS = 32
_FEW: Final = 64
_KEYS_TYPE = LOG_SCHEMA.field("keys").type
_PROPERTIES_TYPE = LOG_SCHEMA.field("properties").type
_HEADERS_TYPE = LOG_SCHEMA.field("headers").type
_TIME_TYPE = LOG_SCHEMA.field("born_timestamp").type


@dataclass(frozen=True, eq=False)
class BatchQueues:
    """The queues of a batch's messages; small, as receipts keep it."""

    queues: npt.NDArray[np.int32]
    """The queue of every message, in sending order."""

    @cached_property
    def rows(self) -> dict[int, int]:
        counts = np.bincount(self.queues)
        return {int(queue): int(counts[queue]) for queue in np.flatnonzero(counts)}

    @cached_property
    def order(self) -> npt.NDArray[np.int64]:
        """Messages by queue, and by sending order within each."""
        return np.argsort(self.queues.astype(np.uint16), kind="stable")  # 16 bits: numpy sorts them by radix

    @cached_property
    def ranks(self) -> npt.NDArray[np.int64]:
        """The messages before each in its queue."""
        order, counts = self.order, np.bincount(self.queues)
        starts = np.cumsum(counts) - counts
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order)) - starts[self.queues[order]]
        return ranks


@dataclass(frozen=True, eq=False)
class BatchRows:
    """A batch's rows. Several threads can build parts at once."""

    columns: Mapping[str, pa.Array | pa.ChunkedArray]
    """Columns in sending order, without ids and queues; others are empty."""
    places: BatchQueues
    ids: MessageIds | WrittenIds | OriginalIds
    producer: str
    chosen: npt.NDArray[np.bool_] | None = None
    """The messages whose queue the sender named; None: none."""

    @property
    def count(self) -> int:
        return len(self.places.queues)

    def routed_anew(self, router: Router) -> BatchRows:
        """The same rows by another number of queues. Those without a group, and those whose sender named a queue, stay."""
        groups = self.columns.get("message_group")
        if groups is None:
            return self
        array = groups.combine_chunks() if isinstance(groups, pa.ChunkedArray) else groups
        stays = array.is_null().to_numpy(zero_copy_only=False)
        if self.chosen is not None:
            stays = stays | self.chosen
        routed = np.where(stays, self.places.queues, router.route(array)).astype(np.int32)
        return replace(self, places=BatchQueues(routed))

    @property
    def size_bytes(self) -> int:
        """The approximate size in memory, uncompressed."""
        return self.count * (_ID_CHARS + len(self.producer) + 16) + sum(column.nbytes for column in self.columns.values())

    @property
    def is_extended(self) -> bool:
        """Whether some row has a key, headers, or NULL as body without typed value."""
        body = self.columns.get("body")
        return any(name in self.columns for name in RARE) or (body is not None and body.null_count > 0)

    @cached_property
    def table(self) -> pa.Table:
        """The rows with `LOG_SCHEMA`, by queue and sending order."""
        return self.part(0, self.count)

    @property
    def inline(self) -> pa.Table:
        return self.table

    def part(self, start: int, count: int) -> pa.Table:
        return self.taken(self.places.order[start : start + count])

    def taken(self, order: npt.NDArray[np.int64]) -> pa.Table:
        """The rows of these messages, in this order."""
        count = len(order)
        taken = pa.array(order)

        is_in_order = count > 0 and order[-1] - order[0] == count - 1 and bool((order[1:] > order[:-1]).all())

        def column(name: str) -> pa.Array | pa.ChunkedArray:
            if name not in self.columns:
                return _absent(name, count)
            of_all = self.columns[name]
            return of_all.slice(int(order[0]), count) if is_in_order else of_all.take(taken)

        schema = with_value(LOG_SCHEMA, self.columns[VALUE].type if VALUE in self.columns else None)
        rest = {name: column(name) for name in schema.names if name not in {"queue", "message_id", "producer"}}
        fixed = {
            "queue": pa.array(self.places.queues[order]),
            "message_id": self.ids.column(order),
            "producer": pa.repeat(pa.scalar(self.producer), count),
        }
        return pa.table({name: fixed.get(name, rest.get(name)) for name in schema.names}, schema=schema)


def message_id(prefix: int, number: int) -> str:
    """32 hexadecimal digits: a random number of the open producer, and the message's number in it."""
    return f"{prefix:016x}{number:016x}"


@dataclass(frozen=True, slots=True)
class MessageIds:
    """Ids of an open producer: its prefix, and numbers that count up."""

    prefix: int
    first_number: int
    given: Mapping[int, str] | None = None

    def one(self, index: int) -> str:
        return (self.given or {}).get(index) or message_id(self.prefix, self.first_number + index)

    def column(self, indices: npt.NDArray[np.int64]) -> pa.Array:
        count = len(indices)
        if self.given:
            return pa.array([self.one(int(index)) for index in indices], pa.string())
        text = np.empty((count, _ID_CHARS // 4), np.uint32)  # four digits at a time
        text[:, :4] = np.frombuffer(f"{self.prefix:016x}".encode(), np.uint32)
        numbers = indices.astype(np.uint64) + np.uint64(self.first_number)
        for place in range(4):
            text[:, -1 - place] = _HEX[numbers >> np.uint64(16 * place) & np.uint64(0xFFFF)]
        offsets = np.arange(0, (count + 1) * _ID_CHARS, _ID_CHARS, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


@dataclass(frozen=True, eq=False, slots=True)
class WrittenIds:
    """The ids of a batch's written messages."""

    ids: MessageIds
    written: npt.NDArray[np.int64]

    def column(self, indices: npt.NDArray[np.int64]) -> pa.Array:
        return self.ids.column(self.written[indices])


@dataclass(frozen=True, eq=False, slots=True)
class OriginalIds:
    """The ids of messages that were sent before."""

    ids: pa.ChunkedArray

    def column(self, indices: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        return self.ids.take(pa.array(indices))


def rows_of_messages(
    bodies: Sequence[bytes | None],
    groups: Sequence[str | None],
    labelled: Mapping[int, Message],
    queues: Mapping[int, int],
    born_us: npt.NDArray[np.int64],
    router: Router,
    *,
    producer: str,
    ids: MessageIds,
) -> BatchRows:
    """``queues`` has, by index, senders' queues, and ``labelled`` the messages with tag, keys, properties or delivery time."""
    group_column = pa.array(groups, pa.string())
    routed = router.route(group_column)
    for index, queue in queues.items():
        routed[index] = queue
    named = None
    if queues:
        named = np.zeros(len(groups), np.bool_)
        named[list(queues)] = True
    columns = columns_of_messages(bodies, group_column, labelled, born_us)
    return BatchRows(columns, BatchQueues(routed), ids, producer, named)


def columns_of_messages(
    bodies: Sequence[bytes | None], groups: pa.Array, labelled: Mapping[int, Message], born_us: npt.NDArray[np.int64]
) -> dict[str, pa.Array]:
    """The columns of `BatchRows`."""
    columns = {"body": pa.array(bodies, pa.binary()), "born_timestamp": _times(born_us)}
    if groups.null_count < len(groups):
        columns["message_group"] = groups
    return columns | label_columns(labelled, born_us)


def label_columns(labelled: Mapping[int, Message], born_us: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """The columns beside content, message group and queue that some message has."""
    of: dict[str, tuple[pa.DataType, object, Callable[[int, Message], object]]] = {
        "tag": (pa.string(), None, lambda _, one: one.tag),
        "keys": (_KEYS_TYPE, [], lambda _, one: list(one.keys)),
        "properties": (_PROPERTIES_TYPE, [], lambda _, one: list(one.properties.items())),
        "delivery_timestamp": (_TIME_TYPE, None, lambda at, one: due_at(one, int(born_us[at]))),
        "key": (pa.binary(), None, lambda _, one: one.key),
        "headers": (_HEADERS_TYPE, None, lambda _, one: _headers(one)),
    }
    columns = {}
    for name, (kind, absent, value_of) in of.items():
        given = {at: value for at, one in labelled.items() if (value := value_of(at, one)) != absent}
        if given:
            columns[name] = pa.array(_spread(given, absent, len(born_us)), kind)
    return columns


def _headers(message: Message) -> list[dict[str, object]] | None:
    return [{"key": name, "value": value} for name, value in message.headers] or None


def due_at(message: Message, born_us: int) -> datetime | None:
    return message.delivery_timestamp if message.delay is None else from_us(born_us) + as_timedelta(message.delay)


def _spread(given: Mapping[int, object], absent: object, count: int) -> list[object]:
    values = [absent] * count
    for at, value in given.items():
        values[at] = value
    return values


def rows_of_arrow(
    data: pa.Table,
    born_us: int | npt.NDArray[np.int64],
    router: Router,
    *,
    producer: str,
    ids: MessageIds | WrittenIds,
    in_runs: bool = True,
) -> BatchRows:
    """Rows of a table that `check_arrow` has passed, or of copies, which keep their ids. ``born_us`` is for rows without a birth time."""
    count = data.num_rows
    chosen = data["queue"].combine_chunks()
    named = chosen.is_valid().to_numpy(zero_copy_only=False) if chosen.null_count < count else None
    if count and chosen.null_count == 0:
        routed = chosen.to_numpy()
    else:
        routed = router.route(data["message_group"].combine_chunks(), in_runs=in_runs)
        if named is not None:
            routed = np.where(named, chosen.fill_null(0).to_numpy(), routed).astype(np.int32)
    born = data["born_timestamp"]
    if born.null_count:
        sent = _times(np.broadcast_to(born_us, count))
        born = sent if born.null_count == count else pc.coalesce(born, sent)
    columns = {"born_timestamp": born}
    plain = ("message_group", "tag", "delivery_timestamp", "key", "headers")
    columns |= {name: data[name] for name in plain if data[name].null_count < count}
    columns |= {VALUE: data[VALUE]} if VALUE in data.column_names else {"body": data["body"]}
    if data["keys"].null_count < count:
        columns["keys"] = _empty_for_null(data["keys"])
    if data["properties"].null_count < count:
        columns["properties"] = _without_nulls(data["properties"].combine_chunks())
    of_copies = OriginalIds(data["message_id"]) if "message_id" in data.column_names else ids
    return BatchRows(columns, BatchQueues(routed), of_copies, producer, named)


def _empty_for_null(lists: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if lists.null_count == 0:
        return lists
    return pc.if_else(lists.is_valid(), lists, pa.scalar([], _KEYS_TYPE))


def _times(times_us: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.ascontiguousarray(times_us)).view(_TIME_TYPE)


def _absent(name: str, count: int) -> pa.Array:
    return _empty_few(name).slice(0, count) if count <= _FEW else _empty(name, count)


def _empty(name: str, count: int) -> pa.Array:
    kind = LOG_SCHEMA.field(name).type
    if name in RARE or not pa.types.is_nested(kind):
        return pa.nulls(count, kind)
    offsets = pa.array(np.zeros(count + 1, np.int32))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(offsets, pa.array([], kind.key_type), pa.array([], kind.item_type), type=kind)
    return pa.ListArray.from_arrays(offsets, pa.array([], kind.value_type), type=kind)


@lru_cache
def _empty_few(name: str) -> pa.Array:
    """Made once, as these columns cost a small batch more than its values."""
    return _empty(name, _FEW)


def _without_nulls(maps: pa.Array) -> pa.Array:
    if maps.null_count == 0:
        return maps
    return pa.array([one or [] for one in maps.to_pylist()], _PROPERTIES_TYPE)
