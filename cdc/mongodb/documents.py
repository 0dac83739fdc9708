"""Documents and changes of them as messages; pure.

A collection is a table of two columns: ``_id``, and ``document``, the whole of it. Both are JSON text, as MongoDB's relaxed Extended JSON has it,
for documents of one collection need not have the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..debezium.records import Record, RecordSource, Schemas, lookup_keys
from ..postgres.envelopes import message_group_of
from .positions import time_of, told

CONNECTOR = "mongodb"
_encode = msgspec.json.Encoder().encode


def _struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": [*fields]}


_ID = {"type": "string", "optional": False, "field": "_id"}
_DOCUMENT = {"type": "string", "optional": True, "field": "document"}
_SCHEMAS = Schemas(_encode(_struct(_ID)), _encode(_struct({**_struct(_ID, _DOCUMENT), "optional": True, "field": "after"})))


def json_text(value: Any) -> str:  # noqa: ANN401 - of any of BSON's types
    """A value as relaxed Extended JSON."""
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS, ensure_ascii=False, separators=(",", ":")))


def value_of(text: str) -> Any:  # noqa: ANN401 - of any of BSON's types
    """The value that `key_of` made a text of."""
    from bson import json_util

    return json_util.loads(text, json_options=json_util.CANONICAL_JSON_OPTIONS)


def key_of(value: Any) -> str:  # noqa: ANN401 - of any of BSON's types
    """A value as canonical Extended JSON, which loses nothing of its type."""
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=False, separators=(",", ":")))


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
) -> Record:
    """The message of a change: c(reate), u(pdate), d(elete), r(ead) of a document, or t(runcate) of a collection.

    ``where``: the database and the collection. ``document``: as it is behind the change. ``position``: its place in the log, as `positions` has
    it; ``made_ms``: its time. ``is_read``: whether a reading of documents sends it.
    """
    database, collection = where
    said = None if op == "t" else json_text(identity)
    row = {"_id": said, "document": None if document is None else json_text(document)}
    commit, order = told(position)
    source = {
        "connector": CONNECTOR,
        "name": name,
        "ts_ms": made_ms,
        "snapshot": "true" if is_read else "false",
        "db": database,
        "table": collection,
        "sequence": f'["{commit}"]',
    }
    value = {
        "before": row if op == "d" else None,
        "after": row if op in "cur" else None,
        "source": source,
        "op": op,
        "ts_ms": made_ms,
        "transaction": {"id": str(time_of(position)), "total_order": order},
    }
    return Record(
        sequence,
        _SCHEMAS.body(None if said is None else _encode({"_id": said}), _encode(value)),
        message_group_of(database, collection, said),
        collection if collection.isprintable() and "|" not in collection else None,
        lookup_keys(collection, said),
        op,
        f"{database}.{collection}",
        None if said is None else {"_id": said},
        RecordSource(database, collection),
    )
