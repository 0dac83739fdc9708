"""`penstock group` and `penstock workers`, on a lake in a folder with its cells in SQLite."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock import GroupNotFound, Lake, Message, StoreUnavailable, TopicNotFound, aio, connect
from penstock.coordinator import Coordination, GroupDescription, open_table
from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.workers.lease import Heartbeat, ListedMember, encode_heartbeat
from tests.cells import change_cell, parked
from tests.infra.cli.conftest import Penstock
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


@pytest.fixture
def shop(lake: Path) -> Path:
    """A FIFO topic of two queues with four messages in queue 0 and one in queue 1, and a group that has begun."""
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=2)
        with opened.producer("orders", linger=timedelta(0)) as producer:
            for queue, group in ((0, "ann"), (0, "bob"), (0, "ann"), (0, "bob"), (1, "cid")):
                producer.send(Message(b"body", message_group=group), queue=queue)
        opened.create_group("billing", dead_letter_policy="park")
        opened.reset_offsets("billing", "orders", "earliest")
    return lake


def change(lake: Path, queue: int, work: Callable[[QueueCell], QueueCell] = lambda cell: cell) -> QueueCell:
    return change_cell(lambda: aio.connect(lake), queue, work)


@pytest.fixture
def stuck(shop: Path) -> Path:
    """Bob's and Cid's messages are parked."""
    for queue, head in ((0, 1), (1, 0)):
        marker = parked(head)
        listed = OffsetSet.of([(0, head + 1)])
        change(shop, queue, lambda cell, m=marker, behind=listed: replace(cell.taken_by("w/1").with_listed(behind), markers={7: m}))  # type: ignore[misc]
    return shop


# --- Settings --------------------------------------------------------------------------------------------------------------------------


def test_a_group_s_life(penstock: Penstock) -> None:
    made = penstock("group", "create", "billing", "--filter", "orders=paid || refunded", "--max-attempts", "unlimited").out
    assert made == (
        "Group billing: order ORDERLY, retry every 1 s, attempts any number, dead letters continue, filters orders: paid || refunded.\n"
    )
    penstock("group", "create", "billing", "--filter", "orders=refunded||paid", "--max-attempts", "unlimited")  # the same again
    exponential = ("--retry", "exponential", "--retry-interval", "2s", "--retry-interval-max", "1m", "--retry-jitter", "0.5")
    (audit,) = penstock("group", "create", "audit", "--order", "concurrent", *exponential, "--json").rows
    assert audit == {
        "group": "audit",
        "delivery_order": "CONCURRENT",
        "retry": {"schedule": "exponential", "interval_s": 2.0, "interval_max_s": 60.0, "jitter": 0.5},
        "max_attempts": 17,
        "dead_letter_policy": "continue",
        "filters": {},
    }
    assert [row["group"] for row in penstock("group", "list", "--json").rows] == ["audit", "billing"]
    listed = penstock("group", "list").out.splitlines()
    assert listed[0].split("  ")[0] == "group"
    assert "after 2 s, doubling to 60 s, jitter 0.5" in listed[2]
    assert "order          ORDERLY" in penstock("group", "describe", "billing").out
    assert "It has not begun on any topic." in penstock("group", "describe", "billing").out
    penstock("group", "delete", "billing", "--yes")
    assert [row["group"] for row in penstock("group", "list", "--json").rows] == ["audit"]


def test_altering_says_what_changes(penstock: Penstock) -> None:
    penstock("group", "create", "billing", "--filter", "orders=paid", "--filter", "events=a")
    change = ("--max-attempts", "3", "--filter", "events=*", "--retry-interval", "5s", "--dead-letter-policy", "park")
    said = (
        "retry: every 1 s -> every 5 s\nattempts: 17 -> 3\ndead letters: continue -> park\n"
        "filters: orders: paid; events: a -> orders: paid\n"
    )
    assert penstock("group", "alter", "billing", *change, "--dry-run").out == said
    assert penstock("group", "alter", "billing", *change).out == said
    assert penstock("group", "alter", "billing", *change, "--dry-run").out == "Nothing would change.\n"
    (now,) = penstock("group", "alter", "billing", "--max-attempts", "unlimited", "--json").rows
    assert (now["max_attempts"], now["filters"], now["retry"]["interval_s"]) == (None, {"orders": "paid"}, 5.0)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["create", "a\nb"], "bad consumer group name"),
        (["create", "billing", "--order", "FIFO"], "'FIFO' is not one of"),
        (["create", "billing", "--order", "CONCURRENT"], "expected: delivery_order CONCURRENT"),
        (["create", "billing", "--max-attempts", "0"], "'0' is no number of attempts; write 1, 2, … or unlimited."),
        (["create", "new", "--filter", "orders"], "'orders' is no filter; write 'orders=paid || refunded'."),
        (["create", "new", "--filter", "orders=a |"], "bad tag filter"),
        (["create", "new", "--order", "CONCURRENT", "--dead-letter-policy", "park"], "only an ORDERLY group can park"),
        (["create", "new", "--order", "CONCURRENT", "--retry-interval", "5s"], "give --retry fixed or exponential too"),
        (["create", "new", "--retry-interval-max", "5s"], "--retry-interval-max is of --retry exponential"),
        (
            ["create", "new", "--retry-interval", "8d"],
            "interval is too long operation: retry policy expected: at most 7 days observed: 8 days",
        ),
        (["alter", "billing"], "Change what?"),
        (["alter", "absent", "--max-attempts", "1"], "there is no such consumer group"),
        (["describe", "absent"], "`penstock group create` creates it, as does its first consumer"),
        (["delete", "absent", "--yes"], "there is no such consumer group"),
        (["lag", "absent"], "there is no such consumer group"),
        (["parked", "absent"], "there is no such consumer group"),
        (["reset", "absent", "orders", "--to", "latest"], "there is no such consumer group"),
        (["reset", "billing", "absent", "--to", "latest"], "there is no such topic"),
        (["reset", "orders", "billing", "--to", "latest"], "the group is named before the topic, and billing is a group"),
        (["reset", "billing", "orders"], "Missing option '--to'"),
        (["reset", "billing", "orders", "--to", "yesterday"], "'yesterday' is no position"),
        (["reset", "billing", "orders", "--to", "99", "--yes"], "the next one to be written is 4"),
        (["reset", "billing", "orders", "--to", "latest", "--queue", "2", "--yes"], "no such queue"),
        (["release", "billing"], "Which? Give --message-group, --queue or --topic, or --all."),
        (["skip", "billing", "--all", "--queue", "0"], "Which?"),
        (["skip", "billing", "--topic", "events"], "has not begun on this topic"),
        (["release", "billing", "--message-group", "dan"], "the message group is not parked"),
        (["list", "--coordination", "zookeeper://x"], "not a coordination table's URL"),
    ],
)
def test_wrong_calls_are_told(penstock: Penstock, shop: Path, args: list[str], said: str) -> None:
    assert said in " ".join(penstock("group", *args, code=2).err.split())


def test_the_table_may_be_named_by_the_environment_or_in_the_call(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [f"sqlite://{tmp_path}/{name}.db" for name in "ab"]
    penstock("group", "create", "billing", "--coordination", tables[0])
    monkeypatch.setenv("PENSTOCK_COORDINATION", tables[0])
    assert [row["group"] for row in penstock("group", "list", "--json").rows] == ["billing"]
    assert "in another coordination table" in penstock("--coordination", tables[1], "group", "create", "audit", code=2).err
    monkeypatch.setenv("PENSTOCK_COORDINATION", tables[1])
    assert "in another coordination table" in penstock("group", "create", "audit", code=2).err
    assert [row["group"] for row in penstock("group", "list", "--json", "--coordination", tables[0]).rows] == ["billing"]


def test_a_table_of_another_lake_is_told(penstock: Penstock, tmp_path: Path) -> None:
    table = f"sqlite://{tmp_path}/cells.db"
    penstock("group", "create", "billing", "--coordination", table)
    told = penstock("group", "list", "--coordination", table, "--lake", str(tmp_path / "other"), code=2).err
    assert "the coordination table is another lake's" in told
    assert "give each lake a prefix or a file of its own" in told


def test_deleting_asks_first_and_refuses_while_members_live(penstock: Penstock, shop: Path) -> None:
    assert penstock("group", "delete", "billing", "--dry-run").out == (
        "Would delete group billing with 2 queues and a lag of 5 messages.\n"
    )
    assert "Nothing was done." in penstock("group", "delete", "billing", stdin="n\n", code=1).err

    async def join() -> None:
        async with aio.connect(shop) as lake:
            table = open_table(None, store=lake.store, runtime=lake.runtime)
            lake._coordination = Coordination(table, lake.runtime, lease_s=1.0, label="mine")
            member = await lake.coordination.worker.join("billing", ["orders"])
            await lake.coordination.groups.update("billing", lambda record: record.joined_by(member.id))
            refused = await asyncio.to_thread(penstock, "group", "delete", "billing", "--yes", code=2)
            assert f"observed:  {member.id}" in refused.err
            assert "hint:      stop them first, or give --force" in refused.err
            (worker,) = (await asyncio.to_thread(penstock, "workers", "--json")).rows
            assert (worker["state"], worker["lease_s"], worker["label"]) == ("lives", 1.0, "mine")
            assert worker["members"] == [{"member": member.id, "group": "billing", "topics": ["orders"]}]
            shown = (await asyncio.to_thread(penstock, "workers")).out
            assert "billing: orders" in shown

    asyncio.run(join())
    assert penstock("workers", "--json").rows == [], "who ended in order is not listed"
    penstock("group", "delete", "billing", "--yes")  # its member is over


def test_workers_that_died_are_told_from_those_that_live(penstock: Penstock, lake: Path) -> None:
    async def die() -> None:
        async with aio.connect(lake) as opened:
            for name, lease_ms, fenced in (("dead", 100, False), ("idle", 60_000, False), ("replaced", 100, True)):
                beat = Heartbeat(worker=name, lease_ms=lease_ms, fenced=fenced, members=(ListedMember(1, "billing", ("orders",)),))
                await opened.coordination.cells.write(worker_key(name), encode_heartbeat(beat), on=None, deadline_s=9e18)

    asyncio.run(die())
    states = {row["worker"]: row["state"] for row in penstock("workers", "--patience", "1s", "--json").rows}
    assert states == {"dead": "expired", "idle": "silent", "replaced": "fenced"}
    states = {row["worker"]: row["state"] for row in penstock("workers", "--patience", "0s", "--json").rows}
    assert states == {"dead": "silent", "idle": "silent", "replaced": "fenced"}


def test_who_only_maintains_is_shown_as_upkeep(penstock: Penstock, lake: Path) -> None:
    async def beat() -> None:
        async with aio.connect(lake) as opened:
            found = Heartbeat(worker="keeper", lease_ms=100, members=(ListedMember(1, "", ("*",)),))
            await opened.coordination.cells.write(worker_key("keeper"), encode_heartbeat(found), on=None, deadline_s=9e18)

    asyncio.run(beat())
    (line,) = [one for one in penstock("workers", "--patience", "0s").out.splitlines() if one.startswith("keeper")]
    assert line.split() == ["keeper", "-", "silent", "100ms", "upkeep"]


# --- Where it is -----------------------------------------------------------------------------------------------------------------------


def test_describe_and_lag_show_how_far_each_queue_is(penstock: Penstock, stuck: Path) -> None:
    (found,) = penstock("group", "describe", "billing", "--json").rows
    assert (found["group"], found["lag"], found["members"]) == ("billing", 4, [])
    first, second = found["queues"]
    assert {
        name: first[name] for name in ("topic", "queue", "owner", "epoch", "committed_offset", "next_offset", "lag", "parked")
    } == {
        "topic": "orders",
        "queue": 0,
        "owner": "w/1",
        "epoch": 1,
        "committed_offset": 2,
        "next_offset": 4,
        "lag": 3,
        "parked": 1,
    }
    assert 0 < first["lag_time_s"] < 3600
    assert (second["lag"], second["in_flight"], second["waiting"], second["blocked"], second["interrupted"]) == (1, 0, 0, 0, 0)
    lines = [line.split() for line in penstock("group", "describe", "billing").out.splitlines()]
    row = next(line for line in lines if line[:2] == ["0", "w/1"])
    assert row[2:6] == ["1", "2", "4", "3"]
    (lag,) = penstock("group", "lag", "--json").rows
    assert (lag["group"], lag["topic"], lag["lag"], lag["parked"]) == ("billing", "orders", 4, 2)
    assert penstock("group", "lag", "billing").out.splitlines()[-1].split()[:3] == ["billing", "orders", "4"]


def test_a_reset_says_how_far_and_asks(penstock: Penstock, shop: Path) -> None:
    done = OffsetSet.of([(0, 3)])
    change(shop, 0, lambda cell: cell.taken_by("w/1").with_granted(done).with_settled(done))
    assert penstock("group", "reset", "billing", "orders", "--to", "earliest", "--dry-run", "--json").rows == [
        {"group": "billing", "topic": "orders", "offsets": {"0": 0, "1": 0}, "dry_run": True}
    ]
    refused = penstock("group", "reset", "billing", "orders", "--to", "2", "--queue", "0", stdin="n\n", code=1).err
    assert "Reset group billing on orders: 1 messages again, 0 skipped. Go on?" in refused
    assert change(shop, 0).settled.floor == 3
    told = penstock("group", "reset", "billing", "orders", "--to", "latest", "--queue", "1", "--queue", "0", stdin="y\n")
    assert "0 messages again, 2 skipped" in told.err
    assert [line.split() for line in told.out.splitlines()[-2:]] == [["1", "0", "1"], ["0", "3", "4"]]
    assert (change(shop, 0).settled.floor, change(shop, 1).settled.floor) == (4, 1)
    assert penstock("group", "reset", "billing", "orders", "--to", "-1h", "--yes", "--json").rows == [
        {"group": "billing", "topic": "orders", "offsets": {"0": 0, "1": 0}}
    ]


# --- Parked message groups -------------------------------------------------------------------------------------------------------------


def test_parked_groups_are_listed_released_and_skipped(penstock: Penstock, stuck: Path) -> None:
    bob, cid = penstock("group", "parked", "billing", "--json").rows
    assert (bob["group"], bob["topic"], bob["queue"], bob["offset"], bob["message_group"]) == ("billing", "orders", 0, 1, "bob")
    assert (bob["attempts"], bob["failed_attempts"], cid["message_group"]) == (17, 17, "cid")
    assert penstock("group", "parked", "billing", "--message-group", "cid", "--json").rows == [cid]
    assert "bob" in penstock("group", "parked", "billing").out
    would = penstock("group", "release", "billing", "--all", "--dry-run")
    assert "Would release 2 message groups of billing." in would.err
    released = penstock("group", "release", "billing", "--message-group", "bob")
    assert "Released 1 message groups of billing; the owners of the queues carry it out within seconds." in released.err
    assert "Nothing was done." in penstock("group", "skip", "billing", "--all", stdin="n\n", code=1).err
    assert change(stuck, 1).dead_letters.assigned == ()
    (skipped,) = penstock("group", "skip", "billing", "--queue", "1", "--yes", "--json").rows
    assert (skipped["order"], skipped["message_group"]) == ("skip", "cid")
    assert change(stuck, 1).dead_letters.assigned == (0,)
    assert "Nothing is parked." in penstock("group", "parked", "billing").err
    assert "Nothing is parked." in penstock("group", "skip", "billing", "--all").err
    assert penstock("group", "release", "billing", "--all", "--json").rows == []


# --- Watching --------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(shop: Path) -> list[str]:
    program = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
    return [*program, "--lake", str(shop), "group", "describe", "billing", "--watch", "--interval", "0.1s"]


@pytest.mark.processes
def test_watching_tells_what_changes_until_it_is_stopped(command: list[str], shop: Path) -> None:
    with subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.stdout, process.stderr
        assert out is not None
        assert err is not None
        first = json.loads(out.readline())
        assert [queue["committed_offset"] for queue in first["queues"]] == [0, 0]
        with connect(shop) as lake:
            lake.reset_offsets("billing", "orders", "latest")
        wait_until(lambda: _floors(out.readline()) == [4, 1], "the reset shown")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert err.read() == b""


@pytest.mark.processes
def test_watching_refreshes_in_place_on_a_terminal(command: list[str], shop: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""

        def shows(pattern: bytes) -> bool:
            nonlocal shown
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
            return re.search(pattern, shown) is not None

        wait_until(lambda: shows(rb"lag\s+5"), "the lag")
        with connect(shop) as lake:
            lake.reset_offsets("billing", "orders", "latest")
        shown = b""
        wait_until(lambda: shows(rb"lag\s+0"), "the lag after the reset")
        assert b"\x1b[1A" in shown, "the cursor goes up to where the table begins"
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, "the end")
        assert process.returncode == 143
    os.close(ours)
    assert b"Traceback" not in shown


async def test_watching_in_a_pipe_ends_with_the_group(penstock: Penstock, shop: Path) -> None:
    watching = asyncio.create_task(
        asyncio.to_thread(penstock, "group", "describe", "billing", "--watch", "--interval", "0.1s", code=2)
    )
    async with aio.connect(shop) as lake:
        await lake.delete_group("billing")
    assert "there is no such consumer group" in (await watching).err


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["for people", "JSON"])
def test_watching_outlives_a_fault_that_passes(
    penstock: Penstock, shop: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    describe, faults = Lake.describe_group, iter([None, StoreUnavailable("the store did not answer"), None, GroupNotFound("gone")])

    def flaky(lake: Lake, name: str) -> GroupDescription:
        if (fault := next(faults)) is not None:
            raise fault
        return describe(lake, name)

    monkeypatch.setattr(Lake, "describe_group", flaky)
    shown = penstock("group", "describe", "billing", "--watch", "--interval", "0s", *arguments, code=2)
    assert "gone" in shown.err
    if arguments:
        assert [json.loads(line)["group"] for line in shown.out.splitlines()] == ["billing"] * 2, "documents alone"
        assert shown.err.count("the store did not answer; trying again\n") == 1
    else:
        assert shown.out.count("billing   ORDERLY   members 0   lag 5   lag time ") == 3, "the last that is known stays"
        assert shown.out.count("the store did not answer; trying again") == 1


def test_the_lag_of_all_groups_is_watched(penstock: Penstock, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, GroupNotFound("gone"), StoreUnavailable("away"), None, TopicNotFound("the end")])
    describe = Lake.describe_group

    def flaky(lake: Lake, name: str) -> GroupDescription:
        if (fault := next(looks)) is not None:
            raise fault
        return describe(lake, name)

    monkeypatch.setattr(Lake, "groups", lambda lake: ["billing"])
    monkeypatch.setattr(Lake, "describe_group", flaky)
    shown = penstock("group", "lag", "--watch", "--interval", "0s", "--json", code=2)
    assert [json.loads(line)["lag"] for line in shown.out.splitlines()] == [5, 5], "a group that goes meanwhile is left out"
    assert shown.err.startswith("away; trying again\n")
    assert "the end" in shown.err


def _floors(line: bytes) -> list[int]:
    return [queue["committed_offset"] for queue in json.loads(line)["queues"]]
