"""What Kafka Connect's schemas say of events' columns, and what the user says where events have none.

`ConnectRowSchema` is what a schema part says, `column_type` and `reader` are what it means for a column of a target.
"""

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
