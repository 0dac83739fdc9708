"""Which columns become wider with their source."""

from __future__ import annotations

import pytest

from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold_result import RefusedEvent
from penstock.cdc.sync.targets.error_hints import wider_columns
from penstock.cdc.target import Target, TargetColumn
from tests.cdc.columns import target_column, target_types

TARGET = Target(TableId("public", "t"), "t", (target_column("id", "int"), target_column("n", "decimal(5,2)")), ("id",))


@pytest.mark.parametrize(
    ("column", "catalog_types", "wider"),
    [
        ("id", {"id": "bigint"}, [target_column("id", "bigint")]),
        ("n", {"n": "decimal(5,4)"}, [target_column("n", "decimal(7,4)")]),
        ("id", {"id": "string"}, []),  # which no number is widened to
        ("id", {"id": "smallint"}, []),
        ("id", {}, []),
        ("gone", {"gone": "bigint"}, []),
        (None, {"id": "bigint"}, []),
    ],
)
def test_a_column_becomes_wider_only_where_its_source_has(
    column: str | None, catalog_types: dict[str, str], wider: list[TargetColumn]
) -> None:
    assert (
        wider_columns(TARGET, [RefusedEvent((0, 0), "it does not fit", column)], lambda one: target_types(catalog_types)) == wider
    )


def test_a_column_becomes_as_wide_as_all_of_its_events_call_for() -> None:
    types = {0: {"id": "bigint"}, 1: {"id": "decimal(12,2)"}}
    refused = [RefusedEvent((queue, 0), "it does not fit", "id") for queue in types]
    assert wider_columns(TARGET, refused, lambda one: target_types(types[one.place[0]])) == [target_column("id", "decimal(21,2)")]
