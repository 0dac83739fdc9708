"""Groups of Kafka's clients as others are seen: a queue is settled up to its committed offset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..cells.cells import StoredCell
from ..cells.keys import classic_key, positions_key
from ..classic.assignments import owners
from ..classic.members import ClassicGroup, decode_members
from ..classic.positions import CommittedPositions, caught_up, decode_positions
from ..groups.record import GroupRecord
from ..queues.cell import QueueCell
from ..queues.offsets import SettledOffsets


def keys_of(group: str, record: GroupRecord) -> list[str]:
    """The keys of all cells of such a group."""
    return [classic_key(group), *(positions_key(group, topic) for topic in record.positions)]


@dataclass(frozen=True, slots=True)
class ClassicLook:
    """One group's cells, as somebody read them."""

    group: str
    members: ClassicGroup
    """The last finished generation. Some of its members may be dead."""
    cells: Mapping[str, StoredCell]

    @staticmethod
    def of(group: str, record: GroupRecord, cells: Mapping[str, StoredCell]) -> ClassicLook:
        """Raises `DataDamaged` or `NewerFormatError`."""
        key = classic_key(group)
        found = decode_members(cells[key].data, where=key) if key in cells else ClassicGroup()
        return ClassicLook(group, found if found.life == record.lives else ClassicGroup(), cells)

    @property
    def member_ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.members.members)

    def queues(self, record: GroupRecord, topic: str) -> dict[int, QueueCell]:
        """The queues that have a position. Of others nobody knows where their consumers begin. Raises as `of`."""
        key = positions_key(self.group, topic)
        stored = decode_positions(self.cells[key].data, where=key) if key in self.cells else CommittedPositions()
        found, owned = caught_up(stored, record.positions[topic]), owners(self.members)
        return {
            queue: QueueCell(
                owner=owned.get((topic, queue), ""),
                epoch=self.members.generation,
                generation=found.generations[queue],
                settled=SettledOffsets(position.offset),
            )
            for queue, position in sorted(found.queues.items())
        }
