"""Kafka Connect's schemas of events' columns, and users' declarations where events have none."""

from .forms import ColumnForm, declared_type, either, says_form
from .schema import ConnectRowSchema, FieldSchema, schema_of_envelope, schema_of_key
from .semantics import column_type, reader
from .times import unfit_as_text

__all__ = [
    "ColumnForm",
    "ConnectRowSchema",
    "FieldSchema",
    "column_type",
    "declared_type",
    "either",
    "reader",
    "says_form",
    "schema_of_envelope",
    "schema_of_key",
    "unfit_as_text",
]
