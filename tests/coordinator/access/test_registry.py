"""Operators change principals and grants in a table, also two at once, and through a table that loses answers."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import timedelta

import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.record import (
    HISTORY_MAX,
    AccessChange,
    AccessRecord,
    GrantNotFound,
    Principal,
    PrincipalExists,
    PrincipalNotFound,
    SealedSecret,
)
from penstock.coordinator.access.registry import AccessRegistry
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, SecretNotOpened, new_key
from penstock.coordinator.cells.agreement import TableAgreement
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import ACCESS
from penstock.coordinator.cells.table_record import OwnTable
from penstock.coordinator.tables import Cell, CellTable, MemoryTable, TableMismatch
from penstock.log.errors import InvalidArgument, LimitExceeded
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.test_cells import FaultyTable, quick
from tests.simulation.kernel import Kernel

KEYS = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")
SECRET = "correct-horse-battery"


class FaultyWrites(FaultyTable):
    """Reads are tried again by real tables, and writes are not."""

    async def get(self, key: str) -> Cell | None:
        await self._turns()
        return await MemoryTable.get(self, key)


def registry(table: CellTable, runtime: Runtime | None = None, *, lake: str | None = None) -> AccessRegistry:
    runtime = runtime or Runtime()
    own = None if lake is None else TableAgreement(table, runtime, lake=lake, own=OwnTable(url=table.url))
    return AccessRegistry(Cells(table, runtime, agreement=own), runtime)


def opened(record: AccessRecord, name: str, keys: SealingKeys = KEYS) -> list[str]:
    principal = record.principals[name]
    return [keys.open(one, name=name, id=principal.id) for one in principal.secrets]


async def test_a_principal_s_life() -> None:
    table = MemoryTable()
    access = registry(table)
    assert await access.read() == AccessRecord()
    assert opened(await access.add("shop", SECRET, KEYS), "shop") == [SECRET]
    with pytest.raises(PrincipalExists):
        await access.add("shop", SECRET, KEYS)
    await access.grant("shop", [Grant(Verb.SEND, "orders*")])
    await access.rotate("shop", SECRET + "2", KEYS, keep=timedelta(hours=1))
    record = await registry(table).read()
    assert opened(record, "shop") == [SECRET + "2", SECRET]
    present, former = record.principals["shop"].secrets
    assert former.until_ms is not None
    assert former.until_ms - present.since_ms == 3_600_000
    assert len((await access.rotate("shop", SECRET + "3", KEYS, keep=timedelta(0))).principals["shop"].secrets) == 1
    stored = await table.get(ACCESS)
    assert stored is not None
    assert b"correct" not in stored.data
    await access.remove("shop")
    with pytest.raises(PrincipalNotFound):
        await access.remove("shop")
    assert not (await access.add("shop", SECRET, KEYS)).grants_of("shop")


async def test_the_record_remembers_who_changed_what() -> None:
    table = MemoryTable()
    access = registry(table).acting("ann@desk")
    await access.grant("role:shops", [Grant(Verb.SEND, "orders*")])
    await access.add("shop", SECRET, KEYS, roles=["shops"])
    await access.acting("ben").rotate("shop", SECRET + "2", KEYS, keep=timedelta(hours=1))
    await access.grant("shop", [Grant(Verb.JOIN, "billing")])
    await access.grant("shop", [Grant(Verb.JOIN, "billing")])
    await access.revoke("shop", [Grant(Verb.JOIN, "billing")], ["shops"])
    record = await access.remove("shop")
    assert [(one.by, str(one)) for one in record.history] == [
        ("ann@desk", "grant role:shops: send orders*"),
        ("ann@desk", "add shop: role shops"),
        ("ben", "rotate shop: former ones for 1:00:00"),
        ("ann@desk", "grant shop: join billing"),
        ("ann@desk", "revoke shop: join billing, role shops"),
        ("ann@desk", "remove shop"),
    ]
    assert (await registry(table).read()).history == record.history
    for name in ("", "x" * 129, "two\nlines"):
        with pytest.raises(InvalidArgument):
            access.acting(name)


async def test_what_is_remembered_is_bounded_and_takes_no_room_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    access = registry(MemoryTable())
    patterns = [f"topic-{number}-{'x' * 80}" for number in range(HISTORY_MAX + 5)]
    for pattern in patterns:
        await access.grant("role:many", [Grant(Verb.SEND, pattern)])
    record = await access.read()
    assert len(record.history) == HISTORY_MAX
    assert "topic-5-" in record.history[0].detail
    monkeypatch.setattr("penstock.coordinator.access.registry.ACCESS_BYTES_MAX", 1)
    with pytest.raises(LimitExceeded):
        await access.grant("role:many", [Grant(Verb.SEND, "more")])
    await access.revoke("role:many", [Grant(Verb.SEND, patterns[0])])


def test_a_change_whose_answer_was_lost_is_remembered_once() -> None:
    change = AccessChange(id="c1", at_ms=1, by="ann", what="remove", who="shop")
    noted = AccessRecord().with_noted(change)
    assert noted.has(change)
    assert not noted.has(replace(change, id="c2"))


async def test_a_mistyped_pattern_revokes_nothing() -> None:
    access = registry(MemoryTable())
    grants = [Grant(Verb.SEND, "orders"), Grant(Verb.RECEIVE, "orders")]
    await access.grant("role:all", grants)
    with pytest.raises(GrantNotFound):
        await access.revoke("role:all", [grants[0], Grant(Verb.SEND, "order")])
    assert (await access.read()).roles["all"] == frozenset(grants)
    assert (await access.revoke("role:all", grants[:1])).roles["all"] == {grants[1]}


async def test_two_operators_at_once_undo_nothing_of_each_other() -> None:
    table = MemoryTable()
    await registry(table).add("shop", SECRET, KEYS)
    topics = [f"topic-{number}" for number in range(20)]
    await asyncio.gather(*(registry(table).grant("shop", [Grant(Verb.SEND, topic)]) for topic in topics))
    await asyncio.gather(*(registry(table).add(f"user-{number}", SECRET, KEYS) for number in range(20)))
    record = await registry(table).read()
    assert {grant.pattern for grant in record.grants_of("shop")} == {*topics}
    assert len(record.principals) == 21


@pytest.mark.parametrize("seed", range(12))
def test_each_order_is_carried_out_once_though_answers_are_lost(seed: int) -> None:
    """Two operators work through tables that lose requests and answers, repeat them and carry them out late."""

    async def operate(access: AccessRegistry, number: int) -> None:
        name = f"user-{number}"
        await access.add(name, SECRET, KEYS)
        await access.grant(name, [Grant(Verb.SEND, "a"), Grant(Verb.SEND, "b")])
        await access.revoke(name, [Grant(Verb.SEND, "a")])
        await access.rotate(name, SECRET + "2", KEYS)
        await access.add(f"{name}-gone", SECRET, KEYS)
        await access.remove(f"{name}-gone")

    async def main() -> None:
        table = FaultyWrites(random.Random(seed), 0.3)
        await asyncio.gather(*(operate(registry(table, quick(seed * 10 + number)), number) for number in range(2)))
        await asyncio.gather(*table.late)
        record = await registry(table).read()
        assert sorted(record.principals) == ["user-0", "user-1"]
        for name in record.principals:
            assert record.grants_of(name) == {Grant(Verb.SEND, "b")}
            assert opened(record, name) == [SECRET + "2", SECRET]
            made = [one.what for one in record.history if one.who in (name, f"{name}-gone")]
            assert made == ["add", "grant", "revoke", "rotate", "add", "remove"], "each is remembered once"

    Kernel(seed).run(main())


async def test_another_lake_s_table_is_refused() -> None:
    table = MemoryTable()
    await registry(table, lake="s3://bucket/mine").add("shop", SECRET, KEYS)
    other = registry(table, lake="s3://bucket/other")
    with pytest.raises(TableMismatch):
        await other.read()
    with pytest.raises(TableMismatch):
        await other.add("ann", SECRET, KEYS)


async def test_the_record_is_bounded() -> None:
    access = registry(MemoryTable())
    await access.add("shop", SECRET, KEYS)
    with pytest.raises(LimitExceeded, match="give grants to roles"):
        await access.grant("shop", [Grant(Verb.SEND, f"{number:0100}") for number in range(1400)])
    await access.grant("shop", [Grant(Verb.SEND, "orders")])


async def test_secrets_are_sealed_anew_by_another_key() -> None:
    access = registry(MemoryTable())
    await access.add("shop", SECRET, KEYS)
    before = await access.rotate("shop", SECRET + "2", KEYS)
    new = bytes(range(KEY_BYTES))
    both = SealingKeys.parse(new_key(new) + new_key(bytes(KEY_BYTES)), where="the file")
    assert (await access.reseal(both), await access.reseal(both)) == (2, 0)
    alone = SealingKeys.parse(new_key(new), where="the file")
    after = await access.read()
    assert opened(after, "shop", alone) == opened(before, "shop")
    times = [(one.since_ms, one.until_ms) for one in after.principals["shop"].secrets]
    assert times == [(one.since_ms, one.until_ms) for one in before.principals["shop"].secrets]
    with pytest.raises(SecretNotOpened):
        await access.reseal(KEYS)


def test_resealing_leaves_what_another_operator_wrote_meanwhile() -> None:
    record = AccessRecord(principals={"shop": Principal(id="1", secrets=(SealedSecret("b", "new", 1),))})
    assert record.with_resealed("shop", SealedSecret("a", "old", 0), SealedSecret("c", "new", 0)) == record
    assert record.with_resealed("gone", SealedSecret("a", "old", 0), SealedSecret("c", "new", 0)) == record
