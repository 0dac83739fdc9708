"""Tables of one name and schema in several databases, or told by several connectors, in one topic: each has a target of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock import SyncOptions, sync
from penstock.cdc.events.sources import TableId, distinct_names, is_selected
from penstock.coordinator.operators.lake_table import adopt_table
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import open_store
from tests.cdc.sync.streams import TOPIC, rows, send


def change(number: int, v: object, *, db: str = "one", server: str = "srv", table: str = "orders", op: str = "c") -> dict[str, Any]:
    source = {"connector": "sqlserver", "name": server, "db": db, "schema": "dbo", "table": table}
    after = {"id": number, "v": v}
    return {"key": {"id": number}, "value": {"op": op, "before": None, "after": after, "source": source}}


EVENTS = [
    change(1, "of one"),
    change(1, "of two", db="two"),
    change(2, "of one"),
    change(1, "of the other server", server="other"),
    change(2, "of two", db="two"),
]


@pytest.mark.parametrize("cut", [1, 2, 100])
def test_rows_of_two_databases_and_of_two_servers_never_share_a_target(tmp_path: Path, cut: int) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for start in range(0, len(EVENTS), cut):
        send(lake, EVENTS[start : start + cut], queues=1)
        run = sync(lake, TOPIC, SyncOptions(into=into))
        assert run.await_termination()
        assert run.stopped == {}
    assert {folder.name: [row["v"] for row in rows(folder)] for folder in into.iterdir()} == {
        "orders": ["of one", "of one"],
        "two.dbo.orders": ["of two", "of two"],
        "other.one.dbo.orders": ["of the other server"],
    }


def test_a_lost_record_does_not_mix_them_up(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, EVENTS, queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into), coordination=f"sqlite:///{tmp_path / 'first.db'}").await_termination()
    send(lake, [change(3, "of two", db="two"), change(3, "of one")], queues=1)
    another = f"sqlite:///{tmp_path / 'second.db'}"
    asyncio.run(adopt_table(another, store=open_store(lake), runtime=Runtime()))
    run = sync(lake, TOPIC, SyncOptions(into=into), coordination=another)
    assert run.await_termination()
    assert run.stopped == {}
    assert {folder.name: len(rows(folder)) for folder in into.iterdir()} == {
        "orders": 3,
        "two.dbo.orders": 3,
        "other.one.dbo.orders": 1,
    }


def test_each_stands_still_by_itself_and_goes_on_from_where_it_stood(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    bad = {"two.dbo.orders": {"v": "int"}}
    told = [change(1, 1), change(1, 1, db="two"), change(2, "x", db="two"), change(3, 3, db="two"), change(4, 4)]
    send(lake, told, queues=1)
    for _ in range(2):
        run = sync(lake, TOPIC, SyncOptions(into=into, columns=bad, max_events=2))
        assert run.await_termination()
        assert {table: [stop.offset for stop in stops] for table, stops in run.stopped.items()} == {"dbo.orders": [2]}
    assert [row["id"] for row in rows(into / "orders")] == [1, 4]
    both = [change(9, "y"), change(9, "y", db="two")]
    send(lake, both, queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into, columns=bad | {"orders": {"v": "int"}}))
    assert run.await_termination()
    assert {table: [stop.offset for stop in stops] for table, stops in run.stopped.items()} == {
        "one.dbo.orders": [5],
        "two.dbo.orders": [2],
    }


def test_a_name_asks_for_what_it_says() -> None:
    one, two = TableId("dbo", "orders", "one", "srv"), TableId("dbo", "orders", "two", "srv")
    assert [is_selected({"orders"}, one), is_selected({"dbo.orders"}, two), is_selected({"two.dbo.orders"}, two)] == [True] * 3
    assert [is_selected({"two.dbo.orders"}, one), is_selected({"srv.orders"}, one), is_selected({"one.orders"}, one)] == [False] * 3
    assert distinct_names([one]) == {one: "dbo.orders"}
    assert set(distinct_names([one, two]).values()) == {"one.dbo.orders", "two.dbo.orders"}
    assert distinct_names([TableId(None, "t"), TableId("a", "t")]) == {TableId(None, "t"): "t", TableId("a", "t"): "a.t"}
