from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark import sync
from tests.spark.sync.streams import TOPIC, event, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_events_become_rows_and_a_second_run_finds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    send(
        lake,
        [
            event("r", "bills", {"id": 1}, {"id": 1, "amount": "1.50", "note": "丁"}, at=1),
            event("c", "bills", {"id": 2}, {"id": 2, "amount": "2.00", "note": None}, at=2),
            event("c", "lines", {"bill": 1, "line": 1}, {"bill": 1, "line": 1, "count": 3}, at=2),
            event("u", "bills", {"id": 1}, {"id": 1, "amount": "9.99", "note": "__debezium_unavailable_value"}, at=3),
            event("d", "bills", {"id": 2}, before={"id": 2}, at=4),
            {"key": {"id": 2}, "value": None},
        ],
    )
    into = tmp_path / "targets"
    types = {"bills": {"amount": "decimal(12,2)"}}
    first = sync(spark, lake, TOPIC, into=into, columns=types)
    assert first.await_termination()
    assert (first.status.events, first.stopped) == (6, {})
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("9.99"), "note": "丁"}]
    assert rows(into / "lines") == [{"bill": 1, "line": 1, "count": 3}]

    send(
        lake,
        [event("u", "bills", {"id": 1}, {"id": 1, "amount": "3.00", "note": "__debezium_unavailable_value", "paid": True}, at=5)],
    )
    second = sync(spark, lake, TOPIC, into=into, columns=types)
    assert second.await_termination()
    assert second.status.events == 1
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("3.00"), "note": "丁", "paid": True}]

    third = sync(spark, lake, TOPIC, into=into, columns=types)
    assert third.await_termination()
    assert third.status.batches == 0
