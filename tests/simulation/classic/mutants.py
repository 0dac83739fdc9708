"""Groups of Kafka's clients with one guard removed, from the tests' side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from penstock.coordinator.cells.cells import CellChanged
from penstock.coordinator.classic.positions import CommittedPosition, CommittedPositions, caught_up, committed
from penstock.gateway.kafka.groups import coordinated_group
from penstock.gateway.kafka.groups.coordinated_group import CoordinatedGroup
from penstock.gateway.kafka.groups.membership.group import Group
from penstock.gateway.kafka.groups.stops import Stops
from penstock.gateway.kafka.groups.topic_positions import TopicPositions
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute


def _over_others(_: Any) -> Callable[..., Any]:
    async def store(self: CoordinatedGroup, group: Group) -> None:
        while True:
            try:
                await self._cell.write(self._stored(group))
            except CellChanged:
                continue
            return

    return store


def _without_members(original: Callable[..., Group]) -> Callable[..., Group]:
    def taken_over(found: Any, **rest: Any) -> Group:
        return original(replace(found, members=()), **rest)

    return taken_over


def _of_no_order(_: Any) -> Callable[..., Any]:
    async def obey(self: CoordinatedGroup, record: Any) -> None:
        self.record = record

    return obey


def _before_it_is_durable(_: Any) -> Callable[..., Any]:
    async def commit(self: TopicPositions, queues: Mapping[int, CommittedPosition]) -> None:
        self._waiting.update(queues)

    return commit


def _though_it_went_on(_: Any) -> Callable[..., Any]:
    async def commit(self: CoordinatedGroup, positions: TopicPositions, queues: Mapping[int, CommittedPosition], _: Any) -> None:
        await self._guarded(positions.commit(queues))

    return commit


def _by_any(_: Any) -> Callable[..., Any]:
    def changed(self: TopicPositions, found: CommittedPositions, taken: Mapping[int, CommittedPosition]) -> CommittedPositions:
        return replace(committed(caught_up(found, self._position), taken), epoch=self._epoch)

    return changed


async def _at_once(_: TopicPositions) -> None:
    """Waits for nothing."""


async def _no_orders(_: CoordinatedGroup) -> list[str]:
    return []


MUTANTS: dict[str, Mutant] = {
    "compared": Mutant(
        guard="a generation ends only at the coordinator that took the group last",
        rule="C2",
        patch=attribute(CoordinatedGroup, "_store", _over_others),
        scenario="groups",
        seeds=(0,),
    ),
    "inherited": Mutant(
        guard="the next coordinator goes on with the members of the cell",
        rule="C3",
        patch=attribute(coordinated_group, "taken_over", _without_members),
        scenario="deaths",
        seeds=(0,),
    ),
    "obeyed": Mutant(
        guard="a reset is carried out at the coordinator's next look",
        rule="C5",
        patch=attribute(CoordinatedGroup, "obey", _of_no_order),
        scenario="resets",
        seeds=(0,),
        calm=False,
    ),
    "durable": Mutant(
        guard="a commit is acknowledged when it is durable",
        rule="C1",
        patch=attribute(TopicPositions, "commit", _before_it_is_durable),
        scenario="groups",
        seeds=(0,),
        calm=False,
    ),
    "epoch": Mutant(
        guard="a former coordinator writes no positions",
        rule="C1",
        patch=attribute(TopicPositions, "_changed", _by_any),
        scenario="slow",
        seeds=(22, 27),
    ),
    "settled": Mutant(
        guard="who asks for positions is told the commits that were accepted before",
        rule="C1",
        patch=attribute(TopicPositions, "settled", lambda _: _at_once),
        scenario="slow",
        seeds=(3, 7, 9),
    ),
    "accepted": Mutant(
        guard="a commit is void once the next generation has begun, though it was accepted before",
        rule="C1",
        patch=attribute(CoordinatedGroup, "commit", _though_it_went_on),
        scenario="slow",
        unmet=True,
    ),
    "heeded": Mutant(
        guard="who takes a group over looks for orders first",
        rule="C5",
        patch=attribute(CoordinatedGroup, "_unheeded", lambda _: _no_orders),
        scenario="resets",
        seeds=(18,),
    ),
    "stops": Mutant(
        guard="a coordinator that was stopped blames nobody for the silence",
        rule="C3",
        patch=attribute(Stops, "count", lambda _: always(0)),
        scenario="stops",
        seeds=(18, 28),
    ),
}
