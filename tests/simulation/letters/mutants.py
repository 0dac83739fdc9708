"""Dead letters with one guard removed, from the tests' side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.consumers.dead_letters import copy_writer, writer
from penstock.consumers.dead_letters.copy_writer import CopyWriter
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.coordinator.queues.cell import QueueCell
from tests.simulation.consumers import patches
from tests.simulation.letters.world import Graveyard
from tests.simulation.mutant import Mutant
from tests.simulation.patches import attribute, both


def _forgetful(_: Any) -> Any:
    async def change(self: RedriveCell, change: Callable[[QueueCell], QueueCell]) -> None:
        self._document.value = change(self.cell)

    return change


MUTANTS: dict[str, Mutant] = {
    "sequences": Mutant(
        guard="a letter is written under the name and sequence that it was given",
        patch=both(
            attribute(CopyWriter, "last_sequence", patches.nameless), attribute(CopyWriter, "_rows", patches.without_sequences)
        ),
        scenario="plain",
        seeds=(2,),
    ),
    "name-of-queue": Mutant(
        guard="each queue writes under a name of its own",
        patch=attribute(writer, "name_of", patches.one_name),
        scenario="plain",
        seeds=(2,),
    ),
    "remembered": Mutant(
        guard="a redrive remembers what it gave a sequence before it sends",
        patch=attribute(RedriveCell, "_change", _forgetful),
        scenario="plain",
        seeds=(2,),
    ),
    "unseen": Mutant(
        guard="what a search passed over as it cannot be read now does not count as absent",
        patch=attribute(copy_writer, "not_seen", lambda _: lambda *_: None),
        scenario="veiled",
        seeds=(2,),
    ),
    "given-first": Mutant(
        guard="a sequence is given before anything is written for it",
        patch=attribute(Graveyard, "is_careful", lambda _: False),
        scenario="plain",
        seeds=(2,),
    ),
}
