from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock import SyncOptions, TableOptions, sync
from penstock.cdc.sync.options import NO_STEPS, Moment, PoisonEvent
from tests.cdc import nasty
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.streams import TOPIC, event, group_for, rows, send
from tests.cdc.test_fold import as_text
from tests.spark.sync.engines import Way, in_each_way

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
    first = sync(lake, TOPIC, SyncOptions(into=into, columns=types), spark=spark)
    assert first.await_termination()
    assert (first.status.events, first.stopped) == (6, {})
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("9.99"), "note": "丁"}]
    assert rows(into / "lines") == [{"bill": 1, "line": 1, "count": 3}]

    send(
        lake,
        [event("u", "bills", {"id": 1}, {"id": 1, "amount": "3.00", "note": "__debezium_unavailable_value", "paid": True}, at=5)],
    )
    second = sync(lake, TOPIC, SyncOptions(into=into, columns=types), spark=spark)
    assert second.await_termination()
    assert second.status.events == 1
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("3.00"), "note": "丁", "paid": True}]

    third = sync(lake, TOPIC, SyncOptions(into=into, columns=types), spark=spark)
    assert third.await_termination()
    assert third.status.batches == 0


def test_tasks_carry_functions_that_mask_columns(spark: SparkSession, tmp_path: Path) -> None:
    lake, secret = str(tmp_path / "lake"), 7
    send(lake, [event("c", "people", {"id": n}, {"id": n, "age": 40 + n, "note": "x"}, at=n) for n in range(4)])
    options = TableOptions(masks={"age": lambda age: age * secret}, without_columns=["note"])
    run = sync(
        lake,
        TOPIC,
        SyncOptions(
            into=tmp_path / "targets",
            rename={"public.*": "{schema}-{table}"},
            table_options={"people": options},
            events_in_driver=0,
        ),
        spark=spark,
    )
    assert run.await_termination()
    assert run.stopped == {}
    assert rows(tmp_path / "targets" / "public-people") == [{"id": n, "age": (40 + n) * 7} for n in range(4)]


