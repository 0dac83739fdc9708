"""Producer groups and their members by name: bounded, and what has gone makes room, whoever comes at the same time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.tables import MemoryTable
from penstock.coordinator.transactions.members import producer_groups
from penstock.coordinator.transactions.members.producer_groups import ProducerGroups
from penstock.log.errors import LimitExceeded
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.stage import Stage
from tests.coordinator.transactions import stage as transacting

DAY_S = 24 * 3600.0


async def test_names_that_fill_their_cells_are_refused_and_make_room_when_they_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_groups, "CELL_BYTES_MAX", 100)
    found = ProducerGroups(Cells(MemoryTable(), Runtime()), Runtime())
    for number in range(9):
        await found.join(f"group-{number:03d}", "member-000")
    with pytest.raises(LimitExceeded, match="too many producer groups"):
        await found.join("group-009", "member-000")
    assert await found.members("group-009") == frozenset(), "who could not be found begins nothing"
    for number in range(1, 8):
        await found.join("group-000", f"member-{number:03d}")
    with pytest.raises(LimitExceeded, match="or members of one"):
        await found.join("group-000", "member-008")
    await found.leave("group-000", "member-003")
    await found.join("group-000", "member-009")
    await found.forget("group-001")
    assert "group-001" in await found.groups(), "it has a member"
    await found.leave("group-001", "member-000")
    await found.forget("group-001")
    await found.forget("group-001")
    await found.join("group-009", "member-000")
    assert await found.groups() == {f"group-{number:03d}" for number in range(10) if number != 1}


@pytest.mark.parametrize("seed", range(40))
def test_whoever_joins_while_its_group_is_forgotten_is_found(seed: int) -> None:
    stage = Stage(seed)

    async def script() -> None:
        processes = [stage.process(name) for name in "abcd"]
        found = [ProducerGroups(stage.cells(process), process.runtime) for process in processes]
        await processes[0].run(found[0].join("shop", "gone"))
        await processes[0].run(found[0].leave("shop", "gone"))
        rng = stage.kernel.rng("when")

        async def later(work: object) -> object:
            await asyncio.sleep(rng.random() * 0.05)
            return await work  # type: ignore[misc]

        await asyncio.gather(
            processes[0].run(later(found[0].forget("shop"))),
            processes[1].run(later(found[1].forget("shop"))),
            processes[2].run(later(found[2].join("shop", "new"))),
            processes[3].run(later(found[3].join("shop", "newer"))),
        )
        assert await processes[0].run(found[0].members("shop")) == {"new", "newer"}
        assert await processes[0].run(found[0].groups()) == {"shop"}

    stage.play(script)


def test_a_producer_group_whose_processes_have_gone_is_forgotten_after_a_day_and_known_again() -> None:
    stage = transacting.Stage(1)

    async def script() -> None:
        first, keeper = stage.member("first"), stage.member("keeper")
        transaction = await first.sent(b"a")
        await first.run(transaction.commit())
        await first.run(first.transactions.close())
        for _ in range(4):
            await keeper.run(keeper.transactions.tidy(transacting.GROUP))
            await asyncio.sleep(DAY_S)
        assert await keeper.run(keeper.transactions.groups.groups()) == frozenset()
        again = await keeper.sent(b"b")
        assert await keeper.run(keeper.transactions.groups.groups()) == {transacting.GROUP}
        await keeper.run(again.commit())

    stage.play(script)
