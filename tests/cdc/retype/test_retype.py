"""Older targets get their source's types: once or not at all, wherever it ends, and the sync goes on. Without Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from penstock import RetypedTable, SyncOptions, TableOptions, retype, sync
from penstock.cdc.events.table_types import TableTypes
from penstock.cdc.retype import retype as retyping
from penstock.cdc.sync.lease import SyncInUse
from penstock.cdc.target import PROPERTY
from penstock.log import InvalidArgument, TopicNotFound
from tests.cdc.columns import target_types
from tests.cdc.retype.older import TYPES, applied, bill, files, keep, kinds, make_older, progress
from tests.cdc.sync.crashes import Crash, CrashAt
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A topic whose target was made by an older release: its columns are text, and its last event names their types."""
    url = str(tmp_path / "lake")
    make_older(url, tmp_path / "into")
    assert kinds(tmp_path / "into") == {"id": "int64", "amount": "string", "day": "string", "note": "string"}
    return url


@pytest.fixture
def into(tmp_path: Path) -> Path:
    return tmp_path / "into"


TYPED = {"id": "int64", "amount": "decimal128(12, 2)", "day": "date32[day]", "note": "string"}
DAY = date(2026, 11, 22)
ROWS: list[Row] = [
    {"id": 1, "amount": Decimal("1.50"), "day": DAY, "note": "ß"},
    {"id": 2, "amount": None, "day": DAY, "note": "ß"},
    {"id": 3, "amount": Decimal("3.25"), "day": DAY, "note": "ß"},
]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(lake: str, into: Path) -> None:
    before = files(into)
    (said,) = retype(lake, TOPIC, SyncOptions(into=into), dry_run=True)
    assert [(one.column, one.old, one.new) for one in said.changes] == [
        ("amount", "string", "decimal(12,2)"),
        ("day", "string", "date"),
    ]
    assert said == RetypedTable("public.bills", str(into / "bills"), said.changes, rows=3, files=said.files)
    assert said.files >= 1
    assert files(into) == before


