"""Tables of the source: what tells one from another where a topic has several databases or several connectors, and how people name them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .patterns import exactness, is_pattern, matches

NOT = "!"
"""The beginning of a name or a pattern that says which tables are left out."""


class TableId(NamedTuple):
    """A table of the source."""

    schema: str | None
    """The schema, or the database where there are no schemas in it (MySQL)."""
    table: str
    database: str | None = None
    """The database that has the schema."""
    server: str | None = None
    """The connector's name for it: ``topic.prefix``."""

    @property
    def names(self) -> tuple[str, ...]:
        """The table's names, from the shortest to the one with all parts."""
        parts = [*(part for part in (self.server, self.database, self.schema) if part), self.table]
        return tuple(".".join(parts[start:]) for start in reversed(range(len(parts))))


def source_of(said: Mapping[str, Any]) -> TableId | None:
    """The table of an event's ``source``; None where that names no table."""
    database = said.get("db") or said.get("keyspace") or said.get("database_id")  # the last two are Vitess's and Spanner's
    try:
        return source_of_names(said.get("table"), said.get("schema"), database, said.get("name"))
    except TypeError:  # lists or objects in place of names
        return source_of_names.__wrapped__(said.get("table"), said.get("schema"), database, said.get("name"))


@lru_cache(maxsize=1024)  # nearly all events are of tables that were just seen
def source_of_names(table: object, schema: object, database: object, server: object) -> TableId | None:
    """The table of these names; None without a table's name."""
    if not isinstance(table, str):
        return None
    return TableId(_text(schema or database), table, _text(database) if schema else None, _text(server))


def _text(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def named(source: TableId) -> str:
    """A table of the source, for people."""
    return source.table if source.schema is None else f"{source.schema}.{source.table}"


def distinct_names(sources: Collection[TableId]) -> dict[TableId, str]:
    """The names of several tables, no two of which are alike."""
    found = {}
    for source in sources:
        longer = [name for name in source.names if len(name) >= len(named(source))]
        apart = [name for name in longer if not any(name in other.names for other in sources if other != source)]
        found[source] = (apart or longer[-1:])[0]
    return found


def is_selected(names: Collection[str] | None, source: TableId) -> bool:
    """Whether a table is among those that were asked for, by a name or a pattern. One that begins with ``!`` says which are not."""
    if names is None:
        return True
    asked, left_out = split_selection(names)
    if any(matches_table(name, source) for name in left_out):
        return False
    return (not asked and bool(left_out)) or any(matches_table(name, source) for name in asked)


def split_selection(names: Collection[str]) -> tuple[set[str], set[str]]:
    """The names and patterns of tables that are asked for, and of those that are not. If there are only the latter, all others are."""
    left_out = {name for name in names if name.startswith(NOT)}
    return {*names} - left_out, {name.removeprefix(NOT) for name in left_out}


def matches_table(name: str, source: TableId) -> bool:
    """Whether a name or a pattern means a table."""
    return name in source.names or (is_pattern(name) and any(matches(name, one) for one in source.names))


def of_table(declared: Mapping[str, Any], source: TableId) -> Any:  # noqa: ANN401 - of the mapping's values
    """The value of a mapping for a table, by the longest of its names that the mapping has, or else the most exact pattern; None when it has
    none.
    """
    return next(iter(all_of_table(declared, source)), None) if declared else None


def all_of_table(declared: Mapping[str, Any], source: TableId) -> list[Any]:
    """The values of a mapping for a table, the most exact first."""
    named = [name for name in reversed(source.names) if name in declared]
    patterns = [name for name in declared if name not in named and is_pattern(name) and matches_table(name, source)]
    return [declared[name] for name in [*named, *sorted(patterns, key=exactness, reverse=True)]]


def merged_declarations(declared: Mapping[str, Mapping[str, Any]], source: TableId) -> dict[str, Any]:
    """What a mapping says of a table's columns under all of its names and patterns. The most exact counts where several say it."""
    found: dict[str, Any] = {}
    for one in reversed(all_of_table(declared, source)):
        found |= one
    return found
