"""Files of a topic's table, written as the publisher writes them."""

from __future__ import annotations

import pyarrow as pa

from penstock.log.message.columns import rare_columns, value_type
from penstock.log.table.delta.segments import SegmentWriter, TableFile


def write_segment(rows: pa.Table, fresh_id: str) -> tuple[TableFile, bytes]:
    """A file with these rows of one queue."""
    writer = SegmentWriter(rows_expected=rows.num_rows, value=value_type(rows.schema), rare=rare_columns(rows))
    writer.write(rows)
    return writer.close(fresh_id)
