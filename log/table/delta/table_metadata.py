"""A Delta table's protocol and metadata."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ...errors import NewerFormatError
from ...format.stored_json import TimeMs
from ...limits import NUMBER_MAX

Action: TypeAlias = dict[str, Any]
"""An action as it is written."""
Texts: TypeAlias = dict[str, str | None]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=NUMBER_MAX)]


class DeltaForm(Struct, frozen=True, rename="camel"):
    """The required fields of an action, which may have others."""


class Protocol(DeltaForm, frozen=True):
    """The versions, and from (3, 7) on the features, that a reader and a writer must know."""

    min_reader_version: Int64
    min_writer_version: Int64
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None


class TableFormat(DeltaForm, frozen=True):
    """The format of the table's files."""

    provider: str = "parquet"
    options: Texts = {}


class TableMetadata(DeltaForm, frozen=True):
    """A table's metadata, with values that others have set."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...]
    format: TableFormat = TableFormat()
    configuration: Texts = {}
    created_time: TimeMs | None = None
    name: str | None = None
    description: str | None = None


COLUMN_MAPPING = "columnMapping"
TIMESTAMP_NTZ = "timestampNtz"
READER_FEATURES = frozenset({COLUMN_MAPPING, TIMESTAMP_NTZ})
WRITER_FEATURES = READER_FEATURES | {"appendOnly", "invariants"}
PLAIN = Protocol(1, 2)
"""Read by everything that speaks Delta."""


def with_features(*features: str) -> Protocol:
    """The least protocol that requires these features. Column mapping is named too, as delta-rs ignores it in (2, 5) and finds NULL in renamed
    fields, but refuses an unknown feature.
    """
    if not features:
        return PLAIN
    needed = tuple(sorted(features))
    return Protocol(3, 7, needed, tuple(sorted(("appendOnly", "invariants", *needed))))


def check_protocol(found: Protocol, *, where: str) -> None:
    """Raise `NewerFormatError` for unknown requirements."""
    versions = (found.min_reader_version, found.min_writer_version)
    by_features = found.reader_features is not None or found.writer_features is not None
    if versions == (3, 7):
        readers, writers = found.reader_features, found.writer_features
        known = readers is not None and writers is not None and set(readers) <= READER_FEATURES and set(writers) <= WRITER_FEATURES
    else:
        known = versions in {(1, 2), (2, 5)} and not by_features
    if not known:
        raise NewerFormatError(
            "the table has features that Penstock does not write",
            object=where,
            expected=f"(1, 2), (2, 5), or (3, 7) with none but {', '.join(sorted(WRITER_FEATURES))}",
            observed=fields_of(found),
        )


def joined(found: Protocol, wanted: Protocol) -> Protocol:
    """A protocol that requires all of both: ``found`` itself where that is enough."""
    if _needed(wanted) <= _needed(found) and wanted.min_reader_version <= found.min_reader_version:
        return found
    return with_features(*(_needed(found) | _needed(wanted)))


def _needed(protocol: Protocol) -> set[str]:
    if protocol.min_reader_version < 3:
        return {COLUMN_MAPPING} if protocol.min_reader_version == 2 else set()
    return set(protocol.reader_features or ())


def fields_of(found: Protocol | TableMetadata) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(found)
    return {name: value for name, value in fields.items() if value is not None}
