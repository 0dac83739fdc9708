"""Columns of arrays through the lives of their rows, by both engines: kept, moved, NULL, empty, new, and with history."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.events.placeholders import PLACEHOLDER
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "numbers": "array<bigint>",
    "prices": "array<decimal(12,2)>",
    "names": "array<array<string>>",
    "times": "array<timestamp>",
    "local": "array<timestamp_ntz>",
    "at": "timestamp_ntz",
}
LOCAL = datetime.fromisoformat("2023-11-14T22:13:20")
FULL = {
    "numbers": [1, None, 2**62],
    "prices": ["1.5", None],
    "names": [["a", None], [], None],
    "times": ["2023-11-14T22:13:20Z"],
}
HELD = {
    "numbers": [1, None, 2**62],
    "prices": [Decimal("1.50"), None],
    "names": [["a", None], [], None],
    "times": [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)],
}
EMPTY: Row = {name: [] for name in FULL}
NOTHING = dict.fromkeys(FULL)
UNLOGGED = {**{name: [PLACEHOLDER] for name in FULL}, "numbers": [*PLACEHOLDER.encode()]}
LATER = {"at": "2023-11-14T22:13:20", "local": ["2023-11-14T22:13:20", None]}
HELD_LATER = {"at": LOCAL, "local": [LOCAL, None]}
LAST = {"at": None, "local": None}


def told() -> list[list[Row]]:
    """Batches of events."""
    return [
        [
            event("c", "t", {"id": 1}, {"id": 1, **FULL}, at=1),
            event("c", "t", {"id": 2}, {"id": 2, **FULL}, at=2),
            event("c", "t", {"id": 3}, {"id": 3, **EMPTY}, at=3),
            event("c", "t", {"id": 4}, {"id": 4, **NOTHING}, at=4),
        ],
        [
            event("u", "t", {"id": 1}, {"id": 1, **UNLOGGED, "numbers": []}, at=5),
            event("u", "t", {"id": 4}, {"id": 4, **FULL, "names": [PLACEHOLDER]}, at=6),
            event("u", "t", {"id": 5}, {"id": 5, **UNLOGGED}, before={"id": 2, **NOTHING}, at=7),
        ],
        [event("u", "t", {"id": 3}, {"id": 3, **UNLOGGED, **LATER}, at=8)],
    ]


ENDED = [
    {"id": 1, **HELD, "numbers": [], **LAST},
    {"id": 3, **EMPTY, **HELD_LATER},
    {"id": 4, **HELD, "names": None, **LAST},
    {"id": 5, **HELD, **LAST},
]


def applied(engines: list[SparkSession | None], tmp_path: Path, *, history: bool = False) -> list[Row]:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for engine, batch in zip(engines, told(), strict=True):
        send(lake, batch, queues=1)
        run = sync(lake, TOPIC, SyncOptions(into=into, columns={"t": TYPES}, history=["t"] if history else ()), spark=engine)
        assert run.await_termination()
        assert run.stopped == {}
    return rows(into / "t", own=history)


def test_without_spark(tmp_path: Path) -> None:
    assert applied([None, None, None], tmp_path) == ENDED


@pytest.mark.spark
@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_by_spark_and_by_turns(spark: SparkSession, tmp_path: Path, first: bool) -> None:
    assert applied([spark, None, spark] if first else [None, spark, spark], tmp_path) == ENDED


@pytest.mark.spark
@pytest.mark.thorough
def test_with_history(spark: SparkSession, tmp_path: Path) -> None:
    found = applied([spark, spark, spark], tmp_path, history=True)
    current = [{name: value for name, value in row.items() if not name.startswith("__")} for row in found if row["__current"]]
    moved = {"id": 5, **NOTHING, **LAST}  # a moved row takes nothing along there
    assert sorted(current, key=repr) == sorted([*ENDED[:-1], moved], key=repr)
    assert len(found) == 4 + 4
