"""What becomes of what was handed out, in its cell: the decisions by themselves."""

from __future__ import annotations

import pytest

from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Spill, Tries
from penstock.coordinator.queues.invisibility import acknowledged, expired, last_expiry_ms, returned
from penstock.coordinator.queues.offsets import SettledOffsets
from penstock.coordinator.queues.receipt_handle import AlreadySettled, ReceiptExpired, ReceiptHandle

OUT = Tries(MessageState.OUT, 1, 0, 1_000)
CELL = QueueCell(generation=3, tries={4: OUT}, markers={7: Marker(9, 10, Tries(MessageState.OUT, 1, 0, 2_000))})


def handle(offset: int, lane: int | None, *, generation: int = 3, attempt: int = 1) -> ReceiptHandle:
    return ReceiptHandle(
        group="g", topic="orders", queue=0, offset=offset, generation=generation, attempt=attempt, lane=lane, following=None
    )


@pytest.mark.parametrize(("offset", "lane"), [(4, None), (9, 7)])
def test_what_nobody_took_is_visible_again_if_it_is_the_same_delivery(offset: int, lane: int | None) -> None:
    back = returned(CELL, handle(offset, lane))
    tries = back.tries[4] if lane is None else back.markers[7].tries
    assert (tries, last_expiry_ms(back)) == (Tries(MessageState.WAITING, 1), 2_000 if lane is None else 1_000)
    for other in (handle(offset, lane, generation=2), handle(offset, lane, attempt=2), handle(offset + 1, lane)):
        assert returned(CELL, other) is CELL


def test_the_last_delivery_that_is_out_is_known_by_its_end() -> None:
    later = QueueCell(tries={4: OUT, 5: Tries(MessageState.WAITING, 1, 1, 9_000)})
    assert [last_expiry_ms(cell) for cell in (CELL, later, QueueCell())] == [2_000, 1_000, 0]


def test_before_anything_is_due_nothing_expires() -> None:
    early = expired(CELL, 999, GroupSettings())
    assert (early.cell, early.lapses, early.left) == (CELL, (), False)
    assert [lapse.offset for lapse in expired(CELL, 1_000, GroupSettings()).lapses] == [4]


@pytest.mark.parametrize(("offset", "error"), [(3, AlreadySettled), (4, ReceiptExpired), (5, ReceiptExpired)])
def test_from_the_first_offset_that_waits_beside_the_cell_none_is_known_to_be_settled(offset: int, error: type[Exception]) -> None:
    cell = QueueCell(generation=3, settled=SettledOffsets(10), spills=(Spill("0" * 32, 0, 1, 9_000, 4),))
    with pytest.raises(error):
        acknowledged(cell, handle(offset, None), now_ms=0)
