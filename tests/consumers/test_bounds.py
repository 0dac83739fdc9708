"""What a queue's cell has room for: the bounds together are below what a table takes, and a cell that is full all the same heals."""

from __future__ import annotations

import pytest

from penstock.consumers.limits import WINDOW_MAX, QueueLimits
from penstock.consumers.queues.spill_task import NAMED_MAX
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.limits import CELL_STORED_BYTES_MAX, LETTERS_MAX
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Spill, Tries
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.invisibility import expired
from penstock.coordinator.queues.keeper import ROOM_BYTES
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.coordinator.transactions.members.acks import UNNOTED_MAX

FAR = 2**42
"""An offset that a queue reaches in a hundred years at a thousand messages a second."""
MANY = 2**28
"""Attempts, at one a second for eight years."""


def scattered(first: int, count: int) -> OffsetSet:
    """Every other one, as far as a codec can tell at random."""
    bits = int.from_bytes(b"".join((n * 2654435761 % 2**32).to_bytes(4, "little") for n in range(count // 32)), "little")
    return OffsetSet(first, bits | 1)


def test_the_largest_cell_that_the_bounds_allow_is_stored_and_can_be_taken() -> None:
    """As many message groups as may be blocked, each as large as its numbers can make it; as many dead letters as may wait, and on top of them
    all that one order of an operator gave up; waiting messages beside the cell, transactions, and sets of offsets full of holes.
    """
    limits = QueueLimits()
    running = Tries(MessageState.RUNNING, MANY, MANY, 2**42, WINDOW_MAX)
    markers = {2**63 + n: Marker(FAR + n, FAR + n + MANY, running) for n in range(limits.full)}
    refused = tuple((offset, MANY) for offset in range(FAR, FAR + LETTERS_MAX))
    letters = DeadLetters(FAR, tuple(range(FAR, FAR + LETTERS_MAX + limits.full)), refused=refused)
    spills = tuple(Spill(f"{n:032x}", 2**16, 2**16, 2**42, FAR) for n in range(NAMED_MAX))
    cell = QueueCell(
        generation=MANY,
        epoch=MANY,
        owner="o" * 64,
        step=MANY,
        commands=MANY,
        settled=SettledOffsets(FAR, scattered(FAR + 1, WINDOW_MAX).bits),
        granted=OffsetSet(FAR + 1, scattered(FAR + 1, WINDOW_MAX).bits),
        markers=markers,
        dead_letters=letters,
        spills=spills,
        transactions=frozenset(f"{n:032x}" for n in range(UNNOTED_MAX)),
    )
    assert len(encode_cell(cell)) <= ROOM_BYTES
    assert len(encode_cell(cell.taken_by("p" * 64))) <= CELL_STORED_BYTES_MAX


@pytest.mark.parametrize(
    ("order", "policy"),
    [
        (DeliveryOrder.CONCURRENT, DeadLetterPolicy.CONTINUE),
        (DeliveryOrder.ORDERLY, DeadLetterPolicy.CONTINUE),
        (DeliveryOrder.ORDERLY, DeadLetterPolicy.PARK),
    ],
)
def test_what_expires_at_its_last_attempt_waits_for_room_for_its_dead_letter(
    order: DeliveryOrder, policy: DeadLetterPolicy
) -> None:
    settings = GroupSettings(delivery_order=order, max_attempts=2, dead_letter_policy=policy)
    orderly, parks = order is DeliveryOrder.ORDERLY, policy is DeadLetterPolicy.PARK
    cell = QueueCell(settled=SettledOffsets(20), dead_letters=DeadLetters(7, (0,)))
    last, first = [(10 + n, Tries(MessageState.OUT, 2, 1, 50 - n)) for n in range(5)], (15, Tries(MessageState.OUT, 1, 0, 60))
    for offset, tries in (*last, first):
        if orderly:
            cell = cell.with_markers({offset: Marker(offset, offset + 1, tries)}, OffsetSet())
        else:
            cell = cell.with_tries(offset, tries)
    expiry = expired(cell, 100, settings, letters_max=3)
    if orderly and parks:
        assert (len(expiry.lapses), expiry.left, expiry.cell.dead_letters) == (6, False, cell.dead_letters)
        return
    assert sorted(lapse.offset for lapse in expiry.lapses) == [13, 14, 15], "what was due first, and what is not given up"
    assert expiry.cell.dead_letters.assigned == (0, 13, 14)
    assert expiry.left
    again = expired(expiry.cell, 100, settings, letters_max=3)
    assert (again.cell, again.lapses, again.left) == (expiry.cell, (), True)
    after = expired(expiry.cell.with_dead_letters_written(expiry.cell.dead_letters.next_sequence), 100, settings, letters_max=3)
    assert (after.cell.dead_letters.assigned, after.left) == ((10, 11, 12), False)
