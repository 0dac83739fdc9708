"""`penstock coordination`, and commands that name another table than the lake's."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import CoordinationMismatch, Message, connect
from penstock.coordinator.lakes import LakePlace, OpenLake
from tests.infra.cli.conftest import Penstock
from tests.servers import free_port


@pytest.fixture
def shop(lake: Path) -> Path:
    """A group that has settled five messages."""
    with connect(lake) as opened:
        opened.create_topic("orders", queues=1)
        with opened.producer("orders", linger=timedelta(0)) as producer:
            for number in range(5):
                producer.send(Message(str(number).encode()))
    assert settled(lake) == 5
    return lake


def settled(lake: Path, **options: str) -> int:
    with connect(lake, maintenance=False, **options) as opened, opened.simple_consumer("orders", group="billing") as consumer:  # type: ignore[arg-type]
        found = consumer.receive(max_messages=16, await_duration=timedelta(seconds=1))
        for message in found:
            consumer.ack(message)
        return len(found)


def test_no_message_comes_twice_by_way_of_another_table(shop: Path, tmp_path: Path) -> None:
    for coordination in ("store", f"sqlite://{tmp_path}/cells.db", "memory://"):
        with pytest.raises(CoordinationMismatch, match=r"in another coordination table.*\.penstock/coordination\.db"):
            settled(shop, coordination=coordination)
    assert not (tmp_path / "cells.db").exists()
    assert settled(shop) == 0
    assert settled(shop, coordination=f"sqlite://{shop}/.penstock/coordination.db") == 0, "the same file"
    link = tmp_path / "link"
    link.symlink_to(shop)
    assert settled(link) == 0


def test_commands_and_spark_s_processes_are_told_too(shop: Path, tmp_path: Path, penstock: Penstock) -> None:
    for words in (
        ("group", "list"),
        ("group", "describe", "billing"),
        ("workers",),
        ("tx", "list"),
        ("group", "create", "more"),
    ):
        told = penstock("--coordination", f"sqlite://{tmp_path}/cells.db", *words, code=2)
        assert "in another coordination table" in told.err, words
        assert "--coordination" in told.err
    assert '"error": "coordination_mismatch"' in penstock("--json", "--coordination", "store", "group", "list", code=2).err
    opened = OpenLake(LakePlace.of(shop, coordination="store", read_only=True))

    async def groups() -> object:
        return await (await opened.coordination()).groups.all()

    with pytest.raises(CoordinationMismatch):
        opened.run(groups)
    opened.close()


def test_the_table_is_shown(shop: Path, tmp_path: Path, penstock: Penstock) -> None:
    (row,) = penstock("coordination", "show", "--json").rows
    assert row["agrees"]
    assert row["recorded"]["table"] == row["named"]["table"]
    told = penstock("coordination", "show", "--coordination", f"sqlite://{tmp_path}/cells.db", code=1)
    assert "recorded" in told.out
    assert "in another coordination table" in told.err
    fresh = penstock("coordination", "show", "--lake", tmp_path / "fresh", "--json").rows
    assert [(row["recorded"], row["agrees"]) for row in fresh] == [(None, True)]


def test_a_lost_table_is_told_and_the_next_one_adopted(shop: Path, penstock: Penstock) -> None:
    shutil.rmtree(shop / ".penstock")
    with pytest.raises(CoordinationMismatch, match="lost, or made again"):
        settled(shop)
    assert "would become" in penstock("coordination", "adopt", "--dry-run").out
    with pytest.raises(CoordinationMismatch):
        settled(shop)
    assert "from now on" in penstock("coordination", "adopt", "--yes").out
    assert settled(shop) == 5
    assert "already" in penstock("coordination", "adopt", "--yes").out
    assert settled(shop) == 0


def test_a_lake_that_was_moved_takes_its_table_with_it(lake: Path, tmp_path: Path, penstock: Penstock) -> None:
    table = f"sqlite://{tmp_path}/cells.db"
    with connect(lake, coordination=table) as opened:
        opened.create_group("billing")
    moved = lake.rename(tmp_path / "moved")
    names = ("--lake", moved, "--coordination", table)
    assert "another lake's" in penstock("group", "list", *names, code=2).err
    assert f"--former-lake {lake.as_uri()}" in penstock("coordination", "adopt", "--yes", *names, code=2).err
    penstock("coordination", "adopt", "--yes", "--former-lake", lake.as_uri(), *names)
    assert "billing" in penstock("group", "list", *names).out


def test_a_table_in_use_is_not_adopted(lake: Path, tmp_path: Path, penstock: Penstock) -> None:
    table = f"sqlite://{tmp_path}/cells.db"
    with connect(lake, coordination=table) as opened:
        opened.create_topic("orders", queues=1)
        with opened.simple_consumer("orders", group="billing"):
            (lake / "coordination" / "table").unlink()
            with connect(lake) as other:
                other.create_group("audit")
            told = penstock("coordination", "adopt", "--yes", "--coordination", table, code=2)
    assert "a process is at work with the coordination table" in told.err


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process but the test's own is there, so no move waits for others."""
    monkeypatch.setattr("penstock.coordinator.operators.table_move.PROOF_S", 0.0)


