"""Values of PostgreSQL's columns as a typed topic holds them, to the last digit."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.cdc.events.debezium import ChangeEvent
from penstock.cdc.events.typed_events import typed_events
from penstock.cdc.postgres.envelopes import EnvelopeMessage
from penstock.cdc.postgres.typed_events import CatalogColumn, TypedEvents, evolved_fields, fields_of_table
from penstock.log.errors import InvalidArgument
from penstock.log.schema.topic_schema import first_schema

SOURCE = {"db": "shop", "schema": "public", "table": "orders", "ts_us": 0, "snapshot": "false", "txId": 1, "lsn": 1}


def test_what_did_not_fit_before_says_nothing_of_the_row_after() -> None:
    days = {"id": 1, "day": "infinity"}, {"id": 1, "day": "2026-11-22"}
    table = fields_of_table([CatalogColumn("id", "bigint"), CatalogColumn("day", "date")], ["id", "day"])

    def change(before: Any, after: Any, key: Any) -> ChangeEvent:
        event = EnvelopeMessage(1, b"", "g", None, (), "u", {"source": SOURCE, "before": before, "after": after}, key)
        columns = TypedEvents(table).columns([event])
        (found,) = typed_events(pa.StructArray.from_arrays(list(columns.values()), list(columns)))
        assert found is not None
        return found.change()

    old, new = days
    fitting = change(old, new, {"id": 1})
    assert fitting.row == {"id": 1, "day": date(2026, 11, 22)}
    unfit = change(new, old, old)
    assert unfit.row == unfit.key == {"id": 1, "day": "infinity"}


def test_a_refused_type_is_named_as_in_the_schema() -> None:
    topic = first_schema(fields_of_table([CatalogColumn("id", "bigint"), CatalogColumn("n", "numeric", 5, 1)], ["id"]))
    with pytest.raises(InvalidArgument, match=r"expected: decimal\(5,1\); observed: decimal\(5,2\)"):
        evolved_fields(topic, [CatalogColumn("id", "bigint"), CatalogColumn("n", "numeric", 5, 2)], ["id"])


def after(column: CatalogColumn, value: str) -> tuple[object, object]:
    """The value of a column in an event's row, and what did not fit."""
    event = EnvelopeMessage(1, b"", "g", None, (), "c", {"source": SOURCE, "before": None, "after": {column.name: value}}, {})
    columns = TypedEvents(fields_of_table([column], [column.name])).columns([event])
    return columns["after"][0].as_py()[column.name], columns["unfit"][0].as_py()


@pytest.mark.parametrize(
    ("precision", "scale", "text"),
    [
        (38, 2, "-123456789012345678901234567890123456.78"),
        (38, 0, "9" * 38),
        (38, 38, "0." + "9" * 38),
        (30, 10, "12345678901234567890.1234567890"),
        (4, 2, "1.5000"),
    ],
)
def test_decimals_keep_all_their_digits(precision: int, scale: int, text: str) -> None:
    assert after(CatalogColumn("n", "numeric", precision, scale), text) == (Decimal(text), None)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "100.00", "1.555", "1" * 200])
def test_what_a_decimal_cannot_hold_is_kept_as_text(text: str) -> None:
    assert after(CatalogColumn("n", "numeric", 4, 2), text) == (None, [("after.n", text)])
