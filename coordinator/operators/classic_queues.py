"""Groups of Kafka's clients as others are seen: a queue is settled up to its committed offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..cells.cells import Cells, StoredCell
from ..cells.keys import classic_key, group_queues, positions_key
from ..classic.assignments import CONSUMER, assigned_queues, owners
from ..classic.members import ClassicGroup, decode_members
from ..classic.positions import CommittedPositions, caught_up, decode_positions
from ..groups.record import GroupRecord
from ..queues.cell import QueueCell
from ..queues.offsets import SettledOffsets
from .describe import KafkaGroup, KafkaMember


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

    @property
    def described(self) -> KafkaGroup:
        found = self.members
        return KafkaGroup(
            state="Stable" if found.members else "Empty",
            protocol_type=found.protocol_type,
            assignor=found.protocol,
            generation=found.generation,
            coordinator=found.coordinator,
            members=tuple(
                KafkaMember(
                    member_id=one.id,
                    instance_id=one.instance_id,
                    client_id=one.client_id,
                    host=one.client_host.removeprefix("/"),
                    principal=one.principal,
                    queues=_by_topic(assigned_queues(one.assignment)) if found.protocol_type == CONSUMER else {},
                )
                for one in found.members
            ),
        )

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


async def read_classic(cells: Cells, group: str, record: GroupRecord) -> ClassicLook:
    """Raises as `ClassicLook.of`, and what the table raises."""
    return ClassicLook.of(group, record, await cells.read_these(keys_of(group, record), under=group_queues(group)))


def _by_topic(queues: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, queue in sorted(set(queues)):
        found.setdefault(topic, []).append(queue)
    return {topic: tuple(some) for topic, some in found.items()}
