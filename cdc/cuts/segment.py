"""Cuts as stored: several in an object, the first whole and each later one as changes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ...log.format.stored_json import Number, StoredForm, damaged, parse_stored
from .cut import Cut, TableVersion

CUTS_MAX, BYTES_MAX = 256, 256 * 1024
"""The most in an object, except for two cuts of any size."""
_FORMAT = 1
_WHAT = "a record of cuts"


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive cuts of one sync, at least one."""

    topic: str
    sync: str
    cuts: tuple[Cut, ...]

    @property
    def first(self) -> int:
        return self.cuts[0].number

    def before(self, number: int) -> Segment | None:
        cuts = tuple(cut for cut in self.cuts if cut.number < number)
        return replace(self, cuts=cuts) if cuts else None


class _PlaceForm(StoredForm, frozen=True):
    position: Number
    place: str


class _CutForm(StoredForm, frozen=True):
    number: Number
    life: Number
    entry: Number
    at_ms: Number
    ends: dict[Number, Number]
    places: dict[str, _PlaceForm]
    tables: dict[str, tuple[Number, Number]]
    ids: dict[str, str] = msgspec.field(default_factory=dict)
    gone: tuple[str, ...] = ()
    incomplete: dict[str, str] = msgspec.field(default_factory=dict)
    source_us: int | None = None


class _Form(StoredForm, frozen=True):
    format: int
    topic: str
    sync: str
    cuts: tuple[_CutForm, ...]


def encode(segment: Segment) -> bytes:
    """A line for each cut, and equal bytes for equal segments."""
    head = json.dumps({"format": _FORMAT, "topic": segment.topic, "sync": segment.sync})
    lines, before = list[str](), dict[str, TableVersion]()
    for cut in segment.cuts:
        lines.append(json.dumps(_document(cut, before), separators=(",", ":"), ensure_ascii=False))
        before = dict(cut.tables)
    return "\n".join([f'{head[:-1]}, "cuts": [', ",\n".join(lines), "]}", ""]).encode()


def _document(cut: Cut, before: Mapping[str, TableVersion]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "number": cut.number,
        "life": cut.life,
        "entry": cut.entry,
        "at_ms": cut.at_ms,
        "source_us": cut.source_us,
        "places": {name: {"position": cut.positions[name], "place": place} for name, place in sorted(cut.places.items())},
        "ends": {str(queue): end for queue, end in sorted(cut.ends.items())},
        "tables": {name: [one.version, one.commits] for name, one in sorted(cut.tables.items()) if before.get(name) != one},
    }
    made = {name: one.table for name, one in sorted(cut.tables.items()) if name not in before or before[name].table != one.table}
    if made:
        document["ids"] = made
    if gone := sorted(before.keys() - cut.tables.keys()):
        document["gone"] = gone
    if cut.incomplete:
        document["incomplete"] = dict(sorted(cut.incomplete.items()))
    return document


def decode(data: bytes, *, where: str) -> Segment:
    """Raises `DataDamaged` or `NewerFormatError`."""
    form = parse_stored(data, _Form, what=_WHAT, where=where, operation="read cuts")
    cuts, tables, ids = list[Cut](), dict[str, TableVersion](), dict[str, str]()
    for one in form.cuts:
        tables = {name: version for name, version in tables.items() if name not in one.gone}
        ids |= one.ids
        if unknown := one.tables.keys() - ids.keys():
            raise damaged(_WHAT, ValueError(f"it has no id of {min(unknown)}"), where=where, operation="read cuts")
        tables |= {name: TableVersion(version, commits, ids[name]) for name, (version, commits) in one.tables.items()}
        positions = {name: place.position for name, place in one.places.items()}
        cuts.append(Cut(one.number, one.life, one.entry, one.at_ms, one.ends, positions, tables, one.incomplete, one.source_us))
    if not cuts or [cut.number for cut in cuts] != list(range(cuts[0].number, cuts[0].number + len(cuts))):
        raise damaged(_WHAT, ValueError("its cuts are not numbered one after the other"), where=where, operation="read cuts")
    return Segment(form.topic, form.sync, tuple(cuts))


def with_cut(segment: Segment, cut: Cut) -> Segment | None:
    """None: the object is full."""
    if len(segment.cuts) >= CUTS_MAX or segment.cuts[-1].life != cut.life:
        return None
    return replace(segment, cuts=(*segment.cuts, cut))
