"""What events call for, as one task sees it and as several do."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cdc.events.connect import schema_of_key
from penstock.cdc.events.debezium import ChangeEvent
from penstock.cdc.events.placeholders import UnavailablePlaceholder
from penstock.cdc.events.sources import TableId
from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.fold.observed_columns import ObservedColumns

UNAVAILABLE = UnavailablePlaceholder.of()
DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2", "connect.decimal.precision": "10"},
}


def change(value: object, field: dict[str, Any] | None = None) -> ChangeEvent:
    schema = None if field is None else {"type": "struct", "fields": [{**field, "field": "v"}]}
    return ChangeEvent(TableId("s", "t"), "c", {"id": 1}, {"id": 1, "v": value}, None, schema_of_row=schema_of_key(schema))


def seen(*changes: ChangeEvent, queue: int = 0) -> ObservedColumns:
    found = ObservedColumns()
    for offset, one in enumerate(changes):
        found.note(one, (queue, offset), frozenset(), UNAVAILABLE)
    return found


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ([change(1), change(2**63)], "decimal(38,0)"),
        ([change(1), change(2**63 - 1)], "bigint"),
        ([change(1), change(-(2**63) - 1)], "decimal(38,0)"),
        ([change(None), change(None)], None),
        ([change(1, {"type": "int32"}), change(2, {"type": "int64"})], "bigint"),
        ([change(2, {"type": "int64"}), change(1, {"type": "int32"})], "bigint"),
        ([change("MDk=", DECIMAL), change(1, {"type": "int64"})], "decimal(21,2)"),
        ([change("MDk=", DECIMAL), change("1.5", {"type": "string"})], "string"),
        ([change("a"), change("MDk=", DECIMAL)], "decimal(10,2)"),
        ([change("MDk=", DECIMAL), change("a")], "decimal(10,2)"),
    ],
)
def test_a_column_has_the_type_that_all_its_values_call_for_however_tasks_share_them(
    changes: list[ChangeEvent], kind: str | None
) -> None:
    expected = None if kind is None else parse_target_type(kind)
    assert seen(*changes).columns["v"] == expected
    first, second = seen(changes[0]), seen(changes[1], queue=1)
    first.join(second)
    assert first.columns["v"] == expected
    assert first.first(["v"]) == {0: 0, 1: 0}
