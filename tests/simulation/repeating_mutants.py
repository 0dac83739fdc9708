"""Repeated receives with a guard removed, from the tests' side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.consumers.schedule.want import Want
from penstock.coordinator.queues.cell import Tries
from tests.simulation.patches import attribute
from tests.simulation.receiving_mutants import ReceivingMutant


def _unnamed(original: Callable[..., Tries]) -> Callable[..., Tries]:
    def out(self: Want, attempts: int, strikes: int = 0, *, end: int = 0) -> Tries:
        return replace(original(self, attempts, strikes, end=end), receive=None)

    return out


REPEATING_MUTANTS: Mapping[str, ReceivingMutant] = {
    "named": ReceivingMutant(
        guard="the cell names the receive that messages are out to", patch=attribute(Want, "out", _unnamed), seeds=(0,)
    ),
}
