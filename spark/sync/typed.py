"""Values by column in Arrow's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...cdc.types import Unfit


def typed_batch(values: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """An Arrow batch of the values. Raises `Unfit`, which names the column, for values that Arrow does not take."""
    columns = []
    for field in schema:
        try:
            columns.append(pa.array(values[field.name], field.type))
        except MemoryError:
            raise  # Arrow's is an error of values as well
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise Unfit(f"column {field.name}: {error}") from error
    return pa.record_batch(columns, schema=schema)
