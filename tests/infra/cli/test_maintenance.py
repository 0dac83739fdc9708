"""verify, repair, maintain and doctor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from penstock import PermissionDenied, connect
from penstock.infra.cli.lake import maintain
from penstock.infra.cli.setup.doctor import Requirement
from penstock.infra.terminal.values import parse_duration
from penstock.log.stores.local import LocalStore
from penstock.log.stores.remote_errors import REFUSED_HINT
from penstock.log.table.maintenance import MaintenanceOptions
from tests.infra.cli.conftest import Penstock


@pytest.fixture
def orders(penstock: Penstock) -> Penstock:
    """Three entries with a message each behind the topic's creation."""
    penstock("topic", "create", "orders", "--queues", "1")
    for n in range(3):
        penstock("produce", "orders", stdin=f'{{"n": {n}}}\n')
    return penstock


def entry(lake: Path, number: int) -> Path:
    return lake / "topics" / "orders" / "log" / f"{number:020}.parquet"


def spoil(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)


def test_maintaining_once_publishes_and_says_so(orders: Penstock) -> None:
    (step,) = orders("maintain", "--once", "--json").rows
    assert (step["step"], step["rows"]) == ("publish", 3)
    (report,) = orders("verify", "--json").rows
    assert (report["ok"], report["log_rows"], report["table_rows"], report["compared_rows"]) == (True, 3, 3, 3)
    assert "orders: ok" in orders("verify", "orders").out
    assert orders("maintain", "--once").out == ""
    assert "collect     nothing to do" in orders("maintain", "orders", "--once", "-v").out
    steps = {row["step"] for row in orders("maintain", "--once", "-v", "--json").rows}
    assert {"publish", "compact", "retain", "trim", "collect"} <= steps


def test_listing_for_iceberg_is_told_when_there_was_something_to_list(orders: Penstock, lake: Path) -> None:
    with connect(str(lake), maintenance=False) as opened:
        opened.alter_topic("orders", iceberg=True)
    rows = {row["step"]: row for row in orders("maintain", "--once", "--json").rows}
    assert rows.keys() == {"publish", "iceberg"}
    assert (rows["iceberg"]["version"], rows["iceberg"]["versions"]) == (1, 1)
    assert orders("maintain", "--once").out == ""


def test_topics_that_are_made_and_deleted_publish_nothing_to_tell_of(orders: Penstock) -> None:
    orders("maintain", "--once")
    orders("topic", "create", "empty")
    orders("topic", "delete", "orders", "--yes")
    assert [(row["topic"], row["step"]) for row in orders("maintain", "--once", "--json").rows] == [("orders", "empty")]


def test_the_interval_of_publications_is_the_librarys() -> None:
    (option,) = [one for one in maintain.command.params if one.name == "publish_interval"]
    assert parse_duration(str(option.default)) == MaintenanceOptions().publish_interval


def test_who_ends_at_once_serves_no_metrics(orders: Penstock) -> None:
    assert "leave --once out" in orders("maintain", "--once", "--metrics-port", "0", code=2).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--metrics-interval", "1m"], "--metrics-interval is for --metrics-port: give that too."),
        (["--metrics-port", "0", "--metrics-interval", "100ms"], "--metrics-interval is 1s to 1h, not 100ms."),
        (["--metrics-port", "0", "--metrics-interval", "2h"], "--metrics-interval is 1s to 1h, not 2h."),
        (["--metrics-port", "0", "--metrics-interval", "often"], "'often' is no duration"),
    ],
)
def test_an_interval_that_cannot_be_is_refused(orders: Penstock, options: list[str], said: str) -> None:
    assert said in orders("maintain", *options, code=2).err


def test_a_deleted_topic_is_emptied(orders: Penstock, lake: Path) -> None:
    orders("maintain", "--once")
    orders("topic", "delete", "orders", "--yes")
    steps = {row["step"]: row for row in orders("maintain", "--once", "--json").rows}
    assert steps["empty"]["rows"] == 3


def _append(table: DeltaTable) -> None:
    write_deltalake(table, table_rows(table), mode="append")


def _optimize_and_checkpoint(table: DeltaTable) -> None:
    table.optimize.compact()
    table.create_checkpoint()


