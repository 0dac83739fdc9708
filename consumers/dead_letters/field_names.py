"""The names of a row's fields in its dead letter, as they may change before a redrive."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...log.errors import InvalidArgument
from ...log.schema.topic_schema import TopicSchema, other_names, with_stored_names
from ...log.schema.value_column import ValueColumn
from ...log.schema.value_json import value_json, value_of_json
from ...log.schema.values import convert


def names_text(schema: TopicSchema) -> str | None:
    """The present names in a dead letter's JSON body. None: they never change."""
    names = other_names(schema)
    return json.dumps(names, ensure_ascii=False, separators=(",", ":")) if names else None


def by_stored_names(body: bytes, said: str | None, schema: TopicSchema) -> bytes:
    """The body of a dead letter by stored names. ``said`` is its `names_text`, ``schema`` that version or a later one. Raises `InvalidArgument`."""
    named = with_stored_names(schema, {} if said is None else _names(said))
    converted = convert([value_of_json(body, named)], named)
    for fault in converted.bad.values():
        raise InvalidArgument(
            "the row does not fit the topic's schema",
            operation="redrive",
            object=fault.path,
            expected=fault.expected,
            observed=fault.found,
        )
    return value_json(ValueColumn.of(converted.value)[0]).encode()


def _names(said: str) -> Mapping[int, str]:
    try:
        found = json.loads(said)
        return {int(number): str(name) for number, name in found.items()}
    except (ValueError, AttributeError, RecursionError):  # anybody may send to the topic
        return {}
