"""The named tables and columns that no event has had yet: they may still come, or be misspelt. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ...cdc.sources import Source, wanted
from ...cdc.targets import Target
from .options import Options


def unmatched(options: Options, known: Mapping[Source, Target | None]) -> tuple[str, ...]:
    """Names of unknown tables, and of columns (``table.column``) that a known table lacks; sorted."""
    return tuple(sorted({*_tables(options, known), *_columns(options, known)}))


def _tables(options: Options, known: Collection[Source]) -> Iterator[str]:
    history = () if isinstance(options.history, bool) else options.history
    for table in {*(options.tables or ()), *history, *options.declared.columns, *options.declared.keys}:
        if not any(wanted((table,), source) for source in known):
            yield table


def _columns(options: Options, known: Mapping[Source, Target | None]) -> Iterator[str]:
    for table, types in options.declared.columns.items():
        found = [target for source, target in known.items() if target is not None and wanted((table,), source)]
        there = {column.name for target in found for column in target.columns}
        if found:
            yield from (f"{table}.{name}" for name in types if name not in there)
