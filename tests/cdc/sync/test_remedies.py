"""Which columns become wider with their source."""

from __future__ import annotations

import pytest

from penstock.cdc.events.sources import Source
from penstock.cdc.fold.folded import Refused
from penstock.cdc.sync.remedies import wider_columns
from penstock.cdc.targets import Column, Target

TARGET = Target(Source("public", "t"), "t", (Column("id", "int"), Column("n", "decimal(5,2)")), ("id",))


@pytest.mark.parametrize(
    ("column", "told", "wider"),
    [
        ("id", {"id": "bigint"}, [Column("id", "bigint")]),
        ("n", {"n": "decimal(5,4)"}, [Column("n", "decimal(7,4)")]),
        ("id", {"id": "string"}, []),  # which no number is widened to
        ("id", {"id": "smallint"}, []),
        ("id", {}, []),
        ("gone", {"gone": "bigint"}, []),
        (None, {"id": "bigint"}, []),
    ],
)
def test_a_column_becomes_wider_only_where_its_source_has(column: str | None, told: dict[str, str], wider: list[Column]) -> None:
    assert wider_columns(TARGET, [Refused((0, 0), "it does not fit", column)], lambda one: told) == wider


def test_a_column_becomes_as_wide_as_all_of_its_events_call_for() -> None:
    types = {0: {"id": "bigint"}, 1: {"id": "decimal(12,2)"}}
    refused = [Refused((queue, 0), "it does not fit", "id") for queue in types]
    assert wider_columns(TARGET, refused, lambda one: types[one.place[0]]) == [Column("id", "decimal(21,2)")]
