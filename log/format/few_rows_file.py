"""Entries with a few rows, as Parquet written by hand.

To set pyarrow's writer up for the columns of one message takes several times as long as all this. The file has the same columns, encodings and
checksums, as pages of one row group, and leaves out hints for the memory that reading takes. Schema and version are copied from pyarrow's own files.

Numbers of the footer and of pages' headers are Thrift's compact protocol: a byte with a field's distance and type, then a number of variable length.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..message.few_rows import FewRows
from ..message.message import LOG_SCHEMA, RARE
from .sealed import MAGIC, UNSEALED, seal

_INT32, _INT64, _BYTES = 1, 2, 6
"""Parquet's physical types."""
_NO_ROWS = b"\x16\x00\x19\x0c"
"""The part of a footer that says no rows, then no row groups."""
_NULL, _EMPTY, _PROPERTY, _ELEMENT, _HEADER = 0, 1, 2, 3, 4
"""Definition levels of lists: of one that is NULL, of an empty one, and of values: of properties' names, of all others, and of headers."""


class _Leaf(NamedTuple):
    """A column without columns below it."""

    path: tuple[str, ...]
    kind: int


class _Page(NamedTuple):
    data: bytes
    """The header and what is behind it."""
    values: int


_LEAVES: Final = (
    _Leaf(("queue",), _INT32),
    _Leaf(("message_id",), _BYTES),
    _Leaf(("message_group",), _BYTES),
    _Leaf(("tag",), _BYTES),
    _Leaf(("keys", "list", "element"), _BYTES),
    _Leaf(("properties", "key_value", "key"), _BYTES),
    _Leaf(("properties", "key_value", "value"), _BYTES),
    _Leaf(("body",), _BYTES),
    _Leaf(("born_timestamp",), _INT64),
    _Leaf(("delivery_timestamp",), _INT64),
    _Leaf(("producer",), _BYTES),
)
_RARE_LEAVES: Final = {
    "key": (_Leaf(("key",), _BYTES),),
    "headers": tuple(_Leaf(("headers", "list", "element", part), _BYTES) for part in ("key", "value")),
}


def encode_few_rows(rows: FewRows, footer: Mapping[str, str]) -> bytes | None:
    """The rows by queue as a sealed file with these footer values. None: the installed pyarrow writes footers of an unknown form."""
    frame = _frame(rows.rare)
    if frame is None:
        return None
    leaves, pages = [*_LEAVES], _pages(rows)
    for name in rows.rare:
        pages += _rare_pages(rows, name)
        leaves += _RARE_LEAVES[name]
    file, chunks = [MAGIC], []
    at = len(MAGIC)
    for leaf, page in zip(leaves, pages, strict=True):
        size = _number(len(page.data))
        chunks.append(b"%b\x16%b\x16%b\x16%b\x26%b\0\0" % (_chunk_start(leaf), _number(page.values), size, size, _number(at)))
        file.append(page.data)
        at += len(page.data)
    size, count = _number(at - len(MAGIC)), _number(rows.count)
    schema, end = frame
    values = {**footer, **UNSEALED}
    said = [
        schema,
        b"\x16%b\x19\x1c\x19%b" % (count, bytes((len(chunks) << 4 | 0xC,))),
        *chunks,
        b"\x16%b\x16%b\x26%b\x16%b\0" % (size, count, _number(len(MAGIC)), size),
        b"\x19%b" % bytes((len(values) << 4 | 0xC,)),
        *(b"\x18%b\x18%b\0" % (_text(name.encode()), _text(value.encode())) for name, value in values.items()),
        end,
    ]
    length = sum(map(len, said))
    return seal(b"".join([*file, *said, length.to_bytes(4, "little"), MAGIC]))


@cache
def _frame(rare: tuple[str, ...]) -> tuple[bytes, bytes] | None:
    """What pyarrow writes in a footer before and behind what rows and footer values change. None: that is not known."""
    sink = pa.BufferOutputStream()
    fields = [field for field in LOG_SCHEMA if field.name not in RARE or field.name in rare]
    pq.ParquetWriter(sink, pa.schema(fields), store_schema=False).close()
    file = sink.getvalue().to_pybytes()
    start, found, end = file[len(MAGIC) : -8].partition(_NO_ROWS)
    if not found or end[:1] != b"\x28":  # field 6, the writer's name, next behind field 4
        return None
    return start, b"\x18" + end[1:]


# --- Columns ----------------------------------------------------------------------------------------------------------------------


