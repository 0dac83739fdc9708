"""A source that moves to another server, whose log begins anew: the guard passes over its events, and the sync says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.cdc.sync.options import Batch
from penstock.spark import sync
from tests.cdc.sync.streams import TOPIC, rows, send


def change(op: str, key: int, file: int, *, table: str = "a") -> dict[str, Any]:
    after = {"id": key, "v": f"{op} of {file}"}
    place = {"file": f"binlog.{file:06}", "pos": 4 * key, "row": 0}
    return {
        "key": {"id": key},
        "value": {"op": op, "before": None, "after": after, "source": {"connector": "mysql", "db": "s", "table": table, **place}},
    }


def test_events_of_a_server_whose_log_begins_anew_are_told_of_until_the_guard_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"

    def applied(*events: dict[str, Any], guard: Any = "position") -> list[dict[str, int]]:
        send(lake, events, queues=1)
        batches: list[Batch] = []
        assert sync(None, lake, TOPIC, into=into, guard=guard, max_events_per_batch=2, listener=batches.append).await_termination()
        return [dict(batch.behind) for batch in batches]

    with caplog.at_level(logging.WARNING, "penstock.spark"):
        old = [change("c", 1, 411), change("c", 2, 412), change("c", 1, 412, table="b")]
        assert applied(*old) == [{}, {}]
        assert applied(*old) == [{}, {}]  # told again, each time to the end
        assert not caplog.records
        assert applied(change("r", 1, 1), change("u", 2, 2), change("u", 3, 2)) == [{"a": 2}, {"a": 3}]
        assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
            "events of a lie behind what was told before"
        ]
    assert [row["v"] for row in rows(into / "a")] == ["c of 411", "c of 412", "u of 2"]
    assert applied(change("r", 1, 3), guard="offset") == [{}]
    assert [row["v"] for row in rows(into / "a")] == ["r of 3", "c of 412", "u of 2"]
