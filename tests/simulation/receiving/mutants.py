"""Receipt handles with one guard removed, from the tests' side, as `mutants` does it with the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from penstock.coordinator.queues import invisibility
from penstock.coordinator.queues.cell import Marker, QueueCell, Tries
from penstock.coordinator.queues.invisibility import Acknowledgement
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute


def _never_late(original: Callable[..., Tries]) -> Callable[..., Tries]:
    def check_out(tries: Tries | None, handle: ReceiptHandle, now_ms: int, operation: str) -> Tries:
        return original(tries, handle, -1, operation)

    return check_out


def _of_any_delivery(original: Callable[..., bool]) -> Callable[..., bool]:
    def is_out(tries: Tries, handle: ReceiptHandle) -> bool:
        return original(tries, replace(handle, attempt=tries.attempts))

    return is_out


def _in_any_order(original: Callable[..., Marker | None]) -> Callable[..., Marker | None]:
    def acknowledge(cell: QueueCell, ack: Acknowledgement) -> Marker | None:
        handle = ack.handle
        marker: Any = cell.markers.get(handle.lane) if handle.lane is not None else None
        if marker is not None and marker.head < handle.offset < marker.limit and cell.generation == handle.generation:
            cell = cell.with_marker(handle.lane or 0, marker.from_head(handle.offset, marker.tries.state, marker.tries.due_ms))
        return original(cell, ack)

    return acknowledge


MUTANTS: Mapping[str, Mutant] = {
    "generation": Mutant(
        guard="no handle counts that was given before a reset",
        patch=attribute(invisibility, "_check_generation", lambda _: always(None)),
        scenario="receives",
        seeds=(0,),
    ),
    "expiry": Mutant(
        guard="no handle counts once its time is over, though its owner did not notice yet",
        patch=attribute(invisibility, "_check_out", _never_late),
        scenario="receives",
        seeds=(1,),
    ),
    "delivery": Mutant(
        guard="a handle counts for the delivery that it was given with",
        patch=attribute(invisibility, "_is_out", _of_any_delivery),
        scenario="receives",
        seeds=(0,),
    ),
    "in-order": Mutant(
        guard="messages of a group that were received together are acknowledged in order",
        patch=attribute(invisibility, "_acknowledge", _in_any_order),
        scenario="receives",
        seeds=(0, 1),
    ),
}
