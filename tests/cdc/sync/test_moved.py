"""A source that moves to another server, whose log begins anew: the guard passes over its events, and the sync says so."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock import SyncOptions, SyncRun, sync
from penstock.cdc.sync.options import BatchReport
from penstock.cdc.target import SourceWatermark, TargetProgress
from tests.cdc.sync.streams import TOPIC, rows, send


def change(op: str, key: int, file: int, *, table: str = "a", **more: Any) -> dict[str, Any]:
    after = {"id": key, "v": f"{op} of {file}"}
    place = {"file": f"binlog.{file:06}", "pos": 4 * key, "row": 0, **more}
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
        batches: list[BatchReport] = []
        assert sync(lake, TOPIC, SyncOptions(into=into, guard=guard, max_events=2), listener=batches.append).await_termination()
        return [dict(batch.behind) for batch in batches]

    with caplog.at_level(logging.WARNING, "penstock.cdc"):
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


@pytest.mark.parametrize("name", ["server_id", "gtid"])
def test_a_server_that_is_another_stops_the_table_unless_its_log_goes_on_behind_what_was_told(tmp_path: Path, name: str) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    servers: list[Any] = [7, 8, 9] if name == "server_id" else [f"{digit * 8}-0000-0000-0000-{digit * 12}:1-5" for digit in "789"]

    def of(server: int) -> dict[str, Any]:
        return {name: servers[server]}

    def applied(*events: dict[str, Any], **options: Any) -> SyncRun:
        send(lake, events, queues=1)
        run = sync(lake, TOPIC, SyncOptions(into=into, max_events=2, policy="reject", **options))
        assert run.await_termination()
        return run

    old = [change("c", 1, 411, **of(0)), change("c", 2, 412, **of(0)), change("u", 2, 413, **of(1)), change("c", 3, 1, server_id=0)]
    assert applied(*old).stopped == {}  # a server whose log is further, and a snapshot's event, are nobody else's
    assert applied(*old).stopped == {}  # told again
    run = applied(change("u", 1, 2, **of(2)), change("c", 4, 2, table="b", **of(2)))
    (stop,) = run.stopped["s.a"]
    first, second, third = (str(server).partition(":")[0] for server in servers)
    assert stop.reason.startswith(f"it comes from server {third} and lies behind what server {first}, {second} has told")
    assert "go on with guard='offset' (--guard offset)" in stop.reason
    assert [row["v"] for row in rows(into / "a")] == ["c of 411", "u of 413", "c of 1"]
    assert [row["v"] for row in rows(into / "b")] == ["c of 2"]
    assert applied(guard="offset").stopped == {}
    assert [row["v"] for row in rows(into / "a")] == ["u of 2", "u of 413", "c of 1"]


def test_progress_of_before_has_no_servers_and_its_first_one_is_learned() -> None:
    progress = TargetProgress({0: 5}, None, {0: SourceWatermark(9, 1, ("7", "8")), 1: SourceWatermark(3)}, 2)
    assert TargetProgress.read(json.loads(json.dumps(progress.document()))) == progress
    before = progress.document()
    del before["origins"]
    assert TargetProgress.read(before).watermarks == {0: SourceWatermark(9, 1), 1: SourceWatermark(3)}
