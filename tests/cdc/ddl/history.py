"""What a database had after each of its transactions, and whether cuts and targets say the same. It knows nothing of captures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

Row: TypeAlias = tuple[tuple[str, Any], ...]
"""The columns of a row by name, in the order of the names."""
Rows: TypeAlias = frozenset[Row]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that somebody should have a copy of."""

    rows: Rows
    columns: tuple[str, ...]


EMPTY = Table(frozenset(), ())
"""What a table that is gone may leave."""


@dataclass(slots=True)
class History:
    """The tables after each transaction, by the place in the log that its commit lies behind."""

    places: list[int] = field(default_factory=list)
    tables: list[dict[str, Table]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """What each transaction was, for whoever looks for the reason of a difference."""

    def add(self, before: int, changed: Mapping[str, Table | None], what: str = "") -> None:
        """Note what became of tables (None: it is gone) by a transaction whose commit begins at or behind a place in the log."""
        now = dict(self.tables[-1]) if self.tables else {}
        for name, table in changed.items():
            if table is None:
                now.pop(name, None)
            else:
                now[name] = table
        self.places.append(before)
        self.tables.append(now)
        self.done.append(what)

    def at(self, place: int) -> tuple[int, dict[str, Table]]:
        """The number of transactions that had ended at a place in the log, and the tables then."""
        count = bisect_left(self.places, place)
        return count, self.tables[count - 1] if count else {}

    def told(self, name: str, count: int, found: pa.Table) -> str:
        """When a table was as it was found, and what was done to it about that time, for whoever looks for the reason."""
        changed = [0, *(at for at in range(1, len(self.tables)) if self.tables[at].get(name) is not self.tables[at - 1].get(name))]
        same = [at + 1 for at in changed if (table := self.tables[at].get(name)) and rows_of(found, table.columns) == table.rows]
        around = [f"{at + 1} {self.done[at]}" for at in changed if abs(at - count) < 60]
        return f"as after {same[-3:]}; changed by {', '.join(around)}"

    def names(self, count: int) -> set[str]:
        """The tables that there ever were until a number of transactions had ended."""
        return set().union(*self.tables[:count])


def rows_of(found: pa.Table, columns: tuple[str, ...]) -> Rows:
    """The rows of a target, with the columns that the source has."""
    names = sorted(columns)
    held = [name for name in names if name in found.column_names]
    lists = {name: found[name].to_pylist() for name in held}
    return frozenset(tuple((name, lists[name][row] if name in lists else None) for name in names) for row in range(found.num_rows))


def difference(wanted: Table, found: pa.Table) -> str | None:
    """What is wrong with a copy, in a line; None: nothing is."""
    rows = rows_of(found, wanted.columns)
    if found.num_rows != len(rows):
        return f"{found.num_rows - len(rows)} rows are there twice"
    if rows == wanted.rows:
        return None
    missing, more = wanted.rows - rows, rows - wanted.rows
    return f"{len(missing)} rows missing ({_shown(missing)}), {len(more)} too many ({_shown(more)}), of {len(wanted.rows)}"


def _shown(rows: frozenset[Row]) -> str:
    return "; ".join(", ".join(f"{name}={str(value)[:20]}" for name, value in row) for row in sorted(rows, key=str)[:2])
