"""Values that Arrow does not read as the sync does, one by one, at the edges of what their types hold."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.verify.values import as_column


@pytest.mark.parametrize(
    ("given", "kind", "values"),
    [
        (["x", str(-(2**63)), str(2**63 - 1)], pa.int64(), [-(2**63), 2**63 - 1]),
        (["x", "-999.99", "0.1"], pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.10")]),
        (pa.array([b"\x00", b"a"]).dictionary_encode(), pa.binary(), [b"\x00", b"a"]),
        ([date(2022, 1, 8)], pa.date32(), [date(2022, 1, 8)]),
    ],
)
def test_what_a_type_can_just_hold_is_read(given: Any, kind: pa.DataType, values: list[Any]) -> None:
    column = as_column(given if isinstance(given, pa.Array) else pa.array(given), kind)
    assert [value for value in column.values.to_pylist() if value is not None] == values
    assert set(column.odd.values()) <= {"x"}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([str(-(2**63) - 1)], pa.int64()),
        ([str(2**63)], pa.int64()),
        (["1000.00"], pa.decimal128(5, 2)),
        ([5], pa.binary()),
        ([5], pa.date32()),
    ],
)
def test_what_it_cannot_hold_is_shown_as_it_is(given: list[Any], kind: pa.DataType) -> None:
    column = as_column(pa.array(given), kind)
    assert (column.values.to_pylist(), column.odd) == ([None], {0: str(given[0])})
