"""Consumer groups of topics that grow, with one guard removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.consumers.queues.processor import QueueProcessor
from penstock.consumers.schedule.blocked_groups import BlockedGroups
from penstock.coordinator.groups.record import GroupRecord
from penstock.coordinator.rebalance.ownership import Ownership
from penstock.coordinator.registry import former_work as former
from penstock.coordinator.registry.former_work import NOTHING, FormerWork
from tests.simulation.mutant import Mutant
from tests.simulation.patches import Patch, always, attribute, everywhere

_Work = Callable[..., FormerWork]


def _mutant(guard: str, patch: Patch, *, rule: str = "C15", seeds: tuple[int, ...] = (0, 1)) -> Mutant:
    return Mutant(guard=guard, rule=rule, patch=patch, scenario="grows", seeds=seeds, calm=False)


def _up_to_the_last_but_one(original: _Work) -> _Work:
    return lambda queues, position, cells: original([(queue, max(0, mark - 1)) for queue, mark in queues], position, cells)


def _one_alone(original: _Work) -> _Work:
    return lambda queues, position, cells: original(list(queues)[:1], position, cells)


def _none_blocked(original: _Work) -> _Work:
    return lambda queues, position, cells: FormerWork(original(queues, position, cells).queue)


def _of_any_generation(original: _Work) -> _Work:
    def work(queues: Any, position: Any, cells: Any) -> FormerWork:
        generations = tuple(
            cells[queue].generation if queue in cells else generation for queue, generation in enumerate(position.generations)
        )
        return original(queues, replace(position, generations=generations), cells)

    return work


def _without_tracked(original: _Work) -> _Work:
    def work(queues: Any, position: Any, cells: Any) -> FormerWork:
        return original(queues, position, {queue: cell.with_settled(cell.granted) for queue, cell in cells.items()})

    return work


def _known_once(original: Callable[[Any], FormerWork]) -> Callable[[Any], FormerWork]:
    """A reset leaves what was known before."""
    return lambda self: self._left if hasattr(self, "_left") else original(self)


def _former(make: Callable[[_Work], _Work]) -> Patch:
    return everywhere(former.former_work, make(former.former_work))


GROWTH_MUTANTS: dict[str, Mutant] = {
    "growth-gate": _mutant("a new queue waits for its former one", _former(lambda _: always(NOTHING))),
    "growth-mark": _mutant("it waits up to the mark", _former(_up_to_the_last_but_one), seeds=(4, 7)),
    "growth-chain": _mutant("it waits for the former queue of its former one, too", _former(_one_alone)),
    "growth-in-flight": _mutant("what is in flight in a former queue is waited for", _former(_without_tracked)),
    "growth-blocked": _mutant("a message group that is blocked in a former queue waits by name", _former(_none_blocked)),
    "growth-passed-by": _mutant(
        "its fresh messages are passed by", attribute(BlockedGroups, "passes", lambda _: lambda self, key: key in self)
    ),
    "growth-generation": _mutant(
        "a former queue that is still to be reset is waited for", _former(_of_any_generation), seeds=(0, 4)
    ),
    "growth-anew": _mutant(
        "a reset closes a new queue again", attribute(QueueProcessor, "_unknown_left", _known_once), seeds=(0, 4)
    ),
    "growth-positions": _mutant(
        "the group has positions for new queues",
        attribute(GroupRecord, "extended", lambda _: lambda self, *_: self),
        rule="C10",
    ),
    "growth-followed": _mutant(
        "members take new queues", attribute(Ownership, "consume", lambda _: always(None)), rule="C10", seeds=(8, 11)
    ),
}
