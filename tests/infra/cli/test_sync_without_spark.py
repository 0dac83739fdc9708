"""`penstock sync --engine deltalake`: one process without Spark; its targets are verified against a dump by what it wrote down."""

from __future__ import annotations

import json
import pickle
import traceback
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from pyspark.errors import PySparkException

from penstock.cdc.sync.options import BatchReport
from penstock.infra.cli.changes.sync import _show_batch, _started
from penstock.infra.cli.changes.sync_error import as_ours
from penstock.infra.terminal.exit_codes import exit_code
from penstock.infra.terminal.session import CommandSession, Signals
from penstock.log.errors import InternalError, PenstockError
from tests.cdc.sync.streams import TOPIC, event, rows, send
from tests.infra.cli.conftest import Penstock
from tests.lakes import TIMEOUT_S
from tests.servers import S3Server

pytestmark = pytest.mark.processes

EVENTS = [
    event("c", "bills", {"id": 1}, {"id": 1, "amount": "1.00"}, at=1),
    event("u", "bills", {"id": 1}, {"id": 1, "amount": "2.50"}, at=2),
    event("c", "bills", {"id": 2}, {"id": 2, "amount": None}, at=3),
]
OPTIONS = ["--engine", "deltalake", "--once", "--column", "bills.amount=decimal(12,2)"]


def test_it_ends_with_what_is_stored_and_goes_on_from_there(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    into, dump = tmp_path / "targets", tmp_path / "bills.csv"
    send(str(lake), EVENTS)
    assert penstock("sync", TOPIC, "--into", into, *OPTIONS).out == "3 events in 1 batches.\n"
    dump.write_text("id,amount\n1,2.5\n2,\n")
    assert penstock("verify-sync", dump, into).out == "bills: equal (2 rows in the source, 2 in the target)\n"
    send(str(lake), [event("d", "bills", {"id": 2}, before={"id": 2}, at=4)])
    assert penstock("sync", TOPIC, "--into", into, *OPTIONS).out == "1 events in 1 batches.\n"
    assert "1 missing" in penstock("verify-sync", dump, into, code=1).out
    assert len(rows(into / "bills")) == 1
    assert "0 events to come" in penstock("sync", TOPIC, "--status").out


def test_an_event_that_cannot_be_applied_is_named(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), [*EVENTS, event("c", "bills", {"id": 3}, {"id": 3, "amount": "much"}, at=4)], queues=1)
    said = penstock("sync", TOPIC, "--into", tmp_path / "targets", *OPTIONS, code=1)
    assert "public.bills stands still at queue 0, offset 3: column amount: 'much' does not fit decimal(12,2)" in said.err
    assert len(rows(tmp_path / "targets" / "bills")) == 2


def test_events_that_are_rejected_or_leave_null_are_told(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), [*EVENTS, event("c", "bills", {"id": 3}, {"id": 3, "amount": "much"}, at=4), b"{half"], queues=1)
    into = tmp_path / "targets"
    said = penstock("sync", TOPIC, "--into", into, *OPTIONS, "--policy", "reject", "--rejected", "_bad")
    assert "public.bills: 1 rejected, as they cannot be applied; the table of rejected events says why" in said.err
    assert "events that name no table: 1 rejected" in said.err
    assert sorted(row["offset"] for row in rows(into / "_bad")) == [3, 4]
    options = ["--into", tmp_path / "nulls", "--name", "nulls", "--policy", "null", "--table", "bills"]
    send(str(lake), [event("c", "bills", {"id": 4}, {"id": 4})], queues=1)
    with_null = penstock("sync", TOPIC, *options, *OPTIONS, code=1)  # an event of no table still ends it
    assert "this is no JSON" in with_null.err
    assert "values became NULL" not in with_null.err
    assert sorted(row["id"] for row in rows(tmp_path / "nulls" / "bills")) == [1, 2, 3]


