"""What a Kafka record is as a message of Penstock, and a message as a record. What a record has comes back as it was.

A key that could be a message group is one, and stands nowhere else. Any other key is kept in ``key``, and a hash of it is the message group.
So the order of a key is that of a message group, whichever protocol reads.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....log.limits import TopicLimits
from ....log.message.arrow import invisible
from ....log.message.message import LOG_SCHEMA, VALUE
from ....log.schema.stored_columns import FlattenedParts
from ....log.schema.value_column import ValueColumn
from ....log.schema.value_json import value_json
from .decoding import RECORDS_SCHEMA

MESSAGES_SCHEMA: Final = pa.schema(
    [LOG_SCHEMA.field(name) for name in ("message_group", "key", "body", "headers", "born_timestamp")]
)
"""The columns of messages that records have."""

TAG_HEADER: Final = "penstock.tag"
KEYS_HEADER: Final = "penstock.keys"
"""A header for each key."""

_GROUP_BYTES_MAX: Final = TopicLimits().max_message_group_bytes
_HASH_BYTES: Final = 16
_US_IN_MS: Final = 1000


def messages_of(records: pa.RecordBatch) -> pa.RecordBatch:
    """Records with `RECORDS_SCHEMA` as messages with `MESSAGES_SCHEMA`."""
    groups, keys = _groups(records["key"])
    born = _times(records["timestamp"].view(pa.int64()).to_numpy() * _US_IN_MS, "us")
    return pa.RecordBatch.from_arrays([groups, keys, records["value"], records["headers"], born], schema=MESSAGES_SCHEMA)


def records_of(messages: pa.RecordBatch, *, log_append_time: bool = False) -> pa.RecordBatch:
    """Messages with `MESSAGE_SCHEMA`, typed ones too, as records with `RECORDS_SCHEMA`. Offsets are dense, as in one batch.

    The timestamp is ``born_timestamp``, or ``store_timestamp`` with ``log_append_time``, without its microseconds.
    """
    times_us = messages["store_timestamp" if log_append_time else "born_timestamp"].view(pa.int64()).to_numpy()
    columns = [
        pa.array(np.arange(messages.num_rows, dtype=np.int32)),
        _times(times_us // _US_IN_MS, "ms"),
        _keys(messages["key"], messages["message_group"]),
        _values(messages[VALUE]) if VALUE in messages.schema.names else messages["body"],
        _headers(messages),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS_SCHEMA)


def _times(times: np.typing.NDArray[np.int64], unit: str) -> pa.Array:
    return pa.array(times).view(pa.timestamp(unit, "UTC"))


# --- In --------------------------------------------------------------------------------------------------------------------------


def _groups(keys: pa.BinaryArray) -> tuple[pa.StringArray, pa.BinaryArray]:
    """Message groups and keys."""
    if keys.null_count == len(keys):
        return pa.nulls(len(keys), pa.string()), keys
    encoded = keys.dictionary_encode()
    distinct, places = encoded.dictionary, encoded.indices
    texts = _texts(distinct)
    if not texts.null_count:
        return texts.take(places), pa.nulls(len(keys), pa.binary())
    is_other = texts.is_null()
    hashes = _hashes(distinct.filter(is_other).to_pylist())
    groups = pc.replace_with_mask(texts, is_other, hashes)
    return groups.take(places), pc.if_else(is_other.take(places), keys, pa.scalar(None, pa.binary()))


def _texts(keys: pa.BinaryArray) -> pa.StringArray:
    """The keys that can be message groups, and NULL for others."""
    short = pc.less_equal(pc.binary_length(keys), _GROUP_BYTES_MAX)
    keys = pc.if_else(short, keys, pa.scalar(None, pa.binary()))
    try:
        texts = keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([None if key is None else _text(key) for key in keys.to_pylist()], pa.string())
    return pc.if_else(invisible(texts), pa.scalar(None, pa.string()), texts)


def _text(key: bytes) -> str | None:
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _hashes(keys: Sequence[bytes]) -> pa.StringArray:
    return pa.array([b64encode(blake2b(key, digest_size=_HASH_BYTES).digest()).decode() for key in keys], pa.string())


# --- Out -------------------------------------------------------------------------------------------------------------------------


def _keys(keys: pa.BinaryArray, groups: pa.StringArray) -> pa.BinaryArray:
    of_groups = groups.cast(pa.binary())
    return of_groups if keys.null_count == len(keys) else pc.coalesce(keys, of_groups)


def _values(rows: pa.StructArray) -> pa.BinaryArray:
    return pa.array([None if row is None else value_json(row).encode() for row in ValueColumn.of(rows)], pa.binary())


def _headers(messages: pa.RecordBatch) -> pa.ListArray:
    """A row's headers, then its properties, its tag and its keys."""
    given, properties, tags, keys = (messages[name] for name in ("headers", "properties", "tag", "keys"))
    kind = given.type
    pairs = FlattenedParts(given)
    of_properties, of_keys = FlattenedParts(properties), FlattenedParts(keys)
    tagged = np.flatnonzero(np.asarray(tags.is_valid()))
    if not len(of_properties.owners) + len(of_keys.owners) + len(tagged):
        return given
    owners = np.concatenate((pairs.owners, of_properties.owners, tagged, of_keys.owners))
    order = pa.array(np.argsort(owners, kind="stable"))
    headers = pairs.of(given.values)
    names = [
        headers.field(0),
        of_properties.of(properties.keys),
        pa.repeat(TAG_HEADER, len(tagged)),
        pa.repeat(KEYS_HEADER, len(of_keys.owners)),
    ]
    values = [headers.field(1), of_properties.of(properties.items), tags.drop_null(), of_keys.of(keys.values)]
    columns = [pa.concat_arrays(names), pa.concat_arrays([values[0], *(one.cast(pa.binary()) for one in values[1:])])]
    sorted_pairs = pa.StructArray.from_arrays([column.take(order) for column in columns], fields=list(kind.value_type))
    counts = np.bincount(owners, minlength=messages.num_rows)
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), sorted_pairs, type=kind, mask=pa.array(counts == 0))