@in_each_way
def test_rejected_events_stand_aside_once_by_either_engine(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    types = {"bills": {"amount": "decimal(12,2)"}}
    for engine in (spark, None, spark):
        send(lake, [event("c", "bills", {"id": n}, {"id": n, "amount": "1" if n % 2 else "many"}) for n in range(4)])
        run = sync(lake, TOPIC, SyncOptions(into=into, columns=types, policy="reject", **way), spark=engine)
        assert run.await_termination()
        assert (run.stopped, run.status.rejected) == ({}, {"public.bills": 2})
    assert [row["id"] for row in rows(into / "bills")] == [1, 3]
    aside = rows(into / "_rejected")
    assert len({(row["queue"], row["offset"]) for row in aside}) == len(aside) == 6
    assert spark.read.format("delta").load(str(into / "_rejected")).count() == 6


@pytest.mark.thorough
@in_each_way
def test_a_driver_of_spark_s_that_ends_around_the_side_table_sets_each_event_aside_once(
    spark: SparkSession, tmp_path: Path, way: Way
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [
        event("c", table, {"id": n}, {"id": n, "amount": "1" if n % 2 else "many"})
        for n in range(12)
        for table in ("bills", "lines")
    ]
    send(lake, events)
    chosen: dict[str, Any] = {
        "columns": {"*": {"amount": "decimal(12,2)"}},
        "policy": "reject",
        "table_options": {"lines": TableOptions(policy="null")},
        **way,
    }
    moments: tuple[Moment, ...] = ("before", "in", "after")
    for step, moment in [*(("set aside", moment) for moment in moments), ("merge", "after")]:
        run = sync(lake, TOPIC, SyncOptions(into=into, max_events=8, **chosen), spark=spark, steps=CrashAt(step, moment))
        with pytest.raises(Crash):
            run.await_termination()
    last = sync(lake, TOPIC, SyncOptions(into=into, **chosen), spark=spark)
    assert last.await_termination()
    assert last.stopped == {}
    aside = rows(into / "_rejected")
    assert len({(row["queue"], row["offset"]) for row in aside}) == len(aside) == 12
    assert Counter((row["table"], row["action"]) for row in aside) == {("public.bills", "rejected"): 6, ("public.lines", "null"): 6}
    assert sorted(row["id"] for row in rows(into / "bills")) == [1, 3, 5, 7, 9, 11]
    assert {row["id"] for row in rows(into / "lines") if row["amount"] is None} == {0, 2, 4, 6, 8, 10}


@pytest.mark.thorough
@in_each_way
def test_the_nasty_stream_ends_with_the_tables_written_by_hand(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for batch in nasty.batches():
        groups = [group_for(message.queue, 2) for message in batch]
        send(lake, [message.body for message in batch], groups=groups)
        run = sync(lake, TOPIC, SyncOptions(into=into, columns=nasty.DECLARED, **way), spark=spark)
        assert run.await_termination()
        assert (run.stopped, run.status.batches) == ({}, 1)
    for table, wanted in nasty.expected().items():
        columns = next(iter(wanted.values())).keys()
        found = [{name: row.get(name) for name in columns} for row in rows(into / table)]
        assert found == sorted(({name: as_text(value) for name, value in row.items()} for row in wanted.values()), key=repr), table


def test_an_event_that_cannot_be_applied_stops_its_table_only_and_is_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    write_deltalake(str(into / "foreign"), pa.table({"id": [1]}))
    events = [
        event("c", "bills", {"id": 1}, {"id": 1, "amount": "1.00"}),
        event("c", "bills", {"id": 2}, {"id": 2, "amount": "1.005"}),
        event("c", "bills", {"id": 3}, {"id": 3, "amount": "3.00"}),
        event("c", "keyless", None, {"id": 1}),
        event("c", "foreign", {"id": 1}, {"id": 1}),
        event("c", "lines", {"id": 1}, {"id": 1, "count": 2**70}),
    ]
    send(lake, events, queues=1)
    first = sync(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"amount": "decimal(12,2)"}}), spark=spark)
    assert first.await_termination()
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("1.00")}]
    assert rows(into / "lines") == [{"id": 1, "count": Decimal(2**70)}]
    stops = {table: [(stop.queue, stop.offset) for stop in stops] for table, stops in first.stopped.items()}
    assert stops == {"public.bills": [(0, 1)], "public.keyless": [(0, 3)], "public.foreign": [(0, 4)]}
    assert first.stopped["public.bills"][0].reason.startswith("column amount: '1.005' does not fit decimal(12,2)")
    assert first.stopped["public.keyless"][0].reason == "it has no key, and no key is declared for its table"
    assert "written by someone else" in first.stopped["public.foreign"][0].reason
    assert "a Delta table that no sync has written" in first.stopped["public.foreign"][0].reason

    second = sync(
        lake,
        TOPIC,
        SyncOptions(into=into, columns={"bills": {"amount": "decimal(12,3)"}}, keys={"keyless": ["id"]}, adopt=True),
        spark=spark,
    )
    assert second.await_termination()
    assert set(second.stopped) == {"public.bills"}  # the target is there, and has the say
    assert rows(into / "keyless") == rows(into / "foreign") == [{"id": 1}]

    send(lake, [b"no json"], queues=1)
    third = sync(lake, TOPIC, SyncOptions(into=into), spark=spark)
    with pytest.raises(PoisonEvent, match=r"this is no JSON: b'no json' \(operation: sync; object: changes, queue 0, offset 6\)"):
        third.await_termination()