@pytest.mark.parametrize(
    "meddle",
    [_append, _optimize_and_checkpoint, lambda table: table.delete('"offset" = 1'), DeltaTable.delete],
    ids=["append", "optimize", "delete", "delete all"],
)
def test_what_another_engine_did_to_a_table_is_told_and_undone(
    orders: Penstock, lake: Path, meddle: Callable[[DeltaTable], object]
) -> None:
    orders("maintain", "--once")
    orders("produce", "orders", stdin='{"n": 3}\n')
    orders("maintain", "--once")
    (folder,) = (lake / "topics" / "orders").glob("table*")
    before = table_rows(DeltaTable(folder))
    meddle(DeltaTable(folder))
    told = orders("repair", "orders", "--dry-run", code=4).err
    assert "others have committed to its table" in told
    assert "by delta-rs" in told
    assert "Nothing was done." in orders("repair", "orders", stdin="n\n", code=1).err
    assert orders("repair", "orders", "--yes").out == "orders: undone; the table is what it was at version 2.\n"
    assert table_rows(DeltaTable(folder)).sort_by("offset") == before.sort_by("offset")
    assert "nothing to repair" in orders("repair", "orders").out
    orders("produce", "orders", stdin='{"n": 4}\n')
    orders("maintain", "--once")
    (report,) = orders("verify", "orders", "--json").rows
    assert (report["ok"], report["table_rows"]) == (True, 5)


def test_readers_that_stop_at_another_engines_commit_say_what_undoes_it(orders: Penstock, lake: Path) -> None:
    orders("maintain", "--once")
    (folder,) = (lake / "topics" / "orders").glob("table*")
    _append(DeltaTable(folder))
    assert "penstock repair TOPIC" in orders("maintain", "--once", code=4).out
    assert "penstock repair TOPIC" in orders("read", "orders", code=4).err


def test_settings_that_another_engine_made_stay(orders: Penstock, lake: Path) -> None:
    orders("maintain", "--once")
    (folder,) = (lake / "topics" / "orders").glob("table*")
    DeltaTable(folder).alter.set_table_properties({"delta.logRetentionDuration": "interval 20 days"})
    assert "nothing to repair" in orders("repair", "orders").out


def test_a_table_whose_files_another_engine_has_removed_is_left_as_it_is(orders: Penstock, lake: Path) -> None:
    orders("maintain", "--once")
    orders("produce", "orders", stdin='{"n": 3}\n')
    orders("maintain", "--once")
    (folder,) = (lake / "topics" / "orders").glob("table*")
    DeltaTable(folder).optimize.compact()
    DeltaTable(folder).vacuum(0, enforce_retention_duration=False, dry_run=False)
    log = sorted(file.name for file in (folder / "_delta_log").iterdir())
    said = orders("repair", "orders", "--yes", "--json", code=4)
    assert "This cannot be undone: 2 files" in said.err
    (report,) = said.rows
    assert (report["written"], len(report["missing"])) == (False, 2)
    assert sorted(file.name for file in (folder / "_delta_log").iterdir()) == log


def table_rows(table: DeltaTable) -> pa.Table:
    return pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all()).cast(
        pa.schema(table.schema().to_arrow())
    )


def test_damage_is_found_and_repaired(orders: Penstock, lake: Path) -> None:
    spoil(entry(lake, 3))
    found = orders("verify", code=4).out
    assert "orders: DAMAGED" in found
    assert "00000000000000000003.parquet" in found
    (report,) = orders("verify", "--json", code=4).rows
    assert report["ok"] is False
    assert "entry 5 would repair it" in orders("repair", "orders", "--dry-run", code=4).out
    assert "Nothing was done." in orders("repair", "orders", stdin="n\n", code=1).err
    (repaired,) = orders("repair", "orders", "--yes", "--json").rows
    assert (repaired["written"], repaired["entry"], repaired["lost_entries"]) == (True, 5, [3])
    assert "nothing to repair" in orders("repair", "orders").out
    orders("produce", "orders", stdin='{"n": 3}\n')


def test_reading_over_damage_ends_with_its_exit_code(orders: Penstock, lake: Path) -> None:
    settings = lake / "topics" / "orders" / "topic.json"
    settings.write_text("{}")
    said = orders("read", "orders", code=4).err
    assert "the object is not a topic's settings" in said
    assert "topics/orders/topic.json" in said
    orders("topic", "create", "whole")
    listed = orders("topic", "list", "--json", code=4)
    assert [row["topic"] for row in listed.rows] == ["whole"]
    assert "topics/orders/topic.json" in listed.err


@pytest.mark.parametrize("command", ["verify", "repair", "maintain"])
def test_absent_topics_are_told(penstock: Penstock, command: str) -> None:
    once = ["--once"] if command == "maintain" else []
    assert "there is no such topic" in penstock(command, "absent", *once, code=2).err


def test_the_doctor_finds_a_folder_well_and_leaves_nothing(penstock: Penstock, lake: Path) -> None:
    checks = {row["name"]: row for row in penstock("doctor", lake, "--json").rows}
    assert all(
        checks[name]["status"] == "ok" for name in ("write", "read", "delete", "conditional writes", "clock", "Python", "pyarrow")
    )
    assert not [file for file in lake.rglob("*") if file.is_file() and ".penstock" not in file.parts]
    assert "conditional writes   honoured" in penstock("doctor").out


