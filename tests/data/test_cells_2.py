"""Cells that name receives are read as they were written, and a receive is found by the attempt id and the holder that it was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.coordinator.queues.cell import DeadLetters, QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.receives import OutstandingMessages, attempt_hash, holder_hash, outstanding

CELLS = json.loads((Path(__file__).parent / "cells-2.json").read_text())
ORDERS = ("ORDERLY", "CONCURRENT")
DUE_MS = 1_750_003_603_909
"""When the first receive is due; the others are some milliseconds later."""


def offsets(out: OutstandingMessages) -> list[int]:
    return sorted([*out.alone, *(marker.head for marker in out.lanes.values())])


@pytest.fixture(params=ORDERS)
def stored(request: pytest.FixtureRequest) -> tuple[QueueCell, str]:
    """The cell, and the group's secret."""
    one = CELLS[request.param]
    return decode_cell(bytes.fromhex(one["cell"]), where="cells-2.json"), one["secret"]


@pytest.mark.parametrize("order", ORDERS)
def test_they_are_written_as_they_were(order: str) -> None:
    data = bytes.fromhex(CELLS[order]["cell"])
    assert data[0] == 2
    assert encode_cell(decode_cell(data, where="cells-2.json")) == data


def test_what_is_out_is_found_by_its_receive(stored: tuple[QueueCell, str]) -> None:
    cell, secret = stored
    attempt, client, another = attempt_hash("attempt", secret), holder_hash("client", secret), holder_hash("another", secret)
    assert offsets(outstanding(cell, lambda one: one.attempt == attempt, DUE_MS - 1)) == [1, 2, 3]
    assert offsets(outstanding(cell, lambda one: one.holder == client, DUE_MS - 1)) == [1, 2, 3]
    assert offsets(outstanding(cell, lambda one: one.holder == another, DUE_MS - 1)) == [cell.settled.floor - 2]
    assert offsets(outstanding(cell, lambda one: True, DUE_MS - 1)) == [1, 2, 3, cell.settled.floor - 2]
    assert not outstanding(cell, lambda one: True, DUE_MS + 1_000)


def test_of_a_lane_the_end_of_its_receive_is_known() -> None:
    cell = decode_cell(bytes.fromhex(CELLS["ORDERLY"]["cell"]), where="cells-2.json")
    ends = {marker.head: marker.tries.receive and marker.tries.receive.end for marker in cell.markers.values()}
    assert ends == {1: 2, 2: 3, 3: 4, 5: 6, 6: None}


def test_what_was_given_up_waits_with_its_attempts(stored: tuple[QueueCell, str]) -> None:
    assert stored[0].dead_letters == DeadLetters(1, (0,), refused=((0, 1),))
