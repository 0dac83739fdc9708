"""Tables of the source, and their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .patterns import exactness, is_pattern, matches

NOT = "!"
"""The beginning of excluding names and patterns."""


class TableId(NamedTuple):
    """A table of the source."""

    schema: str | None
    """The database where that has no schemas (MySQL)."""
    table: str
    database: str | None = None
    server: str | None = None
    """The connector's name for it: ``topic.prefix``."""

    @property
    def names(self) -> tuple[str, ...]:
        """The shortest first."""
        parts = [*(part for part in (self.server, self.database, self.schema) if part), self.table]
        return tuple(".".join(parts[start:]) for start in reversed(range(len(parts))))


def source_of(fields: Mapping[str, Any]) -> TableId | None:
    database = fields.get("db") or fields.get("keyspace") or fields.get("database_id")  # the last two are Vitess's and Spanner's
    try:
        return source_of_names(fields.get("table"), fields.get("schema"), database, fields.get("name"))
    except TypeError:  # lists or objects in place of names
        return source_of_names.__wrapped__(fields.get("table"), fields.get("schema"), database, fields.get("name"))


@lru_cache(maxsize=1024)  # nearly all events are of tables that were just seen
def source_of_names(table: object, schema: object, database: object, server: object) -> TableId | None:
    if not isinstance(table, str):
        return None
    return TableId(_text(schema or database), table, _text(database) if schema else None, _text(server))


def _text(name: object) -> str | None:
    return name if isinstance(name, str) and name else None


def named(source: TableId) -> str:
    return source.table if source.schema is None else f"{source.schema}.{source.table}"


def distinct_names(sources: Collection[TableId]) -> dict[TableId, str]:
    found = {}
    for source in sources:
        longer = [name for name in source.names if len(name) >= len(named(source))]
        apart = [name for name in longer if not any(name in other.names for other in sources if other != source)]
        found[source] = (apart or longer[-1:])[0]
    return found


def is_selected(names: Collection[str] | None, source: TableId) -> bool:
    """Names and patterns that begin with ``!`` exclude."""
    if names is None:
        return True
    asked, left_out = split_selection(names)
    if any(matches_table(name, source) for name in left_out):
        return False
    return (not asked and bool(left_out)) or any(matches_table(name, source) for name in asked)


def split_selection(names: Collection[str]) -> tuple[set[str], set[str]]:
    """The names and patterns asked for, and those excluded. With only the latter, all others are asked for."""
    left_out = {name for name in names if name.startswith(NOT)}
    return {*names} - left_out, {name.removeprefix(NOT) for name in left_out}


def matches_table(name: str, source: TableId) -> bool:
    return name in source.names or (is_pattern(name) and any(matches(name, one) for one in source.names))


def of_table(declared: Mapping[str, Any], source: TableId) -> Any:  # noqa: ANN401 - of the mapping's values
    """The value by the longest name, or else the most exact pattern."""
    return next(iter(all_of_table(declared, source)), None) if declared else None


def all_of_table(declared: Mapping[str, Any], source: TableId) -> list[Any]:
    """The most exact first."""
    named = [name for name in reversed(source.names) if name in declared]
    patterns = [name for name in declared if name not in named and is_pattern(name) and matches_table(name, source)]
    return [declared[name] for name in [*named, *sorted(patterns, key=exactness, reverse=True)]]


def merged_declarations(declared: Mapping[str, Mapping[str, Any]], source: TableId) -> dict[str, Any]:
    """The declarations of a table's columns. The most exact name or pattern counts."""
    found: dict[str, Any] = {}
    for one in reversed(all_of_table(declared, source)):
        found |= one
    return found
