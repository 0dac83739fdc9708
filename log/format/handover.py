"""Hands batches to the next appender by one object, ``staged/handed/<tail>/<encoded header>``, so that a LIST replaces reading it.

The body holds the rows, batch after batch, each sorted by queue. A header too long for a name stands in the body's footer, by a mark in the name.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DataDamaged, NewerFormatError
from ..limits import PATH_PART_BYTES_MAX, VALIDITY_ENTRIES
from ..message.columns import joined
from ..message.few_rows import InlineRows, as_table
from ..message.message import LOG_SCHEMA
from ..paths import TopicPaths
from ..stores.protocol import ObjectInfo, ObjectMissing, ObjectStore
from .digest import digest
from .header import (
    Batch,
    BatchForm,
    Epoch,
    Opening,
    OpeningForm,
    Part,
    batch_document,
    is_extended,
    is_idempotent,
    opening_document,
    parse_batches,
    parse_openings,
)
from .sealed import read_footer, write_file
from .stored_json import StoredForm, check_stored, parse_stored

_HANDED_KEY = "penstock.handed"
_LONG = "long-"
_BASIC, _EXTENDED, _IDEMPOTENT = 1, 2, 3
"""The versions of names. The second has each batch's schema version, and whether its rows are extended; the third whether it is an idempotent
producer's as well.
"""
_BEGINS: tuple[bool | None, ...] = (None, False, True)
_WHAT = "batches that were handed over"


class _HandedForm(StoredForm, frozen=True):
    openings: tuple[OpeningForm, ...]
    batches: tuple[BatchForm, ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Openings and batches that one process handed over at once."""

    tail: int
    key: str
    """The key from the lake's root."""
    openings: tuple[Opening, ...]
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class HandOverObject:
    """An object to be written, and its meaning once it is."""

    handed: HandOver
    data: bytes


def prepare(
    paths: TopicPaths, *, tail: int, write_id: str, openings: Sequence[Opening], batches: Sequence[tuple[Batch, InlineRows | None]]
) -> HandOverObject:
    """The object that hands these over at ``tail``; all are valid until ``tail`` + 64. Rows are sorted by queue; None: staged parts. ``write_id`` (32
    hexadecimal digits) makes the name fresh.
    """
    tables = [as_table(rows) for _, rows in batches if rows is not None]
    rows = joined(tables) if tables else LOG_SCHEMA.empty_table()
    plain = [batch for batch, _ in batches]
    if not any(batch.parts for batch in plain):
        data = write_file(rows, {_HANDED_KEY: "name"}) if tables else b""
        name = _encode_name(write_id, openings, plain, digest(data))
        if len(name) <= PATH_PART_BYTES_MAX:
            return HandOverObject(_placed(paths, tail, name, openings, plain, len(data), digest(data)), data)
    document = {
        "openings": [opening_document(opening) for opening in openings],
        "batches": [batch_document(batch) for batch in plain],
    }
    data = write_file(rows, {_HANDED_KEY: json.dumps(document, separators=(",", ":"))})
    name = _LONG + write_id
    return HandOverObject(_placed(paths, tail, name, openings, plain, len(data), digest(data)), data)


async def read_handed(store: ObjectStore, paths: TopicPaths, info: ObjectInfo) -> HandOver | None:
    """A listed hand-over, read only where its name is too short. None: foreign or damaged."""
    found = paths.handed_parts(info.key)
    if found is None:
        return None
    tail, name = found
    try:
        if not name.startswith(_LONG):
            openings, batches, body_digest = _decode_name(name, tail, info.key)
            return _placed(paths, tail, name, openings, batches, info.size_bytes, body_digest)
        data = (await store.get(info.key)).data
        form = parse_stored(read_footer(data, where=info.key)[_HANDED_KEY], _HandedForm, what=_WHAT, where=info.key)
        openings, batches = parse_openings(form.openings), parse_batches(form.batches)
        if (
            max((*(one.valid_until for one in openings), *(one.valid_until for one in batches)), default=0)
            > tail + VALIDITY_ENTRIES
        ):
            return None  # the collector goes by the tail: the rows could be gone before the last entry that may link them
        return _placed(paths, tail, name, openings, batches, len(data), digest(data))
    except (DataDamaged, NewerFormatError, ObjectMissing, LookupError, ValueError):
        return None  # an illegible object hands nothing over; its producer will notice and hand over again


