"""What `penstock group describe` says of owners whose queues wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import Message, aio, connect
from penstock.coordinator import GroupDescription, GroupSettings, QueueProgress, WorkerState, WorkerStatus
from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.keys import WORKERS, worker_key
from penstock.coordinator.workers.lease import BEATS_PER_LEASE, LEASE_IDLE_S, MARGIN, Heartbeat, ListedMember, encode_heartbeat
from penstock.infra.cli.groups import lag
from penstock.infra.cli.groups.owners import WATCHED, verdicts
from tests.cells import change_cell
from tests.infra.cli.conftest import Penstock

LIVES, SILENT, EXPIRED = WorkerState.LIVES, WorkerState.SILENT, WorkerState.EXPIRED


def seen(worker: str, state: WorkerState, *numbers: int) -> WorkerStatus:
    members = tuple(ListedMember(number, "billing", ("orders",)) for number in numbers or (1,))
    return WorkerStatus(worker, state, Heartbeat(worker=worker, lease_ms=100, label=f"host/{worker}", members=members))


def owned(*owners: str) -> GroupDescription:
    standing = QueueProgress(
        topic="orders",
        queue=0,
        owner="",
        epoch=1,
        generation=0,
        committed_offset=0,
        next_offset=1,
        lag=1,
        lag_time=timedelta(minutes=1),
        in_flight=0,
        waiting=0,
        blocked=0,
        parked=0,
        interrupted=0,
        dead_letters=0,
        lost_letters=0,
    )
    queues = tuple(replace(standing, queue=number, owner=owner) for number, owner in enumerate(owners))
    return GroupDescription("billing", GroupSettings(), members=owners, queues=queues, lost_letters=0)


@pytest.mark.parametrize(
    ("owners", "workers", "said"),
    [
        (("a/1", "a/1"), [seen("a", LIVES)], ["All owners live."]),
        (
            ("a/1", "", "a/1"),
            [seen("a", EXPIRED)],
            [
                "Owner a/1 (process host/a) of orders 0, orders 2 is dead: it did not renew its lease.",
                "No worker of billing lives, so nobody takes its queues: start one.",
            ],
        ),
        (
            ("a/1", "b/1"),
            [seen("a", WorkerState.FENCED), seen("b", LIVES)],
            [
                "Owner a/1 (process host/a) of orders 0 is dead: it did not renew its lease.",
                "Other consumers of billing live, and take its queues within seconds.",
            ],
        ),
        (
            ("a/1", "a/2"),
            [seen("a", LIVES, 2)],  # a consumer that ended by an error, in a process that lives
            [
                "Owner a/1 (process host/a) of orders 0 has ended.",
                "Other consumers of billing live, and take its queues within seconds.",
            ],
        ),
        (("a/1",), [seen("a", SILENT)], ["Owner a/1 (process host/a) of orders 0 has been silent for 25s."]),
        (
            ("a/1",),
            [],
            [
                "Owner a/1 of orders 0 has ended.",
                "No worker of billing lives, so nobody takes its queues: start one.",
            ],
        ),
    ],
)
def test_owners_are_judged_by_what_was_seen_of_their_workers(
    owners: tuple[str, ...], workers: list[WorkerStatus], said: list[str]
) -> None:
    assert list(verdicts(owned(*owners), workers)) == said


def test_a_watch_is_longer_than_the_rarest_heartbeats_are_apart() -> None:
    assert WATCHED.total_seconds() == LEASE_IDLE_S / BEATS_PER_LEASE * (1 + MARGIN)


def test_only_the_workers_of_the_group_are_watched(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain_read = Cells.read

    async def noted(cells: Cells, key: str) -> StoredCell | None:
        read.append(key)
        return await plain_read(cells, key)

    async def run() -> None:
        async with aio.connect(lake, maintenance=False) as opened:
            for name, group in (("one", "billing"), ("other", "audit")):
                beat = Heartbeat(worker=name, lease_ms=100, members=(ListedMember(1, group, ("orders",)),))
                await opened.coordination.cells.write(worker_key(name), encode_heartbeat(beat), on=None, deadline_s=9e18)
            monkeypatch.setattr(Cells, "read", noted)
            assert [one.worker for one in await opened.workers(group="billing", watch=0)] == ["one"]

    asyncio.run(run())
    assert [key for key in read if key.startswith(WORKERS)] == [worker_key("one")]


def test_describe_tells_that_the_last_worker_died(penstock: Penstock, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "SUSPICIOUS", timedelta(0))
    with connect(lake) as opened:
        opened.create_topic("orders", queues=1)
        opened.create_group("billing")
        opened.reset_offsets("billing", "orders", "earliest")
        with opened.producer("orders") as producer:
            producer.send(Message(b"body"))

    async def die() -> None:
        async with aio.connect(lake) as opened:
            for name, group, lease_ms in (("dead", "billing", 100), ("idle", "audit", 60_000)):
                beat = Heartbeat(
                    worker=name, lease_ms=lease_ms, label=f"host/{name}", members=(ListedMember(1, group, ("orders",)),)
                )
                await opened.coordination.cells.write(worker_key(name), encode_heartbeat(beat), on=None, deadline_s=9e18)

    asyncio.run(die())
    change_cell(lambda: aio.connect(lake), 0, lambda cell: cell.taken_by("dead/1"))
    told = penstock("group", "describe", "billing")
    assert told.out.splitlines()[-2:] == [
        "Owner dead/1 (process host/dead) of orders 0 is dead: it did not renew its lease.",
        "No worker of billing lives, so nobody takes its queues: start one.",
    ]
    assert "Its owners are watched" in told.err
    (document,) = penstock("group", "describe", "billing", "--json").rows
    assert document["queues"][0]["owner"] == "dead/1"