def _pages(rows: FewRows) -> list[_Page]:
    order, labelled, count = rows.places.order, rows.labelled, rows.count
    bare = not labelled
    labels = [labelled.get(index) for index in order]
    keys = () if bare else [[_plain(key) for key in one.keys] if one else [] for one in labels]
    properties = () if bare else [list(one.properties.items()) if one else [] for one in labels]
    names = [[_plain(name) for name, _ in one] for one in properties]
    values = [[_plain(value) for _, value in one] for one in properties]
    groups = [rows.groups[index] for index in order]
    bodies = [rows.bodies[index] for index in order]
    return [
        _known(tuple([rows.places.queues[index].to_bytes(4, "little") for index in order])),
        _flat([_plain(rows.ids.one(index)) for index in order]),
        _known(tuple([None if group is None else _plain(group) for group in groups])),
        _known(tuple([None if one is None or one.tag is None else _plain(one.tag) for one in labels])),
        _lists(keys, _ELEMENT) if any(keys) else _empty_lists(count),
        _lists(names, _PROPERTY) if any(names) else _empty_lists(count),
        _lists(values, _ELEMENT) if any(values) else _empty_lists(count),
        _flat([None if body is None else _sized(body) for body in bodies]),
        _flat([rows.born_us[index].to_bytes(8, "little", signed=True) for index in order]),
        _known((None,) * count),
        _known((_plain(rows.producer),) * count),
    ]


def _rare_pages(rows: FewRows, name: str) -> Iterable[_Page]:
    labels = [rows.labelled.get(index) for index in rows.places.order]
    if name == "key":
        keys = [None if one is None else one.key for one in labels]
        return (_flat([None if key is None else _sized(key) for key in keys]),)
    headers = [() if one is None else one.headers for one in labels]
    names = [[_plain(name) for name, _ in one] for one in headers]
    values = [[None if value is None else _sized(value) for _, value in one] for one in headers]
    return _lists(names, _HEADER, _NULL), _lists(values, _HEADER, _NULL)


def _plain(text: str) -> bytes:
    return _sized(text.encode())


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data


def _flat(values: Sequence[bytes | None]) -> _Page:
    levels = _levels(tuple([value is not None for value in values]))
    return _page(levels + b"".join([value for value in values if value is not None]), len(values))


_known: Final[Callable[[tuple[bytes | None, ...]], _Page]] = lru_cache(maxsize=1_024)(_flat)
"""The pages of columns whose values many entries share."""


def _lists(lists: Sequence[Sequence[bytes | None]], depth: int, absent: int = _EMPTY) -> _Page:
    """``depth`` is the level of a value that is no NULL, ``absent`` that of a list without values."""
    repetitions = tuple([int(at > 0) for one in lists for at in range(max(1, len(one)))])
    definitions = tuple([level for one in lists for level in ([depth - (value is None) for value in one] or (absent,))])
    values = b"".join([value for one in lists for value in one if value is not None])
    return _page(_levels(repetitions) + _levels(definitions) + values, len(definitions))


@lru_cache(maxsize=64)
def _empty_lists(count: int) -> _Page:
    return _lists([[]] * count, _ELEMENT)


@lru_cache(maxsize=1_024)
def _levels(levels: tuple[int, ...]) -> bytes:
    """Levels in runs: the length of each, doubled, and its level."""
    runs = b"".join(_unsigned(2 * len(list(run))) + bytes((level,)) for level, run in groupby(levels))
    return len(runs).to_bytes(4, "little") + runs


def _page(content: bytes, values: int) -> _Page:
    """A page of plain values behind their levels."""
    size, checksum = _number(len(content)), zlib.crc32(content)
    checksum -= (checksum & 0x80000000) << 1
    header = b"\x15\0\x15%b\x15%b\x15%b\x1c\x15%b\x15\0\x15\6\x15\6\0\0" % (size, size, _signed(checksum), _number(values))
    return _Page(header + content, values)


@cache
def _chunk_start(leaf: _Leaf) -> bytes:
    """A column's place in the footer, up to the count of its values: type, encodings (levels in runs, plain values), path, no compression."""
    path = b"".join(_text(part.encode()) for part in leaf.path)
    return b"\x26\0\x1c\x15%b\x19%%\6\0\x19%b%b\x15\0" % (_number(leaf.kind), bytes((len(leaf.path) << 4 | 8,)), path)


# --- Thrift -----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4_096)
def _number(number: int) -> bytes:
    return _signed(number)


def _signed(number: int) -> bytes:
    return _unsigned(2 * number if number >= 0 else -2 * number - 1)


def _unsigned(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _text(data: bytes) -> bytes:
    return _unsigned(len(data)) + data
