"""Checks whether the target tables equal the source's dumps, row for row. Shares no code with the job that filled them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from .capture import Dump, Row, column_types, query_table

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class TableDifference:
    """The result of a comparison. All is well when `equal`."""

    table: str
    expected: int
    """The number of rows of the dump."""
    found: int
    """The number of rows of the target table."""
    missing: int
    extra: int
    """The number of keys that the dump does not have, and of rows beyond the first of a key."""
    different: int
    """The number of rows with the right key and another value."""
    examples: tuple[str, ...]
    """A few of these rows, in words."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The types of the target's columns."""

    @property
    def equal(self) -> bool:
        """Whether no row is missing, extra or different."""
        return not (self.missing or self.extra or self.different)


def compare_table(dump: Dump, found: Sequence[Row], key: Sequence[str]) -> TableDifference:
    """Compare a dump (text) with the rows of a table (typed): numbers by value, timestamps by instant, the rest as text."""
    expected_rows = {tuple(row[name] for name in key): row for row in dump.rows}
    found_rows = {tuple(_text(row.get(name)) for name in key): row for row in found}
    doubled = {k: n - 1 for k, n in Counter(tuple(_text(row.get(name)) for name in key) for row in found).items() if n > 1}
    missing = expected_rows.keys() - found_rows.keys()
    extra = found_rows.keys() - expected_rows.keys()
    different = {
        k: columns for k in expected_rows.keys() & found_rows.keys() if (columns := _unequal(expected_rows[k], found_rows[k]))
    }
    examples = [
        *(f"missing {_named(key, k)}" for k in sorted(missing)[:_EXAMPLES]),
        *(f"extra {_named(key, k)}" for k in sorted(extra)[:_EXAMPLES]),
        *(f"{count + 1} times {_named(key, k)}" for k, count in sorted(doubled.items())[:_EXAMPLES]),
        *(f"{_named(key, k)}: {different[k]}" for k in sorted(different)[:_EXAMPLES]),
    ]
    return TableDifference(
        table=dump.table,
        expected=len(dump.rows),
        found=len(found),
        missing=len(missing),
        extra=len(extra) + sum(doubled.values()),
        different=len(different),
        examples=tuple(examples),
    )


def compare_tables(
    dumps: Sequence[Dump],
    keys: Mapping[str, Sequence[str]],
    target_folder: str,
    storage_options: Mapping[str, str] | None = None,
) -> list[TableDifference]:
    """Compare every dump with the Delta table ``<target_folder>/<table>``; ``keys`` has the key columns of every table."""
    found = []
    for dump in dumps:
        target = f"{target_folder.rstrip('/')}/{dump.table}"
        compared = compare_table(dump, read_target(target, storage_options), keys[dump.table])
        found.append(replace(compared, columns=column_types(target, storage_options)))
    return found


def read_target(url: str, storage_options: Mapping[str, str] | None = None) -> list[Row]:
    """All rows of a Delta table, read without Spark, without the sync's own columns. An absent table has none."""
    found = query_table(url, "select * from t", storage_options)
    if found is None:
        return []
    return list(found.select([name for name in found.column_names if not name.startswith("__")]).to_pylist())


def same_value(text: str | None, value: object) -> bool:
    """Whether a field of the dump says the same as a typed value."""
    if text is None or value is None:
        return text is None and value in {None, ""}
    try:
        match value:
            case bool():
                return text in (("t", "true") if value else ("f", "false"))
            case int() | Decimal():
                return Decimal(text) == value
            case float():
                return float(text) == value
            case datetime():
                return datetime.fromisoformat(text) == value
            case date():
                return date.fromisoformat(text) == value
            case _:
                return text == str(value)
    except (ValueError, TypeError, InvalidOperation):
        return False


def _unequal(expected: Row, found: Row) -> str:
    """The columns that differ, in words; nothing when the rows are equal."""
    return ", ".join(
        f"{name} should be {expected.get(name, 'absent')} and is {found.get(name, 'absent')}"
        for name in [*expected, *(name for name in found if name not in expected)]
        if name not in expected or name not in found or not same_value(expected[name], found[name])
    )


def _text(value: object) -> str:
    return str(value)


def _named(key: Sequence[str], values: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(key, values, strict=True))
