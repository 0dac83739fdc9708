"""Typed topics read by engines of Iceberg and DuckDB's Delta, as penstock's own reader shows them, across evolutions and compaction."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.table import StaticTable

import penstock
from penstock.infra.cli import main
from penstock.log import Runtime
from penstock.log.paths import TopicPaths
from penstock.log.stores.local import LocalStore
from penstock.log.table.iceberg.table_metadata import DELTA_VERSION
from penstock.log.table.maintenance import MaintenanceOptions, MaintenanceStatistics, TopicMaintenance
from penstock.log.topic.records import read_record
from tests.lakes import TIMEOUT_S
from tests.log.table.iceberg_readers import by_duckdb, by_pyiceberg

PATHS = TopicPaths.of("orders")


def kept_up(folder: Path) -> MaintenanceStatistics:
    """One round of maintenance that lists the table for Iceberg, by a process of its own."""

    async def run() -> MaintenanceStatistics:
        store, runtime = LocalStore(folder), Runtime()
        found = await read_record(store, PATHS)
        assert found is not None

        async def append(actions: Any) -> None:
            raise AssertionError("nothing is to be appended")

        keeper = TopicMaintenance(store, PATHS, found[0], runtime, append, MaintenanceOptions(compact_fan_in=2), iceberg=True)
        try:
            return await keeper.run_once()
        finally:
            await store.close()

    return asyncio.run(run())


def test_iceberg_shows_a_typed_topic_as_its_reader_does(tmp_path: Path) -> None:
    folder = tmp_path / "a lake"
    table = folder / PATHS.table("table")

    def check() -> None:
        assert kept_up(folder).errors == {}
        rows = [(one.queue, one.offset, one.key, one.headers, one.value) for one in sorted_messages()]
        _, found = by_pyiceberg(table)
        for shown in (found.to_pylist(), by_duckdb(table)):
            assert [
                (
                    row["queue"],
                    row["offset"],
                    row["key"],
                    tuple((one["key"], one["value"]) for one in row["headers"] or ()),
                    row["value"],
                )
                for row in shown
            ] == rows

    with penstock.connect(str(folder), maintenance=False) as lake:

        def sorted_messages() -> list[penstock.MessageView]:
            return sorted(lake.reader("orders").messages(), key=lambda one: (one.queue, one.offset))

        def send(*rows: Any) -> None:
            with lake.producer("orders") as producer:
                for row in rows:
                    producer.send_row(row).result(timeout=TIMEOUT_S)

        lake.create_topic("orders", schema="id int, name string, place struct<x: int, y: int>", queues=2)
        check()  # no rows yet
        send({"id": 1, "name": "a", "place": {"x": 1, "y": 2}}, {"id": 2})
        check()
        lake.evolve_topic(
            "orders",
            "id bigint, title string, place struct<x: int>, amount decimal(9,2)",
            rename={"name": "title"},
            retire=["place.y"],
        )
        check()  # only the schema has changed
        send({"id": 2**40, "title": "b", "place": {"x": 3}, "amount": Decimal("1.50")})
        with lake.producer("orders") as producer:
            producer.send(penstock.Message(None, tag="gone", key=b"\0", headers=[("h", b"1"), ("h", None)])).result(
                timeout=TIMEOUT_S
            )
        check()
        check()  # compacted, files of both versions into one
        lake.evolve_topic("orders", "title string, place struct<x: int, z: string>, amount decimal(12,2), id bigint, name date")
        send({"title": "c", "place": {"x": 4, "z": "new"}, "amount": Decimal("1234567890.25")})
        check()
        check()
        version = StaticTable.from_metadata(str(table)).current_snapshot()
        assert version is not None
        assert version.summary is not None
        assert int(version.summary[DELTA_VERSION] or 0) == len(list((table / "_delta_log").glob("*.json"))) - 1


def test_maintenance_lists_the_topics_that_ask_for_it(tmp_path: Path) -> None:
    table = tmp_path / PATHS.table("table")
    with penstock.connect(tmp_path, maintenance=False) as lake:
        lake.create_topic("orders", schema="id int", queues=1, iceberg=True)
        lake.create_topic("plain", queues=1)
        for topic in ("orders", "plain"):
            with lake.producer(topic) as producer:
                producer.send(penstock.Message.of({"id": 7}) if topic == "orders" else penstock.Message(b"x")).result(TIMEOUT_S)
        assert lake.topics()["orders"].settings.iceberg
    ran = CliRunner().invoke(main, ["--lake", str(tmp_path), "maintain", "--once"])
    assert ran.exit_code == 0, ran.output
    assert [row["value"] for row in by_pyiceberg(table)[1].to_pylist()] == [{"id": 7}]
    assert not (tmp_path / TopicPaths.of("plain").table("table") / "metadata").exists()
    with penstock.connect(tmp_path, maintenance=False) as lake:
        lake.alter_topic("plain", iceberg=True)
        with pytest.raises(penstock.InvalidArgument, match="iceberg must be True or False"):
            lake.alter_topic("plain", iceberg="yes")  # type: ignore[arg-type]
    ran = CliRunner().invoke(main, ["--lake", str(tmp_path), "maintain", "--once"])
    assert ran.exit_code == 0, ran.output
    assert by_pyiceberg(tmp_path / TopicPaths.of("plain").table("table"))[1].num_rows == 1