@pytest.mark.usefixtures("unhurried")
def test_a_lake_is_moved_and_moved_back(shop: Path, tmp_path: Path, penstock: Penstock) -> None:
    other = f"sqlite://{tmp_path}/cells.db"
    assert "would be moved to store" in penstock("coordination", "move", "--to", "store", "--dry-run").out
    (told,) = penstock("coordination", "move", "--to", other, "--yes", "--json").rows
    assert told["moved"]
    assert told["recorded"]["url"] == other
    with pytest.raises(CoordinationMismatch, match="were moved into another coordination table"):
        settled(shop)
    assert settled(shop, coordination=other) == 0
    again = penstock("coordination", "move", "--to", other, "--yes")
    assert "were there already" in again.out
    back = ("--from", other, "--to", f"sqlite://{shop}/.penstock/coordination.db")
    assert "are there now" in penstock("coordination", "move", *back, "--yes").out
    assert settled(shop) == 0


@pytest.mark.usefixtures("unhurried")
def test_a_lake_in_use_is_not_moved_and_its_worker_goes_on(shop: Path, penstock: Penstock) -> None:
    with connect(shop, maintenance=False) as opened, opened.simple_consumer("orders", group="billing") as consumer:
        told = penstock("coordination", "move", "--to", "store", "--yes", code=2)
        assert "a process is at work with the coordination table" in told.err
        with opened.producer("orders") as producer:
            producer.send(Message(b"more")).result()
        (message,) = consumer.receive(await_duration=timedelta(seconds=60))
        consumer.ack(message)
    (row,) = penstock("coordination", "show", "--json").rows
    assert (row["agrees"], row["recorded"]["moving_to"]) == (True, None)


@pytest.mark.usefixtures("unhurried")
def test_a_table_with_cells_of_its_own_takes_no_lake(shop: Path, tmp_path: Path, penstock: Penstock) -> None:
    other = tmp_path / "other"
    with connect(other, coordination="store") as opened:
        opened.create_group("audit")
    table = f"sqlite://{other}/.penstock/coordination.db"
    assert (
        "both are one table"
        in penstock("coordination", "move", "--to", f"sqlite://{shop}/.penstock/coordination.db", "--yes", code=2).err
    )
    with connect(tmp_path / "third", coordination=table) as opened:
        opened.create_group("audit")
    assert "some of its own" in penstock("coordination", "move", "--to", table, "--yes", code=2).err
    assert settled(shop) == 0


@pytest.mark.usefixtures("unhurried")
def test_a_process_that_was_open_before_a_move_is_told_and_has_changed_nothing(shop: Path, penstock: Penstock) -> None:
    with connect(shop, maintenance=False) as late:
        late.create_group("before")
        penstock("coordination", "move", "--to", "store", "--yes")
        for call in (
            lambda: late.describe_group("before"),
            lambda: late.alter_group("before", max_attempts=3),
            lambda: late.delete_group("before"),
        ):
            with pytest.raises(CoordinationMismatch, match="were moved into another"):
                call()
    with connect(shop, coordination="store") as opened:
        assert sorted(opened.groups()) == ["before", "billing"]


def test_the_doctor_looks_at_the_table(shop: Path, tmp_path: Path, penstock: Penstock) -> None:
    def told(*words: str, code: int = 0) -> dict[str, str]:
        return next(row for row in penstock(*words, "doctor", shop, "--json", code=code).rows if row["name"] == "coordination")

    well = told()
    assert (well["status"], "coordination.db (table " in well["observed"]) == ("ok", True)
    other = told("--coordination", f"sqlite://{tmp_path}/cells.db", code=1)
    assert (other["status"], "in another coordination table" in other["observed"]) == ("problem", True)
    assert "name that table" in other["fix"]
    away = told("--coordination", f"postgresql://worker@127.0.0.1:{free_port()}/penstock", code=1)
    assert (away["status"], away["observed"].startswith("PostgreSQL cannot be reached")) == ("problem", True)
    assert away["fix"]


def test_a_table_that_nobody_named_is_a_note_of_the_doctor_s(lake: Path, tmp_path: Path, penstock: Penstock) -> None:
    named = ("--coordination", f"sqlite://{tmp_path}/cells.db")
    penstock(*named, "group", "create", "billing")
    checks = {row["name"]: row for row in penstock("doctor", lake, "--json").rows}
    assert checks["coordination"]["status"] == "note"
    assert "cells.db" in checks["coordination"]["observed"]