def test_a_target_gets_the_source_s_types_in_one_commit_and_the_sync_goes_on(lake: str, into: Path) -> None:
    table = DeltaTable(str(into / "bills"))
    table.alter.add_constraint({"known": "id > 0"})
    before, first = DeltaTable(str(into / "bills")), progress(into)
    (done,) = retype(lake, TOPIC, SyncOptions(into=into))
    after = DeltaTable(str(into / "bills"))
    assert done.version == after.version() == before.version() + 1
    assert kinds(into) == TYPED
    assert rows(into / "bills") == ROWS
    assert after.metadata().configuration == before.metadata().configuration
    assert PROPERTY in after.metadata().configuration
    assert progress(into) == replace(first, commits=first.commits + 1)
    assert [one.changes for one in retype(lake, TOPIC, SyncOptions(into=into))] == [()]
    assert DeltaTable(str(into / "bills")).version() == after.version()
    send(lake, [bill(1, "7.00", at=4, types=TYPES), bill(4, at=5, types=TYPES)])
    run = applied(lake, into)
    assert (run.stopped, run.status.events) == ({}, 2)
    assert rows(into / "bills") == [{**ROWS[0], "amount": Decimal("7.00")}, *ROWS[1:], {**ROWS[0], "id": 4}]


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["before", "in", "after"])
def test_wherever_it_ends_the_target_has_one_form_or_the_other(lake: str, into: Path, moment: Any) -> None:
    version = DeltaTable(str(into / "bills")).version()
    with pytest.raises(Crash):
        retype(lake, TOPIC, SyncOptions(into=into), steps=CrashAt("retype", moment))
    done = moment == "after"
    assert DeltaTable(str(into / "bills")).version() == version + done
    assert (kinds(into)["amount"] == "decimal128(12, 2)") is done
    send(lake, [bill(4, at=6, types=TYPES)])
    assert not applied(lake, into).stopped
    (again,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert (again.version is None) is done
    assert kinds(into) == TYPED
    assert rows(into / "bills") == [*ROWS, {**ROWS[0], "id": 4}]
    send(lake, [bill(5, at=7, types=TYPES)])
    assert not applied(lake, into).stopped
    assert len(rows(into / "bills")) == 5


@pytest.mark.processes
@pytest.mark.parametrize("moment", [*(pytest.param(one, marks=pytest.mark.thorough) for one in ("before", "after")), "in"])
def test_a_process_that_is_killed_leaves_one_form_or_the_other(lake: str, into: Path, moment: str) -> None:
    version = DeltaTable(str(into / "bills")).version()
    call = f"retype({lake!r}, {TOPIC!r}, SyncOptions(into={str(into)!r}), steps=CrashAt('retype', {moment!r}, kill=os.getpgid(0)))"
    program = f"import os; from penstock import SyncOptions, retype; from tests.cdc.sync.crashes import CrashAt; {call}"
    ended = subprocess.run([sys.executable, "-c", program], start_new_session=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert DeltaTable(str(into / "bills")).version() == version + (moment == "after")
    send(lake, [bill(4, at=6, types=TYPES)])
    assert not applied(lake, into).stopped
    (again,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert (again.version is None) is (moment == "after")
    assert rows(into / "bills") == [*ROWS, {**ROWS[0], "id": 4}]


def test_a_value_that_does_not_fit_refuses_the_whole_and_nothing_is_written(lake: str, into: Path) -> None:
    send(lake, [bill(4, "much", at=4, types=TYPES), bill(5, at=5, types=TYPES)])
    applied(lake, into)
    before = files(into)
    for dry_run in (True, False):
        (refused,) = retype(lake, TOPIC, SyncOptions(into=into), dry_run=dry_run)
        assert refused.refused == (
            "row id=4: column amount: 'much' does not fit decimal(12,2): if these are bytes, as decimal.handling.mode=precise writes them, "
            "declare 'decimal(12,2) from base64'. Text holds it: --column public.bills.amount=string"
        )
        assert refused.version is None
    assert files(into) == before
    send(lake, [bill(4, "4.00", at=6, types=TYPES)])
    applied(lake, into)
    (done,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert (done.refused, kinds(into)) == (None, TYPED)


def test_a_source_that_became_wider_stops_its_table_with_the_line_to_run(lake: str, into: Path) -> None:
    retype(lake, TOPIC, SyncOptions(into=into))
    wider = TableTypes("public", "bills", {**TYPES.columns, **target_types({"amount": "decimal(14,2)"})})
    keep(lake, wider)
    send(lake, [bill(4, "1.00", at=4, types=wider), bill(5, "12345678901.25", at=5, types=wider)])
    (stop,) = applied(lake, into).stopped["public.bills"]
    assert stop.reason == (
        "column amount: '12345678901.25' does not fit decimal(12,2). The source's column calls for decimal(14,2), the target's has decimal(12,2): "
        f"penstock sync changes --lake {lake} --into {into} --retype --table public.bills"
    )
    (done,) = retype(lake, TOPIC, SyncOptions(into=into, tables=["public.bills"]))
    assert [(one.column, one.new) for one in done.changes] == [("amount", "decimal(14,2)")]
    assert not applied(lake, into).stopped
    assert rows(into / "bills")[3:] == [
        {**ROWS[0], "id": 4, "amount": Decimal("1.00")},
        {**ROWS[0], "id": 5, "amount": Decimal("12345678901.25")},
    ]


def test_the_line_to_run_keeps_what_the_user_has_declared(lake: str, into: Path) -> None:
    columns = {"bills": {"day": "string", "amount": "decimal(12,2)"}}
    retype(lake, TOPIC, SyncOptions(into=into, columns=columns))
    wider = TableTypes("public", "bills", {**TYPES.columns, **target_types({"amount": "decimal(14,2)"})})
    keep(lake, wider)
    send(lake, [bill(4, "12345678901.25", at=4, types=wider, day="infinity")])
    table = f"sqlite://{lake}/.penstock/coordination.db"  # the lake's own, by its name
    (stop,) = applied(lake, into, columns=columns, coordination=table).stopped["public.bills"]
    assert stop.reason.endswith(
        f": penstock sync changes --lake {lake} --coordination {table} --into {into} --retype --table public.bills "
        "--column public.bills.day=string"
    )
    options = {"bills": TableOptions(columns=columns["bills"])}  # as from a file, which is to be given again
    (stop,) = applied(lake, into, table_options=options).stopped["public.bills"]
    assert stop.reason.endswith(
        f" (with the same --config): penstock sync changes --lake {lake} --into {into} --retype --table public.bills"
    )
    (done,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"public.bills": {"day": "string"}}))
    assert [(one.column, one.new) for one in done.changes] == [("amount", "decimal(14,2)")]


def test_a_value_that_the_source_s_type_has_beside_is_told_too(lake: str, into: Path) -> None:
    retype(lake, TOPIC, SyncOptions(into=into))
    send(lake, [bill(4, at=4, types=TYPES, day="infinity")])
    (stop,) = applied(lake, into).stopped["public.bills"]
    assert stop.reason == (
        "column day: 'infinity' does not fit date. The source's type has values that date has not: "
        f"penstock sync changes --lake {lake} --into {into} --retype --table public.bills --column public.bills.day=string; or start the sync "
        "with --unfit-times null, which makes such times NULL"
    )
    (done,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"day": "string"}}))
    assert done.version is not None
    assert not applied(lake, into).stopped
    assert [row["day"] for row in rows(into / "bills")] == ["2026-11-22"] * 3 + ["infinity"]
    assert [one.changes for one in retype(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"day": "string"}}))] == [()]


def test_without_types_of_the_source_columns_have_to_be_named(tmp_path: Path, into: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [bill(1, at=1)])
    applied(lake, into)
    (said,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert (said.unknown, said.changes) == (True, ())
    (done,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"public.bills": {"amount": "decimal(5,1)", "id": "int"}}))
    assert not done.unknown
    assert kinds(into) == {"id": "int32", "amount": "decimal128(5, 1)", "day": "string", "note": "string"}
    send(lake, [bill(1, "9.5", at=2)])
    assert not applied(lake, into).stopped
    assert rows(into / "bills") == [{"id": 1, "amount": Decimal("9.5"), "day": "2026-11-22", "note": "ß"}]


