"""Events that a connector tells again after its restart, in targets with history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark import sync
from tests.spark.sync.streams import TOPIC, event, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_versions_of_a_row_that_is_gone_are_not_told_twice(spark: SparkSession, tmp_path: Path) -> None:
    """However the events are cut: by the batch of two, the delete's position is forgotten when its row is made again."""
    row = {"id": 1, "v": 1}
    told = [
        event("c", "a", {"id": 1}, row, at=1, ts_ms=1_000),
        event("d", "a", {"id": 1}, before=row, at=2, ts_ms=2_000),
    ]
    lake = str(tmp_path / "lake")
    send(lake, [*told, *told, event("c", "a", {"id": 1}, row, at=3, ts_ms=3_000)], queues=1)
    found = []
    for cut in (5, 2):
        into = tmp_path / f"by-{cut}"
        assert sync(spark, lake, TOPIC, into=into, name=f"by-{cut}", history=True, max_events_per_batch=cut).await_termination()
        found.append(rows(into / "a", own=True))
    assert found[0] == found[1]
    assert [(one["__position"] >> 20, one["__current"]) for one in found[0]] == [(1, False), (3, True)]
