"""Cells of members, written by several processes and for many transactions at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.coordinator.tables import CellVersion, MemoryTable
from penstock.coordinator.transactions.errors import TransactionNotFound
from penstock.coordinator.transactions.members import member_cells as members_module
from penstock.coordinator.transactions.members.member_cells import NOTE_S, MemberCells
from penstock.coordinator.transactions.members.state import Decider, Decision, HalfPart, MemberCell
from penstock.log import Runtime
from penstock.log.errors import LimitExceeded, NotWritten, StoreUnavailable
from tests.log.stores.virtual_time import LoopClock, now_s, run_virtual

MEMBER = "ab" * 8
PART = HalfPart(1000, "12" * 16, 1)


class Slow(MemoryTable):
    """Each write takes a while, and is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.silent = False

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        self.writes += 1
        await asyncio.sleep(0.1)
        if self.silent:
            raise StoreUnavailable("no answer", object=key)
        return await super().put(key, data, expected=expected)


def members(table: MemoryTable) -> MemberCells:
    runtime = Runtime(clock=LoopClock(), threads=False)
    return MemberCells(Cells(table, runtime), runtime)


def begun(number: int, *, parts: int = 1) -> Callable[[MemberCell], MemberCell]:
    def change(cell: MemberCell) -> MemberCell:
        for part in range(parts):
            cell = cell.with_half(id_of(number), "orders", "f" * 32, part, PART, now_ms=1, first_check_ms=1, first=part == 0)
        return cell

    return change


def id_of(number: int) -> str:
    return f"{MEMBER}{number:016x}"


def test_what_is_asked_for_meanwhile_goes_into_one_write() -> None:
    async def main() -> None:
        table = Slow()
        cells = members(table)
        await asyncio.gather(*(cells.change(MEMBER, begun(number), group="shop") for number in range(300)))
        cell = await cells.read(MEMBER)
        assert cell is not None
        assert len(cell.rows) == 300
        assert table.writes == 1, "all were asked for before the first write left"
        first = cells.change(MEMBER, begun(300))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, *(cells.change(MEMBER, begun(number)) for number in range(301, 400)))
        assert table.writes == 3

    run_virtual(main())


def test_what_is_noted_goes_with_the_next_write_or_alone_in_a_while() -> None:
    async def main() -> None:
        table = Slow()
        cells = members(table)
        await cells.change(MEMBER, begun(1), group="shop")
        cells.note(MEMBER, lambda cell: cell.decided(id_of(1), Decision.ROLLED_BACK, Decider.OWNER, now_ms=1))
        await asyncio.sleep(NOTE_S / 2)
        assert table.writes == 1
        await cells.change(MEMBER, begun(2))
        assert table.writes == 2
        cells.note(MEMBER, lambda cell: cell.with_finished(id_of(1), {}, now_ms=1))
        await asyncio.sleep(NOTE_S + 0.2)
        assert table.writes == 3
        cells.note(MEMBER, lambda cell: cell.decided(id_of(2), Decision.COMMITTED, Decider.OWNER, now_ms=1))
        await cells.close()
        cell = await members(table).read(MEMBER)
        assert cell is not None
        assert [row.decision for row in cell.rows.values()] == [Decision.COMMITTED]

    run_virtual(main())


def test_a_refusal_is_by_the_cell_as_it_stands_and_touches_nobody_else() -> None:
    async def main() -> None:
        table = MemoryTable()
        mine, other = members(table), members(table)
        await mine.change(MEMBER, begun(1), group="shop")
        await other.change(MEMBER, begun(2))
        commit = mine.change(MEMBER, lambda cell: cell.decided(id_of(2), Decision.COMMITTED, Decider.CHECKER, now_ms=1))
        assert (await commit).row(id_of(2)).by is Decider.CHECKER, "which this process did not know of"
        done = await asyncio.gather(
            mine.change(MEMBER, begun(3)),
            mine.change(MEMBER, lambda cell: cell.decided(id_of(9), Decision.COMMITTED, Decider.OWNER, now_ms=1)),
            mine.change(MEMBER, begun(4)),
            return_exceptions=True,
        )
        assert isinstance(done[1], TransactionNotFound)
        cell = await other.read(MEMBER)
        assert cell is not None
        assert set(cell.rows) == {id_of(number) for number in (1, 2, 3, 4)}

    run_virtual(main())


