"""Tables that stand still, by the engine without Spark: it decides the same and starts at once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock import SyncOptions, sync
from tests.cdc.sync.streams import TOPIC, Row, event, group_for, rows, send


def test_a_table_that_stood_still_gets_what_came_meanwhile_by_all_queues(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [event("c", "keyless", None, {"id": n}) for n in range(6)] + [
        event("c", "bills", {"id": n}, {"id": n}) for n in range(6)
    ]
    groups = [group_for(queue, 2) for queue in (0, 0, 1, 1, 0, 1)] * 2
    send(lake, events, groups=groups)
    for _ in range(2):  # the second run meets the same, and loses nothing by it
        run = sync(lake, TOPIC, SyncOptions(into=into, max_events=3))
        assert run.await_termination()
        assert set(run.stopped) == {"public.keyless"}
        assert rows(into / "bills") == [{"id": n} for n in range(6)]
    with sync(lake, TOPIC, SyncOptions(into=into, max_events=3, keys={"keyless": ["id"]})) as run:
        assert run.await_termination()
    assert run.stopped == {}
    assert rows(into / "keyless") == rows(into / "bills") == [{"id": n} for n in range(6)]


def test_what_came_before_the_event_that_a_target_refuses_is_applied_and_that_event_is_named(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    events = [event("c", "t", {"id": n}, {"id": n, "name": "a"}) for n in range(3)]
    events.append(event("c", "t", {"id": 3}, {"id": 3, "Name": "b"}))
    events += [event("c", "t", {"id": 4}, {"id": 4, "name": "c"}), event("c", "u", {"id": 5}, {"id": 5})]
    send(lake, events, groups=[group_for(queue, 2) for queue in (0, 0, 1, 0, 1, 0)])
    for _ in range(2):
        run = sync(lake, TOPIC, SyncOptions(into=into))
        assert run.await_termination()
        ((_, (stop,)),) = run.stopped.items()
        assert (stop.queue, stop.offset) == (0, 2)
        assert "two columns differ in case only" in stop.reason
        assert rows(into / "t") == [{"id": 0, "name": "a"}, {"id": 1, "name": "a"}, {"id": 2, "name": "a"}, {"id": 4, "name": "c"}]
        assert rows(into / "u") == [{"id": 5}]


def test_a_type_that_became_wider_stops_the_table_until_its_target_is_rewritten(tmp_path: Path) -> None:
    """As the documents advise; not by Delta's type widening, whose tables this engine could neither read nor write."""
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    amounts = ["1.50", "12345.67", "2.50"]
    send(lake, [event("c", "bills", {"id": n}, {"id": n, "amount": amount}) for n, amount in enumerate(amounts)], queues=1)
    narrow, wide = ({"bills": {"amount": f"decimal({digits},2)"}} for digits in (4, 12))
    for _ in range(2):
        with sync(lake, TOPIC, SyncOptions(into=into, columns=narrow)) as run:
            assert run.await_termination()
        (stop,) = run.stopped["public.bills"]
        assert stop.offset == 1
        assert stop.reason.startswith("column amount: '12345.67' does not fit decimal(4,2). Give the column a type that holds it: ")
    path = str(into / "bills")
    old = pa.table(DeltaTable(path).to_pyarrow_table())
    place = old.schema.get_field_index("amount")
    rewritten = old.set_column(place, "amount", old["amount"].cast(pa.decimal128(12, 2)))
    write_deltalake(path, rewritten, mode="overwrite", schema_mode="overwrite")
    with sync(lake, TOPIC, SyncOptions(into=into, columns=wide)) as run:  # it is asked for: somebody else wrote last
        assert run.await_termination()
    assert "changed the target's rows since the sync wrote it last" in run.stopped["public.bills"][0].reason
    with sync(lake, TOPIC, SyncOptions(into=into, columns=wide, adopt=True)) as run:
        assert run.await_termination()
    assert run.stopped == {}
    assert rows(path) == [{"id": n, "amount": Decimal(amount)} for n, amount in enumerate(amounts)]


def test_a_type_that_is_declared_when_the_target_is_there_already_is_not_passed_over_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for number, columns in enumerate(
        ({"at": "string", "n": "bigint"}, {"at": "string", "n": "int"}, {"at": "timestamp", "n": "int"})
    ):
        assert caplog.text == ""
        send(lake, [event("c", "t", {"id": number}, {"id": number, "at": "2026-11-26T10:00:00Z", "n": 1}, at=number)], queues=1)
        run = sync(lake, TOPIC, SyncOptions(into=into, columns={"t": columns}))
        assert run.await_termination()
        assert run.stopped == {}
    (warning,) = caplog.messages
    assert f"the target {into / 't'} keeps its types: at is string, and timestamp is declared. " in warning
    assert warning.endswith("The same line with --retype gives it these")


def test_what_came_before_the_event_that_stopped_a_new_table_is_there_though_a_truncate_comes_behind_it(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    changes = [event("c", "t", {"id": n}, {"id": n, "n": number}, at=n) for n, number in ((1, 5), (2, 2**40))]
    send(lake, [*changes, event("t", "t", None, at=3)], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into, columns={"t": {"n": "int"}}))
    assert run.await_termination()
    assert [stop.offset for stop in run.stopped["public.t"]] == [1]
    assert rows(into / "t") == [{"id": 1, "n": 5}]


def test_a_truncate_behind_the_event_that_stopped_a_table_without_a_target_counts_when_it_comes_again(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    changes = [event("c", "t", None, {"id": n}, at=n) for n in (1, 2)]
    send(lake, [*changes, event("t", "t", None, at=3)], queues=1)
    run = sync(lake, TOPIC, SyncOptions(into=into))
    assert run.await_termination()
    assert set(run.stopped) == {"public.t"}
    found = list[list[Row]]()
    keys = {"t": ["id"]}
    with sync(
        lake, TOPIC, SyncOptions(into=into, keys=keys, max_events=1), listener=lambda _: found.append(rows(into / "t"))
    ) as run:
        assert run.await_termination()
    assert found == [[{"id": 1}], [{"id": 1}, {"id": 2}], []]