def test_events_that_lie_behind_are_told_of(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), [*EVENTS, event("u", "bills", {"id": 2}, {"id": 2, "amount": "0.00"}, at=1)], queues=1)
    behind = "bills: its last 1 events lie behind what was told before, and change no newer row"
    assert behind in penstock("sync", TOPIC, "--into", tmp_path / "targets", *OPTIONS).err
    assert behind in penstock("sync", TOPIC, "--status").err
    assert penstock("sync", TOPIC, "--status", "--json").rows[0]["behind"] == {"bills": 1}


def test_nothing_is_left_once_the_end_is_told(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send(str(lake), EVENTS)
    options = {"into": str(tmp_path / "targets"), "trigger": 3600, "table_options": {}}
    task = {"lake": str(lake), "topic": TOPIC, "coordination": None, "engine": "deltalake", "s3": None, "options": options}
    left = tmp_path / "temporary"
    left.mkdir()
    with TemporaryFile() as noise:
        monkeypatch.setenv("TMPDIR", str(left))
        with _started(task, noise) as job:
            reports = job.reports()
            assert next(reports)["report"] == "running"
            [scratch] = left.iterdir()
            for number in range(5_000):  # so that it takes its time to remove them
                (scratch / str(number)).touch()
            job.stop()
            found = {report["report"]: [*left.iterdir()] for report in reports}
            assert found["end"] == []


def test_a_word_to_stop_that_comes_before_the_sync_runs_is_heard(lake: Path, tmp_path: Path) -> None:
    send(str(lake), EVENTS)
    options = {"into": str(tmp_path / "targets"), "trigger": 3600, "table_options": {}}
    task = {"lake": str(lake), "topic": TOPIC, "coordination": None, "engine": "deltalake", "s3": None, "options": options}
    with TemporaryFile() as noise, _started(task, noise) as job:
        job.stop()  # right behind the task: the process has hardly begun
        kinds = [report["report"] for report in job.reports()]
        assert kinds[-1] == "end", job.tail()
        assert job.process.wait(TIMEOUT_S) == 0


def test_events_without_keys_whose_ids_change_are_told_how_to_be_in_order(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    events = [event("c", "t", None, {"id": 1, "v": 1}), event("u", "t", None, {"id": 5, "v": 2}, before={"id": 1, "v": 1})]
    file = tmp_path / "t.debezium.jsonl"
    file.write_text("\n".join(json.dumps(one["value"]) for one in events))
    for topic in ("another", TOPIC):
        penstock("topic", "create", topic, "--type", "FIFO", "--queues", "8")
    assert "--group table" in penstock("produce", "another", file, "--group", "{table}-{id}", "--key", "{table}-{id}", code=2).err
    penstock("produce", TOPIC, file, "--group", "table", "--key", "{table}-{id}")
    penstock("sync", TOPIC, "--into", tmp_path / "into", "--engine", "deltalake", "--once", "--key", "t=id")
    assert rows(tmp_path / "into" / "t") == [{"id": 5, "v": 2}]


def test_a_lease_that_was_lost_between_two_batches_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Once; how it is lost, and that its batches say so, see the tests of the sync itself."""
    session, before = CommandSession(Signals()), None
    for number, epoch in enumerate((4, 4, 6, 6), 1):
        _show_batch(session, asdict(BatchReport(number, 1, 0.1, epoch=epoch)), after=before)
        before = epoch
    told = capsys.readouterr().err.splitlines()
    assert ["lost its lease" in line for line in told] == [False, False, True, False, False]
    assert told[2].endswith("goes on under epoch 6")


def test_names_that_no_event_has_are_told(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), EVENTS)
    wrong = ["--column", "bills.amuont=int", "--column", "bill.amount=int", "--table", "bills", "--table", "public.lines"]
    said = penstock("sync", TOPIC, "--into", tmp_path / "targets", *OPTIONS, *wrong).err
    told = [line.partition(" is named by an option")[0] for line in said.splitlines() if "is it misspelt?" in line]
    assert told == ["bill", "bills.amuont", "public.lines"]


@pytest.mark.parametrize(
    ("type_", "observed", "told"),
    [
        ("money", "'money'", "this is no type that a column of a target can have"),
        ("decimal(39,0)", "'decimal(39,0)'", "this is no type that a column of a target can have"),
        ("array<money>", "'array<money>'", "this is no type that a column of a target can have"),
        ("map<string,string>", "'map<string,string>'", "maps and structs are written as JSON text: string"),
        ("decimal(12,2) from hex", "'decimal(12,2) from hex'", "decimal(12,2) from base64, text"),
        ("timestamp from days", "'timestamp from days'", "from seconds, milliseconds, microseconds, nanoseconds"),
    ],
)
def test_a_type_that_no_column_can_have_is_told_before_anything_is_made(
    penstock: Penstock, lake: Path, tmp_path: Path, type_: str, observed: str, told: str
) -> None:
    send(str(lake), EVENTS)
    said = penstock("sync", TOPIC, "--into", tmp_path / "targets", *OPTIONS, "--column", f"bills.note={type_}", code=2).err
    assert told in said
    assert f"observed:  {observed}\n" in said
    assert not (tmp_path / "targets").exists()


def test_a_folder_that_cannot_be_written_to_is_told_as_it_is(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), EVENTS)
    (tmp_path / "file").write_text("")
    said = penstock("sync", TOPIC, "--into", tmp_path / "file", *OPTIONS, code=3).err
    assert "error: the sync failed" in said
    assert f"object:    {tmp_path / 'file'}\n" in said


@pytest.mark.thorough
def test_a_store_of_targets_that_does_not_answer_is_told_as_it_is(
    penstock: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(str(lake), EVENTS)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    said = penstock("sync", TOPIC, "--into", "s3://bucket/x?endpoint=http://127.0.0.1:1", *OPTIONS, code=3).err
    assert "error: the sync failed" in said
    assert "object:    s3://bucket/x\n" in said
    assert "Error performing GET http://127.0.0.1:1" in said


@pytest.mark.thorough
def test_a_folder_in_which_no_table_can_be_made_ends_the_sync(penstock: Penstock, lake: Path, tmp_path: Path) -> None:
    send(str(lake), EVENTS)
    (tmp_path / "file").write_text("")
    for into in (tmp_path / "file", Path("/proc/targets")):
        said = penstock("sync", TOPIC, "--into", into, *OPTIONS, code=3).err
        assert "error: the sync failed" in said
        assert f"Could not create local directory: {into}/bills" in said


def test_what_ends_the_process_reaches_the_caller_in_a_line_and_a_bug_with_its_traceback() -> None:
    def told(error: Exception) -> PenstockError:
        try:
            raise error
        except Exception as raised:  # noqa: BLE001
            found = pickle.loads(pickle.dumps(as_ours(raised, "targets")))
        assert isinstance(found, PenstockError)
        return found

    outside = told(PySparkException("An error occurred.\n: java.io.IOException: disk full\n\tat java.base/run\n"))
    assert exit_code([outside]) == 3
    assert outside.observed == "PySparkException: java.io.IOException: disk full"
    large = told(MemoryError())
    assert exit_code([large]) == 3
    assert str(large).startswith(
        "the sync ran out of memory (operation: sync; object: targets; expected: enough for the smallest batch"
    )
    assert "give the process more memory, or leave the table of that event out (--table)" in str(large)
    bug = told(KeyError("offsets"))
    assert isinstance(bug, InternalError)
    assert "test_sync_without_spark.py" in "".join(traceback.format_exception(bug))


@pytest.mark.thorough
@pytest.mark.versitygw
def test_targets_on_s3(
    penstock: Penstock, lake: Path, tmp_path: Path, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in versitygw.environment.items():
        if name != "AWS_ENDPOINT_URL_S3":
            monkeypatch.setenv(name, value)
    send(str(lake), EVENTS)
    into = versitygw.url("sync-without-spark")
    assert penstock("sync", TOPIC, "--into", into, *OPTIONS).out == "3 events in 1 batches.\n"
    dump = tmp_path / "bills.csv"
    dump.write_text("id,amount\n1,2.5\n2,\n")
    assert "equal" in penstock("verify-sync", dump, into).out