def test_a_cell_is_made_only_by_who_may() -> None:
    async def main() -> None:
        with pytest.raises(TransactionNotFound, match="nothing is known of this member"):
            await members(MemoryTable()).change(MEMBER, begun(1))

    run_virtual(main())


def test_nothing_is_written_for_the_first_time_when_it_is_too_late() -> None:
    async def main() -> None:
        table = MemoryTable()
        cells = members(table)
        await cells.change(MEMBER, begun(1), group="shop", until_s=now_s())
        await asyncio.sleep(5.0)
        await cells.change(MEMBER, begun(1), until_s=now_s() - 1)  # it stands
        with pytest.raises(NotWritten, match="not staged in time"):
            await cells.change(MEMBER, begun(2), until_s=now_s() - 1)

    run_virtual(main())


def test_a_cell_that_is_full_takes_what_fits_and_says_so() -> None:
    async def main() -> None:
        table = MemoryTable()
        cells = members(table)
        done = await asyncio.gather(
            *(cells.change(MEMBER, begun(number, parts=60), group="shop", grows=True) for number in range(100)),
            return_exceptions=True,
        )
        refused = [one for one in done if isinstance(one, LimitExceeded)]
        assert 0 < len(refused) < 90
        assert "too many or too large for their cell" in str(refused[0])
        assert cells.size_bytes(MEMBER) <= CELL_BYTES_MAX
        cell = await cells.read(MEMBER)
        assert cell is not None
        assert len(cell.rows) == 100 - len(refused)

    run_virtual(main())


def test_transactions_of_a_full_cell_come_to_their_end_which_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        cells = members(MemoryTable())
        for number in range(5):
            await cells.change(MEMBER, begun(number), group="shop", grows=True)
        full = cells.size_bytes(MEMBER)
        monkeypatch.setattr(members_module, "CELL_BYTES_MAX", full)
        with pytest.raises(LimitExceeded):
            await cells.change(MEMBER, begun(5), grows=True)
        await cells.change(MEMBER, begun(0, parts=3))  # as large as what an end may add
        assert cells.size_bytes(MEMBER) > full
        for number in range(5):
            await cells.change(MEMBER, lambda cell, n=number: cell.withdrawn(id_of(n), now_ms=2))  # type: ignore[misc]
            await cells.change(MEMBER, lambda cell, n=number: cell.with_finished(id_of(n), {}, now_ms=2))  # type: ignore[misc]
        await cells.change(MEMBER, begun(5), grows=True)

    run_virtual(main())


def test_only_a_member_that_left_is_dropped() -> None:
    async def main() -> None:
        table = MemoryTable()
        cells = members(table)
        await cells.change(MEMBER, lambda cell: replace(cell, used_ms=1), group="shop")
        await cells.drop(MEMBER)
        assert await cells.read(MEMBER) is not None
        await cells.change(MEMBER, lambda cell: cell.as_left())
        await cells.drop(MEMBER)
        assert await cells.read(MEMBER) is None

    run_virtual(main())


def test_a_table_that_does_not_answer_fails_those_who_wait_and_is_asked_anew_by_the_next() -> None:
    async def main() -> None:
        table = Slow()
        cells = members(table)
        await cells.change(MEMBER, begun(1), group="shop")
        table.silent = True
        with pytest.raises(Exception, match="may have been written"):
            await cells.change(MEMBER, begun(2))
        table.silent = False
        assert set((await cells.change(MEMBER, begun(3))).rows) == {id_of(1), id_of(3)}

    run_virtual(main())
