"""Entries and staged row files as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ..errors import DataDamaged, InternalError
from ..message.columns import joined
from ..message.few_rows import FewRows, InlineRows, as_table
from ..message.message import LOG_SCHEMA
from .few_rows_file import encode_few_rows
from .header import Header, decode_header, encode_header
from .sealed import read_value, write_file

FOOTER_KEY = "penstock.entry"
ROWS_KEY = "penstock.rows"


def encode_entry(header: Header, inline: Mapping[int, InlineRows]) -> bytes:
    """An entry; ``inline`` maps a batch's position to its rows, sorted by queue."""
    if sorted(inline) != header.inline:
        raise InternalError("inline rows and header disagree", expected=header.inline, observed=sorted(inline))
    footer = {FOOTER_KEY: encode_header(header)}
    few = [rows for rows in inline.values() if isinstance(rows, FewRows)]
    if len(few) == len(inline) == 1 and (file := encode_few_rows(few[0], footer)) is not None:
        return file
    return write_file(_merged(header, {position: as_table(rows) for position, rows in inline.items()}), footer)


def _merged(header: Header, inline: Mapping[int, pa.Table]) -> pa.Table:
    if len(inline) <= 1:
        return next(iter(inline.values())) if inline else LOG_SCHEMA.empty_table()
    runs: list[tuple[int, int, int, int]] = []
    for position in inline:
        first = 0
        for queue, count in sorted(header.batches[position].rows.items()):
            runs.append((queue, position, first, count))
            first += count
    return joined([inline[position].slice(first, count) for _, position, first, count in sorted(runs)])


def encode_rows(tables: Sequence[pa.Table]) -> bytes:
    """A staged file: one batch after another, each sorted by queue."""
    return write_file(joined(tables), {ROWS_KEY: "1"})


def read_header(data: bytes, *, where: str, number: int | None = None) -> Header:
    """Raises `DataDamaged`, also for another number, or `NewerFormatError`.

    A repair is folded on any state: only its number proves that it comes next.
    """
    stated = read_value(data, FOOTER_KEY, where=where)
    if stated is None:
        raise DataDamaged("the file is not an entry", object=where)
    header = decode_header(stated, where=where)
    if number is not None and header.entry != number:
        raise DataDamaged("the entry says it is another one", object=where, expected=number, observed=header.entry)
    return header
