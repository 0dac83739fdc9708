"""Events that a connector tells again after its restart, in targets with history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import SyncOptions, sync
from tests.cdc.sync.streams import TOPIC, event, rows, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


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
        assert sync(
            lake, TOPIC, SyncOptions(into=into, name=f"by-{cut}", history=True, max_events=cut), spark=spark
        ).await_termination()
        found.append(rows(into / "a", own=True))
    assert found[0] == found[1]
    assert [(one["__position"] >> 20, one["__current"]) for one in found[0]] == [(1, False), (3, True)]


def test_a_transaction_of_one_position_makes_its_versions_once_however_it_is_cut(spark: SparkSession, tmp_path: Path) -> None:
    """MySQL's compressed ones: what the target's current version and a change have in common is no reason to pass the change over."""

    def at(op: str, pos: int, v: int | None) -> bytes:
        source = {"connector": "mysql", "db": "shop", "table": "a", "file": "binlog.1", "pos": pos, "row": 0, "ts_ms": pos}
        row = {"id": 1, "v": v}
        value = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}
        return json.dumps({"key": {"id": 1}, "value": value}).encode()

    told = [at("c", 100, 1), at("u", 100, 2), at("u", 200, 3), at("u", 300, 4)]
    lake = str(tmp_path / "lake")
    send(lake, [*told, *told[2:], *told[3:]], queues=1, groups=["g"] * 7)
    for cut in (7, 1):
        into = tmp_path / f"by-{cut}"
        assert sync(
            lake, TOPIC, SyncOptions(into=into, name=f"by-{cut}", history=True, max_events=cut), spark=spark
        ).await_termination()
        found = sorted((one["__valid_from"].microsecond, one["v"], one["__current"]) for one in rows(into / "a", own=True))
        assert found == [(100_000, 1, False), (100_000, 2, False), (200_000, 3, False), (300_000, 4, True)]