def _placed(
    paths: TopicPaths,
    tail: int,
    name: str,
    openings: Sequence[Opening],
    batches: Sequence[Batch],
    size_bytes: int,
    body_digest: str,
) -> HandOver:
    key = paths.handed_object(tail, name)
    row = 0
    placed: list[Batch] = []
    for batch in batches:
        if batch.parts:
            placed.append(batch)
            continue
        part = Part(key.removeprefix(paths.root), row, dict(batch.rows), size_bytes, body_digest)
        placed.append(replace(batch, parts=(part,)))
        row += batch.row_count
    return HandOver(tail, key, tuple(openings), tuple(placed))


# --- Names: bytes in URL-safe base64 without padding ---------------------------------------------------------------------------


def _encode_name(write_id: str, openings: Sequence[Opening], batches: Sequence[Batch], body_digest: str) -> str:
    version = _IDEMPOTENT if any(map(is_idempotent, batches)) else _EXTENDED if any(map(is_extended, batches)) else _BASIC
    out = bytearray([version])
    out += bytes.fromhex(write_id)[:8] + bytes.fromhex(body_digest)
    _put(out, len(openings), len(batches))
    for opening in openings:
        _put_text(out, opening.producer)
        out += bytes.fromhex(opening.write_id)
        _put(out, opening.generation, opening.last_sequence + 1)
    for batch in batches:
        epoch = batch.epoch or Epoch(0, 0)
        _put_text(out, batch.producer)
        _put(out, int(batch.named), epoch.entry, epoch.position, batch.previous + 1, batch.last - batch.previous, batch.generation)
        if version != _BASIC:
            _put(out, batch.schema_version, int(batch.extended))
        if version == _IDEMPOTENT:
            _put(out, _BEGINS.index(batch.begins))
        _put(out, len(batch.rows))
        for queue, count in sorted(batch.rows.items()):
            _put(out, queue, count)
    return base64.urlsafe_b64encode(bytes(out)).decode().rstrip("=")


def _decode_name(name: str, tail: int, where: str) -> tuple[tuple[Opening, ...], tuple[Batch, ...], str]:
    """Raises `DataDamaged`, `ValueError` or `LookupError`."""
    data = base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True)
    version = data[0]
    if version not in (_BASIC, _EXTENDED, _IDEMPOTENT):
        raise ValueError(f"version {version}")
    body_digest = data[9:25].hex()
    reader = _Reader(data, 25)
    valid_until = tail + VALIDITY_ENTRIES
    counts = reader.number(), reader.number()
    openings: list[Any] = []
    for _ in range(counts[0]):
        producer, write_id = reader.text(), reader.raw(16).hex()
        openings.append((producer, write_id, reader.number(), valid_until, reader.number() - 1))
    batches: list[Any] = []
    for _ in range(counts[1]):
        producer = reader.text()
        named, entry, position = bool(reader.number()), reader.number(), reader.number()
        previous = reader.number() - 1
        last, generation = previous + reader.number(), reader.number()
        more: dict[str, Any] = {"t": reader.number(), "x": bool(reader.number())} if version != _BASIC else {}
        if version == _IDEMPOTENT and (begins := _BEGINS[reader.number()]) is not None:
            more["i"] = begins
        rows = [number for _ in range(reader.number()) for number in (reader.number(), reader.number())]
        epoch = {"e": (entry, position)} if named else {}
        batches.append({"p": producer, "s": (previous, last), "g": generation, "r": rows, "v": valid_until, **epoch, **more})
    if reader.at != len(data):
        raise ValueError("bytes are left over")
    form = check_stored({"openings": openings, "batches": batches}, _HandedForm, what=_WHAT, where=where)
    return parse_openings(form.openings), parse_batches(form.batches), body_digest


def _put(out: bytearray, *numbers: int) -> None:
    """Append numbers as unsigned LEB128."""
    for number in numbers:
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)


def _put_text(out: bytearray, text: str) -> None:
    encoded = text.encode()
    _put(out, len(encoded))
    out += encoded


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def number(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def raw(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) != count:
            raise ValueError("cut off")
        self.at += count
        return found

    def text(self) -> str:
        return self.raw(self.number()).decode()
