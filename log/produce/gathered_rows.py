"""Rows on their way to a batch, turned into columns block by block.

Values are taken out of a row at once, as waiting dicts cost the garbage collector and the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from ..schema.stored_columns import concatenated, shown_value
from ..schema.topic_schema import TopicSchema
from ..schema.value_column import ValueColumn
from ..schema.values import BadValue, ConvertedRows, convert, convert_fields, row_reader

_BLOCK_ROWS = 1024


class RowExtractor:
    """Takes values out of rows of one schema version."""

    def __init__(self, schema: TopicSchema, *, ignore_extra: bool) -> None:
        self.schema, self.ignore_extra = schema, ignore_extra
        self.names = [one.name for one in schema.live]
        self.of_dict: Callable[[Any], tuple[Any, ...]] = _getter(itemgetter, self.names)
        self._known = frozenset(self.names)
        self._needed = frozenset(one.name for one in schema.live if not one.nullable)
        self._of_class: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}
        self._readers: dict[type, Callable[[Any], Mapping[str, Any] | None]] = {}

    def values(self, row: object) -> tuple[Any, ...] | None:
        """The value of each field, None for one left out. None: the row may have other fields."""
        kind = type(row)
        if type(row) is dict:
            return tuple(map(row.get, self.names)) if self._needed <= row.keys() <= self._known else None
        if kind not in self._of_class:
            self._of_class[kind] = _getter(attrgetter, self.names) if _field_names(kind) == self._known else None
        of_class = self._of_class[kind]
        try:
            return None if of_class is None else of_class(row)
        except AttributeError:  # a dataclass whose field was never set
            return None

    def kept(self, row: object) -> object:
        """The row with its present fields, as its sender may change the object."""
        if (reader := self._readers.get(type(row))) is None:
            reader = self._readers[type(row)] = row_reader(row)
        try:
            found = reader(row)
        except AttributeError:  # as above
            return row
        return row if found is None else found


def _field_names(kind: type) -> set[str]:
    if is_dataclass(kind):
        return {one.name for one in fields(kind)}
    return set(getattr(kind, "_fields", ())) if issubclass(kind, tuple) else set()


def _getter(of: type[itemgetter[Any] | attrgetter[Any]], names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    get = of(*names)
    return get if len(names) > 1 else lambda row: (get(row),)


@dataclass(eq=False, slots=True)
class _Block:
    values: list[Any] = field(default_factory=list)
    """The values of all rows, row by row, as long as there are no ``rows``."""
    rows: list[Any] | None = None
    """Rows of which one could not be taken apart."""
    count: int = 0
    made: ConvertedRows | None = None
    """Its columns. Sources are kept only for bad rows, or left-out fields."""
    unforeseen: Exception | None = None


class GatheredRows:
    """The rows of a batch, whose lists and dicts must not be changed before they are written."""

    def __init__(self, form: RowExtractor, *, block_rows: int = _BLOCK_ROWS) -> None:
        self._block_rows = block_rows
        self._form, self._width, self._of_dict = form, len(form.names), form.of_dict
        self._blocks = [_Block()]

    def append(self, row: object) -> None:
        """Take a row of any kind, or None for a tombstone, unchecked."""
        block = self._blocks[-1]
        if block.count >= self._block_rows:
            try:
                self._convert(block)
            except Exception as error:  # noqa: BLE001 - it ends the batch; the row of this call has no part in it
                block.unforeseen = error
            block = _Block()
            self._blocks.append(block)
        if block.rows is None:
            try:
                values = self._of_dict(row) if type(row) is dict and len(row) == self._width else self._form.values(row)
            except KeyError:  # as many fields, but others
                values = self._form.values(row)
            if values is not None:
                block.values.extend(values)
                block.count += 1
                return
            block.rows = self._rows(block)
        block.rows.append(self._form.kept(row))
        block.count += 1

    def row(self, at: int) -> object:
        """A row, perhaps as a dict, None for left-out fields."""
        for block in self._blocks:
            if at < block.count:
                return self._rows(block)[at] if block.made is None or self._is_kept(block) else self._row_of_columns(block.made, at)
            at -= block.count
        raise IndexError(at)

    def cut(self, count: int) -> None:
        """Forget all rows but the first ``count``; the others are in the last block."""
        block = self._blocks[-1]
        block.count = count - sum(one.count for one in self._blocks[:-1])
        del block.values[block.count * self._width :]
        if block.rows is not None:
            del block.rows[block.count :]

    def converted(self, schema: TopicSchema) -> ConvertedRows:
        """All rows as the column ``value``, by the schema of the form or a later one."""
        parts: list[pa.Array] = []
        bad: dict[int, BadValue] = {}
        first = 0
        for block in self._blocks:
            made = self._convert(block)
            if schema.version != self._form.schema.version:
                made = self._converted_again(block, made, schema)
            parts.append(made.value)
            bad |= {first + at: fault for at, fault in made.bad.items()}
            first += block.count
        return ConvertedRows(concatenated(parts), bad)

    def _convert(self, block: _Block) -> ConvertedRows:
        if block.unforeseen is not None:
            raise block.unforeseen
        if block.made is None:
            form = self._form
            if block.rows is None:
                columns = [block.values[number :: self._width] for number in range(self._width)]
                made = convert_fields(columns, form.schema)
            else:
                made = convert(block.rows, form.schema, ignore_extra=form.ignore_extra)
            block.made = made
            if not self._is_kept(block):
                block.values, block.rows = [], None
        return block.made

    def _is_kept(self, block: _Block) -> bool:
        return block.made is not None and (bool(block.made.bad) or self._ignores(block))

    def _row_of_columns(self, made: ConvertedRows, at: int) -> object:
        return ValueColumn.of(shown_value(made.value.slice(at, 1), self._form.schema))[0]

    def _ignores(self, block: _Block) -> bool:
        return block.rows is not None and self._form.ignore_extra

    def _converted_again(self, block: _Block, made: ConvertedRows, schema: TopicSchema) -> ConvertedRows:
        """A block by a later version of the schema. Rows that fit before stay."""
        places = list(range(block.count)) if self._ignores(block) else sorted(made.bad)
        if not places:
            return made
        rows = self._rows(block)
        again = convert([rows[at] for at in places], schema, ignore_extra=self._form.ignore_extra)
        order = np.arange(block.count)
        order[places] = block.count + np.arange(len(places))
        value = concatenated([made.value, again.value]).take(pa.array(order))
        return ConvertedRows(value, {places[at]: fault for at, fault in again.bad.items()})

    def _rows(self, block: _Block) -> list[Any]:
        if block.rows is not None:
            return block.rows
        names, width = self._form.names, self._width
        return [
            dict(zip(names, block.values[start : start + width], strict=True)) for start in range(0, block.count * width, width)
        ]