@in_each_way
def test_history_keeps_every_version_and_closes_them(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    at = datetime(2026, 1, 1, tzinfo=UTC)

    def change(op: str, key: int, second: int, **row: object) -> dict[str, object]:
        ts_ms = int((at + timedelta(seconds=second)).timestamp() * 1000)
        after = None if op in "dt" else {"id": key, **row}
        return event(op, "bills", None if op == "t" else {"id": key}, after, at=second, ts_ms=ts_ms)

    first = [change("c", 1, 1, state="new"), change("u", 1, 2, state="paid"), change("c", 2, 3, state="new")]
    second = [
        change("u", 1, 2, state="paid"),  # told again
        change("u", 1, 4, state="__debezium_unavailable_value"),
        change("d", 2, 5),
        change("c", 3, 6, state="new"),
        change("t", 0, 7),
        change("c", 1, 8, state="again"),
    ]
    for part in (first, second):
        send(lake, part, queues=1)
        run = sync(lake, TOPIC, SyncOptions(into=into, history=True, **way), spark=spark)
        assert run.await_termination()
        assert run.stopped == {}
    found = [
        (
            row["id"],
            row["state"],
            row["__op"],
            (row["__valid_from"] - at).seconds,
            row["__valid_to"] and (row["__valid_to"] - at).seconds,
            row["__current"],
        )
        for row in rows(into / "bills", own=True)
    ]
    assert sorted(found, key=lambda row: (row[0], row[3])) == [
        (1, "new", "c", 1, 2, False),
        (1, "paid", "u", 2, 4, False),
        (1, "paid", "u", 4, 7, False),
        (1, "again", "c", 8, None, True),
        (2, "new", "c", 3, 5, False),
        (3, "new", "c", 6, 7, False),
    ]


@pytest.mark.thorough
def test_a_version_takes_what_it_lacks_from_the_newest_that_counts(spark: SparkSession, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    groups = [group_for(queue, 2) for queue in (0, 1)]
    send(lake, [event("c", "bills", {"id": 1}, {"id": 1, "large": "new"}, at=12)], groups=groups[:1])
    assert sync(lake, TOPIC, SyncOptions(into=into, history=True), spark=spark).await_termination()
    late = event("u", "bills", {"id": 1}, {"id": 1, "large": "old"}, at=10)
    last = event("u", "bills", {"id": 1}, {"id": 1, "large": "__debezium_unavailable_value"}, at=20)
    send(lake, [last, late], groups=groups)
    assert sync(lake, TOPIC, SyncOptions(into=into, history=True), spark=spark).await_termination()
    found = [(row["__op"], row["large"], row["__current"]) for row in rows(into / "bills", own=True)]
    assert sorted(found) == [("c", "new", False), ("u", "new", True)]


@pytest.mark.thorough
@in_each_way
def test_targets_may_be_compacted_meanwhile(spark: SparkSession, tmp_path: Path, way: Way) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, [event("u", "bills", {"id": n % 7}, {"id": n % 7, "n": n}, at=n) for n in range(60)])
    compacted: list[str] = []

    class Compacting:
        """Rewrites the target's files after each merge has been planned, and once while it runs."""

        def reached(self, step: str, moment: str, what: str = "") -> None:
            if (step, moment) == ("merge", "before") and compacted != []:
                spark.sql(f"OPTIMIZE delta.`{into / what}`")
            if (step, moment) == ("merge", "after"):
                compacted.append(what)

        def __reduce__(self) -> tuple[object, ...]:
            return _no_steps, ()

    run = sync(lake, TOPIC, SyncOptions(into=into, max_events=20, **way), spark=spark, steps=Compacting())
    assert run.await_termination()
    assert compacted == ["bills"] * 3
    spark.sql(f"OPTIMIZE delta.`{into / 'bills'}`")
    again = sync(lake, TOPIC, SyncOptions(into=into), spark=spark)
    assert again.await_termination()
    assert rows(into / "bills") == [{"id": n % 7, "n": n} for n in sorted(range(53, 60), key=lambda n: n % 7)]


def _no_steps() -> object:
    return NO_STEPS
