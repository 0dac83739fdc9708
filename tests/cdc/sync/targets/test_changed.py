"""Targets that others did something to, and what a target does not take: its table stands still, with the reason. Without Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock import SyncOptions, sync
from penstock.cdc.sync.run import SyncRun
from tests.cdc.sync.forgetting import forget_commits
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send


class Place:
    """A lake and a folder of targets; the events of one table are in one queue."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.into = str(folder / "lake"), folder / "targets"

    def sync(self, *events: Row, adopt: bool = False, keys: dict[str, list[str]] | None = None) -> SyncRun:
        send(self.lake, events, queues=1)
        run = sync(self.lake, TOPIC, SyncOptions(into=self.into, adopt=adopt, keys=keys or {}))
        assert run.await_termination()
        return run

    def table(self, name: str = "t") -> DeltaTable:
        return DeltaTable(str(self.into / name))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def row(number: int, table: str = "t", *, schema: str = "public", **more: object) -> Row:
    return event("c", table, {"id": number}, {"id": number, **more}, schema=schema)


def test_what_somebody_else_changed_is_not_written_to_until_it_is_adopted(place: Place) -> None:
    place.sync(row(1))
    place.sync(row(2))
    place.table().restore(1)
    for _ in range(2):
        run = place.sync(row(3), row(1, "u"))
        assert "changed the target's rows since the sync wrote it last" in run.stopped["public.t"][0].reason
        assert "RESTORE in version 3" in run.stopped["public.t"][0].reason
        assert rows(place.into / "t") == [{"id": 1}]
        assert rows(place.into / "u") == [{"id": 1}]
    assert place.sync(adopt=True).stopped == {}
    assert rows(place.into / "t") == [{"id": 1}, {"id": 3}]
    assert place.sync(row(4)).stopped == {}
    assert rows(place.into / "t") == [{"id": 1}, {"id": 3}, {"id": 4}]


def test_an_overwritten_target_is_not_merged_into(place: Place) -> None:
    place.sync(row(1))
    write_deltalake(str(place.into / "t"), pa.table({"id": [9], "__position": pa.array([None], pa.int64())}), mode="overwrite")
    assert "WRITE in version 2" in place.sync(row(2)).stopped["public.t"][0].reason
    assert rows(place.into / "t") == [{"id": 9}]


def test_a_target_whose_log_was_cleaned_up_is_gone_on_with_where_the_record_says(place: Place) -> None:
    place.sync(row(1))
    forget_commits(place.into / "t")
    assert place.sync(row(2)).stopped == {}
    assert rows(place.into / "t") == [{"id": 1}, {"id": 2}]
    assert place.sync(event("d", "t", {"id": 1}, before={"id": 1})).stopped == {}
    assert rows(place.into / "t") == [{"id": 2}]


def test_a_record_that_is_older_than_a_target_of_which_nothing_else_tells_does_no_harm(place: Place) -> None:
    """As when the driver ended between a merge and its record, and then months went by."""

    class Ends:
        def reached(self, step: str, moment: str, what: str = "") -> None:
            if (step, moment) == ("merge", "after"):
                raise RuntimeError("the driver ends")

    place.sync(row(1))
    send(place.lake, [row(2)], queues=1)
    with pytest.raises(RuntimeError, match="the driver ends"):
        sync(place.lake, TOPIC, SyncOptions(into=place.into), steps=Ends()).await_termination()
    forget_commits(place.into / "t")
    version = place.table().version()
    for _ in range(2):
        run = place.sync(row(3), row(1, "u"))
        assert "nothing tells any more how far the target is" in run.stopped["public.t"][0].reason
        assert place.table().version() == version
        assert rows(place.into / "u") == [{"id": 1}]
    assert place.sync(adopt=True).stopped == {}
    assert rows(place.into / "t") == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_no_two_tables_have_one_folder(place: Place) -> None:
    events = [row(1, "orders"), row(2, "audit.orders"), row(3, "orders", schema="audit"), row(4, "audit.orders")]
    for one in events:
        del one["value"]["source"]["db"]  # with it there would be a third name
    for _ in range(2):
        run = place.sync(*events)
        assert set(run.stopped) == {"audit.orders"}
        assert "observed: orders, which is public.orders's" in run.stopped["audit.orders"][0].reason
        assert rows(place.into / "orders") == [{"id": 1}]
        assert rows(place.into / "audit.orders") == [{"id": 2}, {"id": 4}]


