"""Acknowledging beside the owner, whose expiry comes in at every point where the acknowledger waits: what it says is what happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from penstock.coordinator.cells.cells import WRITE_ID_BYTES, Cells
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import ACKS_KEPT, QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.invisibility import acknowledged, changed_invisible_duration, expired
from penstock.coordinator.queues.receipt_handle import AlreadySettled, ReceiptExpired, ReceiptHandle
from penstock.coordinator.queues.remote_acks import RemoteAcks, UncertainWrite
from penstock.coordinator.tables import CellVersion, MemoryTable
from penstock.coordinator.tables.protocol import Cell
from penstock.log.errors import PenstockError, StoreUnavailable, UnknownOutcome
from penstock.log.runtime.runtime import Runtime
from tests.consumers.test_receipts import handed_out, handle

KEY = "queues/billing/orders/0"
LAST = GroupSettings(max_attempts=1)
POINTS = range(8)


class Interrupted(MemoryTable):
    """Something happens before or after the n-th call of the acknowledger; the answer of that call may be lost."""

    def __init__(self, cell: QueueCell) -> None:
        super().__init__(name="interrupted")
        self.cell = cell
        self.version: CellVersion | None = None
        self.at, self.lost, self.after = -1, False, False
        self.happens: Callable[[QueueCell], QueueCell] = lambda cell: cell
        self._calls = 0

    async def begin(self) -> None:
        self.version = await super().put(KEY, bytes(16) + encode_cell(self.cell), expected=None)

    async def get(self, key: str) -> Cell | None:
        hit = await self._before()
        found = await super().get(key)
        await self._behind(hit, lost=False)
        return found

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        hit = await self._before()
        version = await super().put(key, data, expected=expected)
        await self._behind(hit, lost=self.lost)
        return version

    async def stands(self) -> QueueCell:
        found = await super().get(KEY)
        assert found is not None
        self.version = found.version
        return decode_cell(found.data[WRITE_ID_BYTES:], where=KEY)

    async def _before(self) -> bool:
        hit, self._calls = self._calls == self.at, self._calls + 1
        if hit and not self.after:
            await self._happen()
        return hit

    async def _behind(self, hit: bool, *, lost: bool) -> None:
        if hit and self.after:
            await self._happen()
        if hit and lost:
            raise StoreUnavailable("the answer was lost")

    async def _happen(self) -> None:
        before = await self.stands()
        after = self.happens(before)
        await super().put(KEY, b"\1" * 16 + encode_cell(after), expected=self.version)


def given_up(cell: QueueCell) -> QueueCell:
    """By the owner, at the last attempt."""
    return expired(cell, 60_000, LAST).cell


def one_out(*, orderly: bool) -> tuple[QueueCell, ReceiptHandle]:
    cell, _, (first, *_) = handed_out("a", "b", orderly=orderly, most=1)
    return cell, handle(first)


async def asked(
    table: Interrupted, change: Callable[[QueueCell], QueueCell], tried: UncertainWrite | None = None
) -> PenstockError | None:
    try:
        await RemoteAcks(Cells(table, Runtime()), Runtime()).change(KEY, change, tried=tried)
    except PenstockError as error:
        return error
    return None


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("at", POINTS)
async def test_an_acknowledgement_says_whether_it_was_the_one_that_settled(at: int, after: bool, lost: bool, orderly: bool) -> None:
    cell, out = one_out(orderly=orderly)
    table = Interrupted(cell)
    await table.begin()
    table.at, table.after, table.lost, table.happens = at, after, lost, given_up
    error = await asked(table, partial(acknowledged, handle=out, now_ms=5))
    letters = (await table.stands()).dead_letters.assigned
    if error is None:
        assert letters == ()
    else:
        assert isinstance(error, AlreadySettled)
        assert letters == (0,)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("at", POINTS)
async def test_a_delivery_that_was_ended_at_once_is_not_taken_for_one_that_expired(at: int, after: bool, lost: bool) -> None:
    cell, out = one_out(orderly=False)
    table = Interrupted(cell)
    await table.begin()
    table.at, table.after, table.lost = at, after, lost
    table.happens = lambda cell: expired(cell, 1_000, GroupSettings()).cell
    error = await asked(table, partial(changed_invisible_duration, handle=out, due_ms=500, now_ms=500))
    assert error is None


@pytest.mark.parametrize(("others", "says"), [(ACKS_KEPT - 1, None), (ACKS_KEPT, UnknownOutcome)])
async def test_what_so_many_others_followed_that_nothing_tells_is_an_unknown_outcome(
    others: int, says: type[PenstockError] | None
) -> None:
    cell, out = one_out(orderly=True)

    def busy(cell: QueueCell) -> QueueCell:
        for number in range(others):
            cell = cell.with_ack(number)
        return cell

    table = Interrupted(cell)
    await table.begin()
    table.at, table.after, table.lost, table.happens = 1, True, True, busy
    error = await asked(table, partial(acknowledged, handle=out, now_ms=5))
    assert (None if error is None else type(error)) is says
    assert (await table.stands()).dead_letters.assigned == ()


async def test_a_write_that_an_owner_is_in_doubt_of_is_recognised() -> None:
    cell, out = one_out(orderly=True)
    change = partial(acknowledged, handle=out, now_ms=5)

    async def said(stands: QueueCell, tried: UncertainWrite | None) -> PenstockError | None:
        table = Interrupted(stands)
        await table.begin()
        return await asked(table, change, tried)

    tried = UncertainWrite(77, cell.ack_writes)
    assert await said(change(cell).with_ack(77), tried) is None
    assert isinstance(await said(change(cell).with_ack(77), None), AlreadySettled)
    assert isinstance(await said(change(cell).with_ack(78), tried), AlreadySettled)
    assert isinstance(await said(given_up(cell), tried), AlreadySettled)
    assert await said(cell, tried) is None, "it was not carried out, and is now"


def test_a_cell_tells_of_its_last_acknowledging_writes() -> None:
    cell = QueueCell()
    assert cell.has_ack(5, 0) is False
    cell = cell.with_ack(5)
    assert (cell.has_ack(5, 0), cell.has_ack(6, 0), cell.has_ack(6, 1)) == (True, False, False)
    for number in range(100, 100 + ACKS_KEPT - 1):
        cell = cell.with_ack(number)
    assert (cell.has_ack(5, 0), cell.has_ack(6, 0)) == (True, False)
    cell = decode_cell(encode_cell(cell.with_ack(2**64 - 1)), where="here")
    assert (cell.has_ack(5, 0), cell.has_ack(6, 1), cell.has_ack(2**64 - 1, 1)) == (None, False, True)
    assert cell.has_ack(6, cell.ack_writes + 1) is None, "a cell that was put back from before"
    assert cell.reset_to(9, 1).has_ack(2**64 - 1, 1) is True


async def test_a_refused_acknowledgement_leaves_the_cell_as_it_is() -> None:
    cell, out = one_out(orderly=True)
    table = Interrupted(cell)
    await table.begin()
    assert isinstance(await asked(table, partial(acknowledged, handle=out, now_ms=99_000)), ReceiptExpired)
    assert await table.stands() == cell
