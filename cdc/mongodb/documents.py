"""Documents and their changes as messages; pure.

A collection is a table of ``_id`` and ``document``, both relaxed Extended JSON, as documents of one collection need not have
the same fields. Equal numbers in an ``_id`` are written alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ..capture.records import ChangeRecord, ConnectSchemas, RecordSource
from ..capture.row_keys import lookup_keys, message_group_of, tag_of
from ..events.debezium import UNSENT
from .positions import envelope_position, time_of

CONNECTOR = "mongodb"
_encode = msgspec.json.Encoder().encode
_INT64 = 1 << 63


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*fields]}


_ID = {"type": "string", "optional": False, "field": "_id"}
_DOCUMENT = {"type": "string", "optional": True, "field": "document"}
_SCHEMAS = ConnectSchemas(_encode(_struct(_ID)), _encode(_struct({**_struct(_ID, _DOCUMENT), "optional": True, "field": "after"})))


def json_text(value: Any) -> str:  # noqa: ANN401 - of any of BSON's types
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS, ensure_ascii=False, separators=(",", ":")))


def plain_id(value: Any) -> Any:  # noqa: ANN401 - of any of BSON's types
    """An id with one form for equal numbers: an int, else a float, else a Decimal128."""
    from bson import Decimal128

    if isinstance(value, dict):
        return {name: plain_id(field) for name, field in value.items()}
    if isinstance(value, list):
        return [plain_id(item) for item in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):  # of 64 bits, it is a class of its own
        return int(value)
    if isinstance(value, float):
        return _plain_number(Decimal(value))
    return _plain_number(value.to_decimal()) if isinstance(value, Decimal128) else value


def _plain_number(number: Decimal) -> Any:  # noqa: ANN401 - an int, a float or a Decimal128
    from bson import Decimal128
    from bson.decimal128 import create_decimal128_context

    if not number.is_finite():
        return abs(float(number)) if number.is_nan() else float(number)
    if -_INT64 <= number < _INT64 and number == number.to_integral_value():
        return int(number)
    nearest = float(number)
    if Decimal(nearest) == number:
        return nearest
    return Decimal128(number.normalize(create_decimal128_context()))


def value_of(text: str) -> Any:  # noqa: ANN401 - of any of BSON's types
    """The inverse of `key_of`."""
    from bson import json_util
    from bson.codec_options import DatetimeConversion

    options = json_util.CANONICAL_JSON_OPTIONS.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    return json_util.loads(text, json_options=options)


def key_of(value: Any) -> str:  # noqa: ANN401 - of any of BSON's types
    """A value as canonical Extended JSON, which keeps its type."""
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=False, separators=(",", ":")))


def identity_text(identity: Any) -> str:  # noqa: ANN401 - of any of BSON's types
    """The text shared exactly by ids that MongoDB takes as equal. Python's equality is wider: True is 1, fields have no order."""
    return key_of(plain_id(identity))


def record_of(
    op: str,
    where: tuple[str, str],
    identity: Any,  # noqa: ANN401 - of any of BSON's types
    document: Mapping[str, Any] | None,
    *,
    sequence: int,
    position: int,
    made_ms: int,
    name: str,
    is_read: bool = False,
) -> ChangeRecord:
    """The message of a change: c(reate), u(pdate), d(elete), r(ead) of a document, or t(runcate) of a collection.

    ``where``: database and collection. ``document``: after the change. ``position``: its place in the log (`positions`);
    ``made_ms``: its time. ``is_read``: from a reading of documents.
    """
    database, collection = where
    id_text = None if op == "t" else json_text(plain_id(identity))
    row = {"_id": id_text, "document": None if document is None else json_text(document)}
    commit, order = envelope_position(position)
    source = {
        "connector": CONNECTOR,
        "name": name,
        "ts_ms": made_ms,
        "snapshot": "true" if is_read else "false",
        "db": database,
        "table": collection,
        "sequence": f'["{commit}"]',
        UNSENT: (),
    }
    value = {
        "before": row if op == "d" else None,
        "after": row if op in "cur" else None,
        "source": source,
        "op": op,
        "ts_ms": made_ms,
        "transaction": {"id": str(time_of(position)), "total_order": order},
    }
    return ChangeRecord(
        sequence,
        _SCHEMAS.body(None if id_text is None else _encode({"_id": id_text}), _encode(value)),
        message_group_of(database, collection, id_text),
        tag_of(collection),
        lookup_keys(collection, id_text),
        op,
        f"{database}.{collection}",
        None if id_text is None else {"_id": id_text},
        RecordSource(database, collection),
    )
