"""The filter of a subscription as text: tags, or a condition after ``SQL92:``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeGuard

import pyarrow as pa

from ..errors import InvalidArgument
from ..schema.topic_schema import TopicSchema
from .sql_evaluate import SqlFilter
from .tags import SQL92, TagFilter, check_stated


class Filter(Protocol):
    """Decides which messages pass. Equal filters let the same messages pass."""

    @property
    def columns(self) -> frozenset[str]: ...

    def apply(self, rows: pa.RecordBatch | pa.Table, schema: TopicSchema | None = None) -> pa.RecordBatch | pa.Table:
        """The rows that pass, in order. By the topic's ``schema`` fields are known under former names too."""
        ...


def filters_of(tags: str | None, where: str | None) -> list[Filter]:
    """Filters that must all hold. Raises as `parse_filter`."""
    check_stated(tags)
    return [TagFilter.parse(tags), *([] if where is None else [SqlFilter.parse(where)])]


def check_filter(filter: Filter, schema: TopicSchema | None) -> None:
    """Raise `InvalidArgument`, naming the field and the known ones, if a filter cannot judge a topic's messages. Without a schema every filter can:
    fields are properties.
    """
    if schema is not None and isinstance(filter, SqlFilter):
        filter.check(schema)


def passing(
    rows: pa.RecordBatch | pa.Table, filters: Iterable[Filter], schema: TopicSchema | None = None
) -> pa.RecordBatch | pa.Table:
    for one in filters:
        rows = one.apply(rows, schema)
    return rows


def columns_read(filters: Iterable[Filter], *, typed: bool) -> frozenset[str]:
    """The columns read: of a typed topic also whole fields at the top, as ``value.amount``."""
    named = frozenset[str]().union(*(one.columns for one in filters))
    if not typed:
        return frozenset("properties" if name.startswith("value.") else name for name in named)
    return frozenset(".".join(name.split(".")[:2]) for name in named)


def parse_filter(text: str | None) -> Filter:
    """``paid || refunded`` passes messages with one of these tags. ``SQL92: price > 10 AND region = 'north'`` is a condition (docs/0012), in which
    ``value.price`` is a field of a typed topic. ``*``, the empty text and None pass all. Raises `InvalidArgument`, and `LimitExceeded` for an
    expression that is too long or nested too deeply.
    """
    if _is_sql(text):
        # An error counts columns in the text that it shows, so the text goes to the parser without leading blanks.
        found = SqlFilter.parse(text.lstrip()[len(SQL92) :].lstrip())
        if found.reads_bodies:
            raise InvalidArgument(
                "a subscription is not filtered by fields of bodies",
                operation="filter",
                object=text,
                expected="properties, TAGS, KEYS, and fields of typed topics (value.name)",
                hint="send what consumers filter by as a property; body.name is for those who read and search",
            )
        return found
    return TagFilter.parse(text)


def parse_stated(text: str | None) -> Filter:
    """Raises `InvalidArgument` also for tags that look like a condition: ``price>10``."""
    if not _is_sql(text):
        check_stated(text)
    return parse_filter(text)


def _is_sql(text: str | None) -> TypeGuard[str]:
    return isinstance(text, str) and text.lstrip()[: len(SQL92)].upper() == SQL92