def test_a_compaction_meanwhile_makes_it_begin_again(lake: str, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = []

    class Compacting:
        def reached(self, step: str, moment: str, what: str = "") -> None:
            if moment != "in":
                return
            times.append(moment)
            if len(times) == 1:
                DeltaTable(str(into / "bills")).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})

    (done,) = retype(lake, TOPIC, SyncOptions(into=into), steps=Compacting())
    assert len(times) == 2
    assert done.version == DeltaTable(str(into / "bills")).version()
    assert rows(into / "bills") == ROWS


def test_rows_that_others_change_meanwhile_are_not_lost(lake: str, into: Path) -> None:
    class Foreign:
        def reached(self, step: str, moment: str, what: str = "") -> None:
            if moment == "in":
                DeltaTable(str(into / "bills")).update(updates={"note": "'theirs'"}, predicate="id = 1")

    (refused,) = retype(lake, TOPIC, SyncOptions(into=into), steps=Foreign())
    assert "somebody else has changed the target's rows" in str(refused.refused)
    assert kinds(into)["amount"] == "string"
    assert rows(into / "bills")[0]["note"] == "theirs"


def test_a_sync_that_runs_is_not_disturbed(lake: str, into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retyping, "_PATIENCE_S", 0.0)
    run = sync(lake, TOPIC, SyncOptions(into=into, trigger=0.1))
    with run:
        with pytest.raises(SyncInUse):
            retype(lake, TOPIC, SyncOptions(into=into))
        assert retype(lake, TOPIC, SyncOptions(into=into), dry_run=True)
    assert retype(lake, TOPIC, SyncOptions(into=into))[0].version


def test_two_rows_that_would_become_one(tmp_path: Path, into: Path) -> None:
    lake = str(tmp_path / "lake")
    send(lake, [event("c", "a", {"id": id_}, {"id": id_}, at=at) for at, id_ in enumerate(("1", "01", "2"))])
    applied(lake, into)
    (refused,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"a": {"id": "int"}}))
    assert refused.refused == "1 rows would have the key (id) of another row"
    assert kinds(into, "a") == {"id": "string"}


def test_what_is_no_target_of_the_sync(lake: str, into: Path, tmp_path: Path) -> None:
    with pytest.raises(TopicNotFound, match="there is no such sync"):
        retype(lake, TOPIC, SyncOptions(into=into, name="another"))
    with pytest.raises(InvalidArgument, match="a sync of this name writes elsewhere"):
        retype(lake, TOPIC, SyncOptions(into=tmp_path / "other"))
    with pytest.raises(InvalidArgument, match=r"the sync has no such table.*bils.*expected: public.bills; observed: 1 tables"):
        retype(lake, TOPIC, SyncOptions(into=into, tables=["bils"]))
    with pytest.raises(InvalidArgument, match=r"the sync has no such table.*bils"):
        retype(lake, TOPIC, SyncOptions(into=into, columns={"bils": {"id": "int"}}))
    with pytest.raises(InvalidArgument, match="no type that a column of a target can have"):
        retype(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"id": "money"}}))
    (refused,) = retype(lake, TOPIC, SyncOptions(into=into, columns={"bills": {"idd": "int"}}))
    assert "the target has no such column" in str(refused.refused)


def test_a_target_that_others_have_written_is_left_alone(lake: str, into: Path) -> None:
    write_deltalake(str(into / "bills"), DeltaTable(str(into / "bills")).to_pyarrow_table(), mode="overwrite")
    (refused,) = retype(lake, TOPIC, SyncOptions(into=into))
    assert "somebody else has changed the target's rows" in str(refused.refused)


def test_a_target_that_has_gone_holds_up_no_other(lake: str, into: Path) -> None:
    send(lake, [event("c", "other", {"id": 1}, {"id": 1}, at=9)])
    applied(lake, into)
    for path in files(into / "bills"):
        path.unlink()
    gone, other = retype(lake, TOPIC, SyncOptions(into=into, columns={"other": {"id": "int"}}))
    assert (gone.table, gone.refused) == ("public.bills", "the target has gone")
    assert other.version is not None


def test_masked_columns_keep_their_types_and_a_table_has_options_of_its_own(tmp_path: Path, into: Path) -> None:
    lake = str(tmp_path / "lake")
    options = {
        "*.bills": TableOptions(masks={"amount": "sha256"}, unfit_times="null"),
        "later.*": TableOptions(columns={"id": "int"}),
    }
    send(lake, [bill(1, at=1), bill(2, at=2, day="infinity")])
    applied(lake, into, table_options=options)
    keep(lake, TYPES)
    send(lake, [bill(3, at=3, types=TYPES)])
    applied(lake, into, table_options=options)
    (done,) = retype(lake, TOPIC, SyncOptions(into=into, table_options=options))
    assert [one.column for one in done.changes] == ["day"]
    assert [row["day"] for row in rows(into / "bills")] == [DAY, None, DAY]
    (said,) = retype(lake, TOPIC, SyncOptions(into=into), dry_run=True)
    assert "column amount" in str(said.refused), "a hash is no decimal"
