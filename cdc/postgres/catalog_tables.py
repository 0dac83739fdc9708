"""The lives of a PostgreSQL's tables: a table is its OID, under any name, while the publication has it. Pure but for the query.

Only numbers that never come again show changes between two looks at the catalogue: OIDs of tables, of their places in the
publication and of indexes, and the files of partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .state import CapturedTable, TableColumn
from .tables import IS_TABLE, identity_of, key_of, quoted

Name = tuple[str, str]

_BY_SCHEMA = "(SELECT s.oid FROM pg_publication_namespace s, publication p WHERE s.pnpubid = p.oid AND s.pnnspid = c.relnamespace),"


_FILLED = """(a.atthasdef OR a.attidentity <> '' OR a.atthasmissing OR (c.relkind = 'p' AND EXISTS (SELECT FROM tree t, pg_attribute x
            WHERE t.root = c.oid AND x.attrelid = t.oid AND x.attname = a.attname AND x.atthasmissing)))::int"""


def tables_query(version: int) -> str:
    """The query of the tables ``oids`` (NULL: all) for `catalog_table_of`; ``publication`` names the publication."""
    return f"""
WITH RECURSIVE publication AS (SELECT oid, puballtables, xmin FROM pg_publication WHERE pubname = %(publication)s),
    tree(root, oid, attached) AS (
        SELECT i.inhparent, i.inhrelid, i.xmin FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
        WHERE p.relkind = 'p' AND NOT p.relispartition
        UNION ALL SELECT t.root, i.inhrelid, i.xmin FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid),
    leaves AS (
        SELECT t.root, array_agg(ARRAY[l.oid::int8, l.relfilenode::int8, t.attached::text::int8] ORDER BY l.oid) leaves
        FROM tree t JOIN pg_class l ON l.oid = t.oid GROUP BY t.root)
