"""Messages that wait outside of their queue's cell, with one guard removed."""

from __future__ import annotations

from penstock.consumers.queues.spill_task import SpillTask
from penstock.consumers.schedule.tracked_messages import TrackedMessages
from penstock.coordinator.queues import spills
from penstock.coordinator.queues.cell import QueueCell
from tests.simulation.consumers import spill_patches as patches
from tests.simulation.mutant import Mutant
from tests.simulation.patches import Patch, attribute, everywhere
from tests.simulation.store import SimClient


def _mutant(guard: str, patch: Patch, *, rule: str = "C1", seeds: tuple[int, ...] = (0, 1)) -> Mutant:
    return Mutant(guard=guard, rule=rule, patch=patch, scenario="crowded", seeds=seeds, calm=False)


SPILL_MUTANTS: dict[str, Mutant] = {
    "spill-durable": _mutant("an object is durable before a cell names it", attribute(SimClient, "put", patches.not_waited_for)),
    "spill-kept": _mutant("no object is deleted that a cell names", attribute(SpillTask, "_spill", patches.deleted_at_once)),
    "spill-once": _mutant(
        "rows come back into the cell once", everywhere(spills.with_returned, patches.never_counted(spills.with_returned))
    ),
    "spill-leaves": _mutant(
        "what waits in an object does not wait in the cell, too",
        everywhere(spills.with_spilled, patches.still_in_the_cell(spills.with_spilled)),
    ),
    "spill-named": _mutant(
        "what leaves the cell is named by it in the same write",
        everywhere(spills.with_spilled, patches.not_named(spills.with_spilled)),
    ),
    "spill-history": _mutant(
        "attempts and strikes come back as they were",
        everywhere(spills.nearest, patches.forgetful(spills.nearest)),
        rule="C7",
    ),
    "spill-reset": _mutant(
        "a reset drops what waits", attribute(QueueCell, "reset_to", patches.kept_by_a_reset), rule="C6", seeds=(1, 6)
    ),
    "spill-taken": _mutant("the next owner has them", attribute(QueueCell, "taken_by", patches.left_to_the_dead)),
    "spill-spared": _mutant("retention spares them", attribute(QueueCell, "first_listed", patches.only_in_the_cell)),
    "spill-still": _mutant(
        "what is about to leave the cell is not run", attribute(TrackedMessages, "spill", patches.run_meanwhile)
    ),
}
