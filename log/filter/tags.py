"""The tag filter: ``a || b``, or ``*`` for all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..schema.topic_schema import TopicSchema

SQL92 = "SQL92:"
"""The prefix of a condition as a text, in any case (`parse_filter`)."""

_SQL = re.compile(r"\s(=|<>|!=|<=?|>=?)\s|[=<>]\s*'|\sis\s+(not\s+)?null\b|\sbetween\s.+\sand\s", re.IGNORECASE)
"""Syntax of conditions. As a tag, a condition would let no message pass."""
_CLOSE_SQL = re.compile(r"[\w)][=<>!]+[-+]?\.?\d|[=<>]\s*\(|\sin\s*\(", re.IGNORECASE)
"""The same without blanks: ``price>10``. Existing groups keep such a tag."""


@dataclass(frozen=True, slots=True)
class TagFilter:
    """Passes messages by tag."""

    tags: frozenset[str] | None
    """Exact and case-sensitive. None: all messages pass."""

    @classmethod
    def parse(cls, expression: str | None) -> TagFilter:
        """Tags separated by two pipes. ``None``, ``""`` and ``*`` let all pass. Raises `InvalidArgument`, also for SQL."""
        if expression is not None and not is_unicode(expression):
            raise InvalidArgument("a tag filter is a text", operation="filter", expected="a str", observed=repr(expression))
        if expression is None or expression.strip() in ("", "*"):
            return cls(None)
        tags = [tag.strip() for tag in expression.split("||")]
        if not all(tags) or any("|" in tag for tag in tags):
            raise InvalidArgument(
                "bad tag filter", operation="filter", expected="tags separated by '||', or '*'", observed=expression
            )
        if any(_SQL.search(tag) for tag in tags):
            raise _is_condition(expression)
        return cls(frozenset(tags))

    @property
    def columns(self) -> frozenset[str]:
        return frozenset() if self.tags is None else frozenset({"tag"})

    def apply(self, rows: pa.RecordBatch | pa.Table, schema: TopicSchema | None = None) -> pa.RecordBatch | pa.Table:
        if self.tags is None:
            return rows
        return rows.filter(pc.is_in(rows.column("tag"), value_set=pa.array(sorted(self.tags), pa.string())))


def check_stated(expression: str | None) -> None:
    """Raise `InvalidArgument` for a new filter that looks like a condition."""
    tags = TagFilter.parse(expression).tags or ()
    if expression is not None and any(_CLOSE_SQL.search(tag) for tag in tags):
        raise _is_condition(expression)


def _is_condition(expression: str) -> InvalidArgument:
    return InvalidArgument(
        "a condition on properties stands where tags are expected",
        operation="filter",
        expected="tags separated by '||', or '*'",
        observed=expression,
        hint=f"as the filter of a subscription write {SQL92} before it; a tag that looks so is chosen by {SQL92} TAGS = '…'",
    )


def is_unicode(value: object) -> TypeGuard[str]:
    """Whether a value is a text without lone surrogates, which cannot be stored."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
