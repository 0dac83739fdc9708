"""What the listener does with a statement before the connector reads it, without a Java."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cdc.debezium import binlog_listener
from penstock.cdc.debezium.binlog_listener import BinlogListener

Tables = dict[tuple[str, str], Sequence[str]]


class TableId(tuple[str, str]):
    """A table's name as Java has it."""

    __slots__ = ()

    def catalog(self) -> str:
        return self[0]

    def table(self) -> str:
        return self[1]


def listener_of(patch: pytest.MonkeyPatch, tables: Mapping[tuple[str, str], Sequence[str]]) -> tuple[BinlogListener, Tables]:
    """A listener of a connector that knows these tables, with their keys; and what it knows."""
    known: Tables = {TableId(name): key for name, key in tables.items()}
    java: Mapping[str, Any] = {
        "io.debezium.relational.TableId": lambda database, _, table: TableId((database, table)),
        "java.lang.management.ManagementFactory": SimpleNamespace(getPlatformMBeanServer=lambda: None),
        "javax.management.MBeanServerDelegate": SimpleNamespace(DELEGATE_NAME=""),
    }
    patch.setattr(binlog_listener, "load_jpype", lambda: SimpleNamespace(JClass=java.__getitem__))
    patch.setattr(binlog_listener, "_member", getattr)
    listener = BinlogListener("mariadb", lambda: 100, lowers_names=False)
    chosen = SimpleNamespace(isIncluded=lambda table: table.catalog() == "shop")
    listener._config = SimpleNamespace(getTableFilters=lambda: SimpleNamespace(dataCollectionFilter=lambda: chosen))
    listener._client = SimpleNamespace(getBinlogFilename=lambda: "binlog.000007")

    def table_for(name: TableId) -> Any:
        return SimpleNamespace(primaryKeyColumnNames=lambda: known[name]) if name in known else None

    listener._schema = SimpleNamespace(
        tables=SimpleNamespace(removeTable=known.pop), tableIds=lambda: list(known), tableFor=table_for
    )
    return listener, known


def takes(listener: BinlogListener, sql: str) -> None:
    data = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: "QueryEventData"),
        getSql=lambda: sql,
        getDatabase=lambda: "shop",
        setSql=lambda told: None,
    )
    header = SimpleNamespace(
        getEventType=lambda: SimpleNamespace(name=lambda: "QUERY"),
        getFlags=lambda: 0,
        getEventLength=lambda: 50,
        getPosition=lambda: 500,
    )
    listener._take(SimpleNamespace(getHeader=lambda: header, getData=lambda: data))
    listener.check()


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("CREATE TABLE a (id INT PRIMARY KEY)", ["b", "c"]),
        ("CREATE TABLE IF NOT EXISTS a (id INT PRIMARY KEY)", ["a", "b", "c"]),
        ("CREATE OR REPLACE DATABASE shop", ["c"]),
        ("ALTER TABLE a ADD d INT", ["a", "b", "c"]),
    ],
)
def test_a_table_that_is_made_anew_is_forgotten(monkeypatch: pytest.MonkeyPatch, sql: str, left: list[str]) -> None:
    """The connector may know a name that the server has not: a rename of a session's own table is told as of one of all sessions."""
    listener, known = listener_of(monkeypatch, {("shop", "a"): ["id"], ("shop", "b"): ["id"], ("other", "c"): ["id"]})
    takes(listener, sql)
    assert [table for _, table in known] == left


@pytest.mark.parametrize(
    ("sql", "does", "read"),
    [
        ("ALTER TABLE a MODIFY ID BIGINT", "ends", (("shop", "a"),)),
        ("ALTER TABLE a ADD v INT NOT NULL AFTER id", "filled", ()),
        ("ALTER TABLE strange MODIFY id BIGINT", "filled", ()),
    ],
)
def test_a_table_whose_key_gets_values_is_emptied(
    monkeypatch: pytest.MonkeyPatch, sql: str, does: str, read: tuple[tuple[str, str], ...]
) -> None:
    listener, _ = listener_of(monkeypatch, {("shop", "a"): ["id"]})
    takes(listener, sql)
    (event,) = listener.events
    assert event.statement is not None
    assert (event.statement.does, event.statement.read) == (does, read)


def test_the_tables_of_a_database_that_goes_are_noted_before_the_connector_drops_them(monkeypatch: pytest.MonkeyPatch) -> None:
    listener, _ = listener_of(monkeypatch, {("shop", "a"): ["id"], ("other", "c"): ["id"]})
    takes(listener, "DROP DATABASE shop")
    (event,) = listener.events
    assert event.statement is not None
    assert event.statement.tables == (("shop", "a"),)


class JavaEngine:
    """As heavy as a whole connector."""


def test_an_ear_that_hears_no_more_holds_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even in a ring, for which Python's collector would have to come first."""
    server = SimpleNamespace(addNotificationListener=lambda *_: None, removeNotificationListener=lambda *_: None)
    logger = SimpleNamespace(setFilter=lambda _: None, setLevel=lambda _: None)
    java: Mapping[str, Any] = {
        "java.lang.management.ManagementFactory": SimpleNamespace(getPlatformMBeanServer=lambda: server),
        "javax.management.MBeanServerDelegate": SimpleNamespace(DELEGATE_NAME=""),
        "javax.management.ObjectName": str,
        "java.util.logging.Logger": SimpleNamespace(getLogger=lambda _: logger),
        "java.util.logging.Level": SimpleNamespace(WARNING=1, OFF=0),
    }
    monkeypatch.setattr(
        binlog_listener, "load_jpype", lambda: SimpleNamespace(JClass=java.__getitem__, JProxy=lambda _, inst: inst)
    )
    engine = JavaEngine()
    held = weakref.ref(engine)
    gc.disable()
    try:
        listener = BinlogListener("mariadb", lambda: 100, lowers_names=False)
        listener.attach(engine, "shop")
        del engine
        assert held() is not None
        listener.detach()
        assert held() is None
    finally:
        gc.enable()