SELECT n.nspname::text, c.relname::text, c.oid::int8,
    coalesce((SELECT r.oid FROM pg_publication_rel r, publication p WHERE r.prpubid = p.oid AND r.prrelid = c.oid),
        {_BY_SCHEMA if version >= 150000 else ""}
        (SELECT p.oid FROM publication p WHERE p.puballtables), 0)::int8,
    l.leaves, c.relreplident::text, {key_of("c", identity_of("c"))},
    coalesce((SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = c.oid AND {identity_of("c")}), 0)::int8,
    (SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1] FROM pg_index i WHERE i.indrelid = c.oid AND {identity_of("c")}),
    coalesce((SELECT p.xmin::text::int8 FROM publication p), 0), c.relfilenode::int8,
    ARRAY(SELECT concat_ws(' ', a.attnum, a.xmin, a.atttypid::int8, a.atttypmod, {_FILLED},
            CASE WHEN a.attgenerated = '' THEN a.attname::text ELSE '' END)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN leaves l ON l.root = c.oid
WHERE {IS_TABLE.replace("%", "%%")} AND NOT c.relispartition AND (%(oids)s::int8[] IS NULL OR c.oid = ANY(%(oids)s::int8[]))
"""  # noqa: S608 - of constants


LOCKED = """
SELECT 1 FROM pg_locks l WHERE l.locktype = 'relation' AND l.granted AND l.relation = ANY(%(oids)s::int8[])
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.mode IN ('AccessExclusiveLock', 'ShareUpdateExclusiveLock')
    AND EXISTS (SELECT FROM pg_locks x WHERE x.pid = l.pid AND x.virtualtransaction = l.virtualtransaction AND x.locktype = 'transactionid'
                AND x.mode = 'ExclusiveLock')
LIMIT 1
"""
"""Whether a transaction that has begun to write locks one of the tables as for renaming, dropping, emptying or publishing it."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table in the catalogue at one time."""

    schema: str
    name: str
    oid: int
    published: int
    """The OID of its place in the publication; 0: none."""
    leaves: tuple[tuple[int, int, int], ...]
    """Its partitions, each with its file's number, which changes when it is emptied, and the transaction that attached it.
    Partitioned ones have no file.
    """
    identity: str
    key: tuple[str, ...]
    index: int
    """The OID of the key's index; 0: no key."""
    numbers: tuple[int, ...]
    """The numbers of the key's columns, rising. A number is never reused, unlike a name."""
    settings: int
    """The transaction that set the publication's changes and partitions' names; 0: none."""
    file: int = 0
    """The number of its file; 0: it is partitioned."""
    columns: tuple[TableColumn, ...] = ()
    filled: frozenset[int] = frozenset()
    """The numbers of columns whose addition may have given rows a value."""

    @property
    def named(self) -> Name:
        return self.schema, self.name


def catalog_table_of(row: Sequence[Any]) -> CatalogTable:
    schema, name, oid, published, leaves, identity, key, index, numbers, settings, file, found = row
    has_key = identity != "n"
    columns = [one.split(" ", 5) for one in found]
    return CatalogTable(
        schema,
        name,
        oid,
        published,
        tuple((leaf, file, attached) for leaf, file, attached in leaves or ()),
        identity,
        tuple(key or ()) if has_key else (),
        index if has_key else 0,
        tuple(sorted(numbers or ())) if has_key else (),
        settings,
        file,
        tuple(
            TableColumn(int(number), int(changed), int(of), int(modifier), name)
            for number, changed, of, modifier, _, name in columns
        ),
        frozenset(int(one[0]) for one in columns if one[4] == "1"),
    )


_TEXTS = frozenset({25, 1043})
"""The OIDs of text and varchar, whose values are the same."""


class TableChange(Enum):
    """The change of a table since the last look."""

    SAME = "same"
    ALTERED = "altered"
    """Other columns, and no rows' values beyond the stream's."""
    GROWN = "grown"
    """New partitions, perhaps with rows."""
    FILLED = "filled"
    """Perhaps rows' values of columns without events; perhaps new partitions too."""
    OTHER = "other"
    """Perhaps rows gained or lost without events."""


def change_since(known: CapturedTable, now: CatalogTable) -> TableChange:
    if (known.oid, known.published, known.settings, known.named) != (now.oid, now.published, now.settings, now.named):
        return TableChange.OTHER
    if now.identity == "f" and known.index != now.index:  # while there was no key, rows may have been double
        return TableChange.OTHER
    if now.numbers and known.numbers != now.numbers:  # the values that tell rows apart now were told of no row that was there
        return TableChange.OTHER
    filled = _filled(known, now)
    if not {*known.leaves} <= {*now.leaves} or filled & {*now.numbers}:
        return TableChange.OTHER
    if filled:
        return TableChange.FILLED
    if known.leaves != now.leaves:
        return TableChange.GROWN
    return TableChange.SAME if {*now.columns} <= {*known.columns} else TableChange.ALTERED


def _filled(known: CapturedTable, now: CatalogTable) -> set[int]:
    """The columns that a statement may have filled without events: by a default, by ``USING``, or under another's name."""
    if known.columns == now.columns or not known.columns:
        return set()
    before, names = {column.number: column for column in known.columns}, {column.name for column in known.columns}
    is_rewritten, numbers = known.file != now.file, {column.number for column in now.columns}
    has_missed = not numbers >= {*range(max(before) + 1, max(numbers, default=0))}  # columns that came and went, by whatever names

    def is_filled(column: TableColumn) -> bool:
        was = before.get(column.number)
        if was is None:
            return column.number in now.filled or is_rewritten or has_missed or column.name in names
        is_retyped = was.type != column.type and not {was.type, column.type} <= _TEXTS
        return was.name != column.name or is_retyped or (is_rewritten and was.changed != column.changed)

    return {column.number for column in now.columns if column.name and is_filled(column)}


def is_new_to_capture(held: CapturedTable | None, now: CatalogTable) -> bool:
    """Whether to begin with a table: a new one, or a stopped one that has got what it lacked."""
    if not now.published:
        return False
    return held is None or (
        bool(now.key) and held.named == now.named and (held.published, held.index) != (now.published, now.index)
    )


def with_life(known: CapturedTable, now: CatalogTable) -> CapturedTable:
    return replace(
        known,
        schema=now.schema,
        name=now.name,
        oid=now.oid,
        published=now.published,
        leaves=now.leaves,
        index=now.index,
        numbers=now.numbers,
        settings=now.settings,
        file=now.file,
        columns=now.columns,
    )


def altered(known: CapturedTable, now: CatalogTable) -> CapturedTable:
    """The table, not emptied, with its current life. Dropped columns stay: rows may have values by their names."""
    numbers = {column.number for column in now.columns}
    gone = (column for column in known.columns if column.number not in numbers)
    return replace(with_life(known, now), columns=(*now.columns, *gone))


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """The tables of a capture, with their pending work."""

    tables: tuple[CapturedTable, ...]
    """The next state's tables; one to be read is `CapturedTable.is_missing`."""
    stopped: Mapping[Name, str]
    """The tables that stop now, with reasons to be sent."""
    grown: Mapping[Name, tuple[int | None, ...]]
    """More to read of followed tables: new partitions, or with None, all."""
    lives: Collection[CatalogTable]

    def unread(self) -> CapturePlan:
        """The plan without reading new tables. Rows of followed tables that the stream lacks are still read."""
        return replace(self, tables=tuple(one if one.is_told or one.held else replace(one, is_read=True) for one in self.tables))


def plan_capture(
    known: Iterable[CapturedTable], now: Iterable[CatalogTable], wanted: Mapping[Name, str | None], publication: str
) -> CapturePlan:
    """Compare a capture's tables with the catalogue. ``wanted``: the tables to capture, with the reason why one cannot be read
    now.
    """
    lives = {life.named: life for life in now}
    by_oid = {life.oid: life for life in lives.values()}
    tables, stopped, grown = dict[Name, CapturedTable](), dict[Name, str](), dict[Name, tuple[int | None, ...]]()
    for entry in _adopted(known, lives):
        name, life = entry.named, lives.get(entry.named)
        reason = None
        if life is None or name not in wanted or not life.published:
            reason = _why_gone(entry, life, by_oid, publication)
        elif entry.held is None and (fate := change_since(entry, life)) is not TableChange.OTHER and entry.is_read:
            if fate is TableChange.ALTERED:
                entry = altered(entry, life)
            elif fate is not TableChange.SAME:
                grown[name] = (None,) if fate is TableChange.FILLED else _new_leaves(entry, life)
        elif (reason := wanted[name]) is None and (entry.held is not None or change_since(entry, life) is not TableChange.SAME):
            entry = replace(with_life(entry, life), is_read=False, is_told=True, held=None)
        if reason is not None and entry.held is None:
            stopped[name] = reason
        tables[name] = entry if reason is None else _held(entry, life, reason)
    for name, problem in wanted.items():
        if name not in tables and (life := lives.get(name)) is not None and life.published:
            tables[name] = replace(with_life(CapturedTable(*name), life), held=problem)
            stopped |= {} if problem is None else {name: problem}
    return CapturePlan(tuple(tables.values()), stopped, grown, lives.values())


def _held(entry: CapturedTable, life: CatalogTable | None, reason: str) -> CapturedTable:
    """A stopped table with its life by then: a change of it starts the table again."""
    if life is not None and (life.published or life.oid == entry.oid):
        entry = with_life(entry, life)
    else:
        entry = replace(entry, published=0)  # it may come back with all that it had
    return replace(entry, is_read=False, is_told=True, held=reason)


def _new_leaves(entry: CapturedTable, now: CatalogTable) -> tuple[int, ...]:
    return tuple(oid for oid, file, _ in {*now.leaves} - {*entry.leaves} if file)


def _adopted(known: Iterable[CapturedTable], lives: Mapping[Name, CatalogTable]) -> Iterable[CapturedTable]:
    """The tables with OIDs; an earlier release kept joined names only. Two tables of one such name are both read again."""
    for entry in known:
        if entry.oid:
            yield entry
            continue
        found = [life for life in lives.values() if ".".join(life.named) == entry.qualified]
        for life in found:
            yield replace(with_life(entry, life), is_read=entry.is_read and len(found) == 1)
        if not found:
            yield entry


def _why_gone(entry: CapturedTable, life: CatalogTable | None, by_oid: Mapping[int, CatalogTable], publication: str) -> str:
    add = f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {quoted(entry.schema)}.{quoted(entry.name)}"
    again = f"{add}, or name it with --table, and it is read again"
    there = by_oid.get(entry.oid)
    if there is not None and there.named != entry.named:
        reason = f"the table was renamed to {'.'.join(there.named)}"
        return f"{reason}; another one has its name, and is not captured: {again}" if life is not None else reason
    if life is None:
        return "the table was dropped, or is unlogged or a part of another one now"
    if life.oid != entry.oid:
        return f"the table was dropped; another one has its name, and is not captured: {again}"
    return f"the publication {publication} does not have the table any more: {again}"