def test_a_table_without_a_schema_does_not_take_the_folder_of_one_that_has_a_schema(place: Place) -> None:
    bare = row(2)
    del bare["value"]["source"]["schema"], bare["value"]["source"]["db"]
    place.sync(row(1))
    run = place.sync(bare)
    assert "the table's folder is that of another table" in run.stopped["t"][0].reason
    assert "observed: t, which is " in run.stopped["t"][0].reason
    assert rows(place.into / "t") == [{"id": 1}]


def test_no_target_is_made_without_its_key(place: Place) -> None:
    keyless = event("c", "t", None, {"id": 1})
    run = place.sync(keyless, row(1, "u"), keys={"t": ["idd"]})
    assert run.stopped["public.t"][0].reason == "key column idd is missing"
    assert not (place.into / "t").exists()
    assert rows(place.into / "u") == [{"id": 1}]
    assert place.sync(keys={"t": ["id"]}).stopped == {}
    assert rows(place.into / "t") == [{"id": 1}]


def test_a_declared_key_that_is_not_the_target_s_makes_no_two_rows_one(place: Place) -> None:
    wider = [event("c", "t", {"id": 1, "line": line}, {"id": 1, "line": line}) for line in (1, 2)]
    place.sync(event("c", "t", {"id": 1}, {"id": 1, "line": 0}))
    assert "declare the target's key if it still tells all rows apart" in place.sync(*wider).stopped["public.t"][0].reason
    reason = place.sync(keys={"t": ["id", "line"]}).stopped["public.t"][0].reason
    assert "the target's key is not the one that is declared" in reason
    assert "expected: id, line; observed: id" in reason
    assert rows(place.into / "t") == [{"id": 1, "line": 0}]
    shutil.rmtree(place.into / "t")
    assert place.sync(keys={"t": ["line", "id"]}).stopped == {}
    assert place.sync(keys={"t": ["id", "line"]}).stopped == {}
    assert [row["line"] for row in rows(place.into / "t")] == [0, 1, 2]


def test_a_constraint_that_an_event_violates_stops_its_table_only(place: Place) -> None:
    place.sync(row(1, n=1), row(1, "u"))
    place.table().alter.add_constraint({"positive": "n > 0"})
    for _ in range(2):
        run = place.sync(row(2, n=-1), row(2, "u"))
        (stop,) = run.stopped["public.t"]
        assert stop.offset == 2
        assert "failed validation check" in stop.reason
        assert "\n" not in stop.reason
        assert rows(place.into / "t") == [{"id": 1, "n": 1}]
        assert rows(place.into / "u") == [{"id": 1}, {"id": 2}]
    place.table().alter.drop_constraint("positive")
    assert place.sync().stopped == {}
    assert rows(place.into / "t") == [{"id": 1, "n": 1}, {"id": 2, "n": -1}]


def test_a_lost_store_ends_the_sync(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no table's fault: none stands still for it."""

    def merge(self: DeltaTable, *arguments: object, **options: object) -> None:
        raise OSError("Generic S3 error: connection refused")

    place.sync(row(1))
    monkeypatch.setattr(DeltaTable, "merge", merge)
    send(place.lake, [row(2)], queues=1)
    run = sync(place.lake, TOPIC, SyncOptions(into=place.into))
    with pytest.raises(OSError, match="connection refused"):
        run.await_termination()
    assert run.stopped == {}
