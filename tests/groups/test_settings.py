"""Consumer groups by the public API: made, altered, deleted; on lakes in memory and in folders."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.coordinator import Coordination, WorkerState, create_table
from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.operators.operators import Operators
from penstock.coordinator.tables import MemoryTable
from penstock.coordinator.workers.lease import Heartbeat, ListedMember, encode_heartbeat
from tests.groups.conftest import Shop
from tests.lakes import TIMEOUT_S, keys
from tests.servers import DynamoDBServer, S3Server


@pytest.mark.parametrize("coordination", [None, "store", "sqlite"])
def test_a_group_s_life_in_a_folder(tmp_path: Path, coordination: str | None) -> None:
    url = f"sqlite://{tmp_path}/elsewhere/cells.db" if coordination == "sqlite" else coordination
    retry = penstock.RetryPolicy(interval=timedelta(seconds=7))
    with penstock.connect(tmp_path / "lake", coordination=url) as lake:
        made = lake.create_group("billing", retry=retry, max_attempts=None, filters={"orders": "a||b"})
        assert made == penstock.GroupSettings(retry=retry, max_attempts=None, filters={"orders": "a||b"})
        lake.create_group("audit", delivery_order="CONCURRENT")
    with penstock.connect(tmp_path / "lake", coordination=url) as lake:
        assert lake.create_group("billing", retry=retry, max_attempts=None, filters={"orders": "b || a"}) == made
        found = lake.groups()
        assert list(found) == ["audit", "billing"]
        assert found["audit"].retry.schedule is penstock.RetrySchedule.ROCKETMQ
        altered = lake.alter_group("billing", max_attempts=3, dead_letter_policy="park", filters={})
        assert altered == replace(made, max_attempts=3, dead_letter_policy=penstock.DeadLetterPolicy.PARK, filters={})
        assert lake.groups()["billing"] == altered
        assert lake.describe_group("billing").queues == ()
        lake.delete_group("billing")
        assert list(lake.groups()) == ["audit"]
        with pytest.raises(penstock.GroupNotFound, match=r"no such consumer group.*billing"):
            lake.describe_group("billing")
        assert lake.create_group("billing", max_attempts=1).max_attempts == 1
    assert (tmp_path / "lake" / ".penstock" / "coordination.db").exists() == (coordination is None)
    assert (tmp_path / "lake" / "coordination" / "groups").exists() == (coordination == "store")
    assert (tmp_path / "elsewhere" / "cells.db").exists() == (coordination == "sqlite")


def test_a_lake_that_was_moved_keeps_its_groups(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "before") as lake:
        lake.create_group("billing")
    (tmp_path / "before").rename(tmp_path / "after")
    with penstock.connect(tmp_path / "after") as lake:
        assert list(lake.groups()) == ["billing"]


def test_two_lakes_in_one_file_of_cells_are_told(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/cells.db"
    with penstock.connect(tmp_path / "one", coordination=url) as lake:
        lake.create_group("billing")
    with penstock.connect(tmp_path / "two", coordination=url) as lake:
        for call in (lambda: lake.create_group("billing"), lambda: lake.describe_group("billing"), lake.groups):
            with pytest.raises(
                penstock.TableMismatch, match=r"another lake's.*cells.db.*expected.*/two; observed.*/one.*a file of its own"
            ):
                call()


@pytest.mark.s3
@pytest.mark.dynamodb
def test_two_lakes_share_a_dynamodb_table_by_prefixes_only(moto: S3Server) -> None:
    server = DynamoDBServer(moto.endpoint)
    table = server.url("groups-of-two-lakes")
    asyncio.run(create_table(table, options=moto.credentials))

    def lake(name: str, prefix: str = "") -> penstock.Lake:
        url = server.url("groups-of-two-lakes", prefix=prefix)
        # The options are those of both: credentials for the bucket and for the table.
        return penstock.connect(moto.url(name), coordination=url, options=moto.credentials)

    with lake("first") as one, lake("second") as two, lake("second", "two") as apart:
        one.create_group("billing")
        with pytest.raises(
            penstock.TableMismatch,
            match=r"another lake's.*expected: s3://.*/second; observed: s3://.*/first.*give each lake a prefix",
        ):
            two.create_group("audit")
        assert apart.groups() == {}
        apart.create_group("audit")
        assert (list(one.groups()), list(apart.groups())) == (["billing"], ["audit"])


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"name": "a\nb"}, penstock.InvalidArgument, "bad consumer group name"),
        ({"name": "x" * 250}, penstock.LimitExceeded, "at most 249 characters"),
        ({"delivery_order": "FIFO"}, penstock.InvalidArgument, "no such delivery_order.*ORDERLY, CONCURRENT.*FIFO"),
        ({"max_attempts": 0}, penstock.InvalidArgument, "max_attempts must be a positive whole number"),
        ({"retry": 3}, penstock.InvalidArgument, "retry must be a RetryPolicy.*int"),
        ({"dead_letter_policy": "drop"}, penstock.InvalidArgument, "no such dead_letter_policy.*continue, park.*drop"),
        (
            {"delivery_order": "CONCURRENT", "dead_letter_policy": "park"},
            penstock.InvalidArgument,
            "only an ORDERLY group can park",
        ),
        ({"filters": {"orders": "a |"}}, penstock.InvalidArgument, "bad tag filter.*a |"),
        ({"filters": {"or ders": "a"}}, penstock.InvalidArgument, "bad topic name.*or ders"),
        ({"filters": ["orders"]}, penstock.InvalidArgument, "filters must be a mapping"),
        (
            {"delivery_order": "CONCURRENT"},
            penstock.GroupExists,
            r"exists with other settings.*billing.*expected.*'delivery_order': 'CONCURRENT'.*observed.*'delivery_order': 'ORDERLY'",
        ),
    ],
)
def test_a_group_that_cannot_be_made(shop: Shop, settings: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        shop.lake.create_group(**{"name": "billing", **settings})
    assert shop.lake.groups() == {"billing": penstock.GroupSettings()}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"delivery_order": "CONCURRENT"}, "delivery_order cannot be changed.*retry, max_attempts.*of another name"),
        ({"colour": "red"}, "colour cannot be changed"),
        ({"max_attempts": -1}, "max_attempts must be a positive whole number"),
        ({"filters": {"orders": "|"}}, "bad tag filter"),
    ],
)
def test_what_cannot_be_altered(shop: Shop, changes: Any, said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        shop.lake.alter_group("billing", **changes)
    assert shop.lake.groups() == {"billing": penstock.GroupSettings()}


def test_a_lake_opened_for_reading_writes_no_cell(shop: Shop) -> None:
    shop.send(0, "ann")
    shop.begin(0, 0)
    before = keys(shop.store)
    with penstock.connect(store=shop.store, runtime=shop.runtime, read_only=True) as lake:
        assert list(lake.groups()) == ["billing"]
        assert lake.describe_group("billing").lag == 1
        assert lake.parked("billing") == []
        assert lake.workers() == []
        for call in (
            lambda: lake.create_group("audit"),
            lambda: lake.alter_group("billing", max_attempts=1),
            lambda: lake.delete_group("billing"),
            lambda: lake.reset_offsets("billing", "orders", "latest"),
            lambda: lake.release("billing"),
            lambda: lake.skip("billing"),
        ):
            with pytest.raises(penstock.ReadOnlyError, match="read_only=True"):
                call()
    assert keys(shop.store) == before


def test_reading_a_folder_leaves_no_file_of_cells(tmp_path: Path) -> None:
    with penstock.connect(tmp_path / "lake") as lake:
        lake.create_topic("orders")
    with penstock.connect(tmp_path / "lake", read_only=True) as lake:
        assert lake.groups() == {}
    assert not (tmp_path / "lake" / ".penstock" / "coordination.db").exists()


def test_the_same_on_an_event_loop_of_the_caller_s() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_group("billing", filters={"orders": "a"})
            assert (await lake.alter_group("billing", max_attempts=2)).max_attempts == 2
            assert (await lake.describe_group("billing")).settings == (await lake.groups())["billing"]
        with pytest.raises(penstock.ClosedError, match="the lake is closed"):
            await lake.groups()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S), debug=True)


# --- Members that live -----------------------------------------------------------------------------------------------------------------


class Town:
    """A lake whose workers have a short lease."""

    def __init__(self) -> None:
        self.lake = aio.connect("memory://")
        self.lake._coordination = Coordination(MemoryTable(), self.lake.runtime, lease_s=0.3, label="mine")


def test_a_group_with_a_member_that_lives_is_not_deleted_unless_forced() -> None:
    async def main() -> None:
        async with Town().lake as lake:
            member = await lake.coordination.worker.join("billing", ["orders"])
            await lake.create_group("billing")
            await lake.coordination.groups.update("billing", lambda record: record.joined_by(member.id))
            with pytest.raises(penstock.GroupInUse, match=f"members of the consumer group live.*billing.*{member.id}.*force it"):
                await lake.delete_group("billing")
            (worker,) = await lake.workers()
            assert (worker.state, worker.worker) == (WorkerState.LIVES, member.id.partition("/")[0])
            assert worker.heartbeat is not None
            assert worker.heartbeat.members == (ListedMember(1, "billing", ("orders",)),)
            await lake.delete_group("billing", force=True)
            assert await lake.groups() == {}

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_group_whose_members_are_all_over_is_deleted() -> None:
    async def main() -> None:
        async with Town().lake as lake:
            await lake.create_group("billing")
            worker = lake.coordination.worker
            staying, leaving = [await worker.join("audit"), await worker.join("billing")]
            await leaving.leave()
            dead = Heartbeat(worker="dead", lease_ms=200, members=(ListedMember(1, "billing"),))
            fenced = Heartbeat(worker="fenced", lease_ms=60_000, members=(ListedMember(1, "billing"),), fenced=True)
            for one in (dead, fenced):
                await lake.coordination.cells.write(worker_key(one.worker), encode_heartbeat(one), on=None, deadline_s=9e18)
            for member in (leaving.id, "dead/1", "fenced/1", "gone/1"):
                await lake.coordination.groups.update("billing", lambda record, member=member: record.joined_by(member))  # type: ignore[misc]
            await lake.delete_group("billing")
            assert await lake.groups() == {}
            assert staying.may_start()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_group_is_not_deleted_under_a_member_that_joined_while_the_others_were_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Town().lake as lake:
            await lake.create_group("billing")
            groups, worker = lake.coordination.groups, lake.coordination.worker
            member = await worker.join("billing", ["orders"])
            check = Operators._check_dead_letters_written

            async def joined(self: Operators, *which: Any, **how: Any) -> None:
                await groups.update("billing", lambda record: record.joined_by(member.id))
                await check(self, *which, **how)

            monkeypatch.setattr(Operators, "_check_dead_letters_written", joined)
            with pytest.raises(penstock.GroupInUse, match=member.id):
                await lake.delete_group("billing")
            assert (await groups.get("billing")).members == (member.id,)

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))


def test_a_group_that_was_made_while_the_former_one_s_members_were_watched_is_not_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Town().lake as lake:
            await lake.create_group("billing")
            check = Operators._check_dead_letters_written

            async def followed(self: Operators, *which: Any, **how: Any) -> None:
                await lake.coordination.groups.delete("billing")
                await lake.create_group("billing", max_attempts=1)
                await check(self, *which, **how)

            monkeypatch.setattr(Operators, "_check_dead_letters_written", followed)
            with pytest.raises(penstock.GroupNotFound):
                await lake.delete_group("billing")
            assert (await lake.groups())["billing"].max_attempts == 1

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
