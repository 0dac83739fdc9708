"""Tables that deltalake may write as Spark's Delta would, and how much of one a merge reads. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...log.errors import InvalidArgument
from ..events.target_types import parse_target_type
from .key_ranges import KeyRanges

_READER, _WRITER = 1, 2
_WITH_FEATURES = (3, 7)
"""The protocol's versions whose features are named."""
_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_SETTINGS = frozenset(
    {
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.targetFileSize",
    }
)
"""Settings without work for a writer that deltalake does not do."""
_OF_A_FIELD = frozenset({"comment"})


@dataclass(frozen=True, slots=True)
class WriterRequirements:
    """A table's demands on its writers."""

    reader: int
    writer: int
    features: frozenset[str]
    settings: Mapping[str, str]
    fields: Sequence[Mapping[str, Any]]
    """The columns as Delta's log has them."""
    partitioned: bool


def is_plain(demands: WriterRequirements) -> bool:
    """Whether a table asks for nothing but rows in files: no deletion vectors, column mapping, clustering, partitions, constraints, generated
    columns, change feed, or unknown features. All columns are of types that a sync writes, and may be NULL.
    """
    versions = (demands.reader, demands.writer)
    named = versions == _WITH_FEATURES or (demands.reader <= _READER and demands.writer == _WITH_FEATURES[1])
    known = named or (demands.reader <= _READER and demands.writer <= _WRITER)
    theirs = {name for name in demands.settings if name.startswith("delta.")}
    asked = demands.partitioned or not demands.features <= _FEATURES or not theirs <= _SETTINGS
    return known and not asked and all(map(_is_plain_field, demands.fields))


def bytes_in_reach(files: pa.Table, reach: KeyRanges) -> int:
    """The bytes of the files that may have a row of a batch's keys; files without statistics count. An empty ``reach``: all. ``files``: deltalake's
    add actions, flat.
    """
    for name, ranges in reach.items():
        if {f"min.{name}", f"max.{name}"} <= {*files.column_names}:
            least, most = files.column(f"min.{name}"), files.column(f"max.{name}")
            met = (
                pc.and_kleene(pc.greater_equal(most, pa.scalar(low, most.type)), pc.less_equal(least, pa.scalar(high, least.type)))
                for low, high in ranges
            )
            files = files.filter(pc.fill_null(reduce(pc.or_kleene, met), True))
    return pc.sum(files.column("size_bytes")).as_py() or 0


def _is_plain_field(field: Mapping[str, Any]) -> bool:
    return field["nullable"] and field["metadata"].keys() <= _OF_A_FIELD and _is_plain_type(field["type"])


def _is_plain_type(kind: Any) -> bool:  # noqa: ANN401 - a name, or a document
    if not isinstance(kind, str):
        return kind["type"] == "array" and kind["containsNull"] and _is_plain_type(kind["elementType"])
    try:
        parse_target_type(kind)
    except InvalidArgument:
        return False
    return True
