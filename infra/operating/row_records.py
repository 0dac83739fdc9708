"""Records of files as rows of a topic with a schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from ...log import InvalidArgument
from ...log.schema.fields import FLOATS, INTEGER_BITS, Field, PrimitiveType, StructType, parts_of
from ...log.schema.topic_schema import TopicSchema
from ...log.schema.value_json import value_of_json
from ...log.schema.values import convert

_TRUTHS = {"true": True, "false": False}


def row_of(body: bytes, schema: TopicSchema, *, as_texts: bool) -> Mapping[str, Any]:
    """The row of a record's JSON, checked. ``as_texts``: all values are texts, as in CSV; an empty one is NULL. Raises `InvalidArgument`, with the
    field, for what does not fit the schema.
    """
    row = value_of_json(_of_texts(body, schema) if as_texts else body, schema)
    if row is None:
        raise InvalidArgument("the record is no row", expected="an object", observed="null")
    for fault in convert([row], schema).bad.values():
        raise InvalidArgument(
            "the record does not fit the topic's schema", object=fault.path, expected=fault.expected, observed=fault.found
        )
    return row


def _of_texts(body: bytes, schema: TopicSchema) -> str:
    meant = StructType(schema.fields).by_sent_name
    given: dict[str, Any] = json.loads(body)
    return json.dumps({name: _typed(text, meant[name]) if name in meant else text for name, text in given.items()})


def _typed(text: object, field: Field) -> object:
    """The JSON value of a text; the text itself where it does not fit the field's type, which is refused later."""
    if text == "":
        return None
    read: Callable[[str], object] = str
    if field.type in INTEGER_BITS:
        read = int
    elif field.type in FLOATS:
        read = _finite
    elif field.type is PrimitiveType.BOOLEAN:
        read = _truth
    elif parts_of(field.type):
        read = json.loads
    try:
        return read(str(text))
    except (ValueError, KeyError, RecursionError):
        return text


def _finite(text: str) -> object:
    """A number, or the text of one that JSON lacks."""
    number = float(text)
    return number if math.isfinite(number) else text


def _truth(text: str) -> bool:
    return _TRUTHS[text.lower()]