def test_the_doctor_names_the_fix(penstock: Penstock, tmp_path: Path) -> None:
    (first, *_) = penstock("doctor", "ftp://x", "--json", code=1).rows
    assert (first["name"], first["status"]) == ("URL", "problem")
    assert "s3://bucket/prefix" in first["fix"]
    (tmp_path / "file").write_text("")
    shown = penstock("doctor", "--lake", tmp_path / "file" / "lake", code=1).out
    assert "problem  write" in shown
    assert "fix: " in shown
    (first, *_) = penstock("doctor", tmp_path / "file", "--json", code=1).rows
    assert (first["name"], "name a folder" in first["fix"]) == ("URL", True)


def test_the_doctor_tells_missing_credentials_from_missing_permissions(penstock: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionDenied("refused", hint=REFUSED_HINT)
    absent = PermissionDenied("no credentials", hint="Set them")
    for error, fix in ((refused, "Allow putting objects (s3:PutObject)"), (absent, "Set them")):

        async def put(*_: object, error: PermissionDenied = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(LocalStore, "put", put)
        checks = {row["name"]: row for row in penstock("doctor", "--json", code=1).rows}
        assert checks["credentials, list"]["status"] == "ok"
        assert checks["write"]["fix"].startswith(fix)


def test_requirements_are_compared() -> None:
    parsed = Requirement.parse('moto[server]<6,>=5.2.5; extra == "testing"')
    assert parsed == Requirement("moto", "<6,>=5.2.5", "testing")
    assert parsed.fits("5.10")
    assert not parsed.fits("5.2.4")
    assert not parsed.fits("6.0.0")
    assert Requirement.parse("delta-spark==4.4.0").fits("4.4.0")


@pytest.mark.parametrize("harm", ["settings", "folder"])
def test_one_bad_topic_stops_the_upkeep_of_no_other(orders: Penstock, lake: Path, harm: str) -> None:
    orders("topic", "create", "bad")
    if harm == "settings":
        name, where = "bad", "topics/bad/topic.json"
        (lake / where).write_text("{}")
    else:
        name = where = "old~backup"
        (lake / "topics" / name).mkdir()
        (lake / "topics" / name / "topic.json").write_text("{}")
    reports = {row["topic"]: row for row in orders("verify", "--json", code=4).rows}
    assert (reports["orders"]["ok"], reports["orders"]["log_rows"]) == (True, 3)
    assert not reports[name]["ok"]
    assert where in reports[name]["findings"][0]["object"]
    steps = orders("maintain", "--once", "--json", code=4).rows
    assert [row["topic"] for row in steps if row["step"] == "look"] == [name]
    assert [row["rows"] for row in steps if (row["topic"], row["step"]) == ("orders", "publish")] == [3]
    orders("topic", "alter", "orders", "--retention", "30d")
    assert "orders" in orders("topic", "list", code=4 if harm == "settings" else 0).out


def test_every_damaged_topic_is_listed_as_such(orders: Penstock, lake: Path) -> None:
    for name in ("bad", "worse"):
        orders("topic", "create", name)
        (lake / "topics" / name / "topic.json").write_text("{}")
    listed = orders("topic", "list", "--json", code=4)
    assert [row["topic"] for row in listed.rows] == ["orders"]
    assert [json.loads(line)["object"] for line in listed.err.splitlines()] == ["topics/bad/topic.json", "topics/worse/topic.json"]


def test_damaged_settings_say_what_can_be_done(orders: Penstock, lake: Path) -> None:
    (lake / "topics" / "orders" / "topic.json").write_text("{}")
    for command in (["describe"], ["alter", "--retention", "1d"], ["delete", "--yes"], ["create"]):
        said = orders("topic", command[0], "orders", *command[1:], code=4).err
        assert "expected:  a topic's settings in the form that Penstock writes" in said
        assert "observed:  Object missing required field `format`" in said
        assert "put an earlier version of it back" in said


def test_verifying_a_lake_without_topics_is_a_wrong_call(penstock: Penstock) -> None:
    assert "there are no topics to verify" in penstock("verify", code=2).err


def test_a_dry_run_speaks_json_too(orders: Penstock) -> None:
    (altered,) = orders("topic", "alter", "orders", "--retention", "1d", "--dry-run", "--json").rows
    assert (altered["dry_run"], altered["retention_s"]) == (True, 86_400)
    (deleted,) = orders("topic", "delete", "orders", "--dry-run", "--json").rows
    assert (deleted["deleted"], deleted["messages"]) == (False, 3)
