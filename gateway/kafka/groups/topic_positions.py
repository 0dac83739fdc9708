"""A group's positions on one topic at its coordinator. Commits that come during a write, or before the next one is due, share it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from ....coordinator.cells.cells import Cells
from ....coordinator.cells.document import Document
from ....coordinator.cells.keys import positions_key
from ....coordinator.classic.positions import (
    POSITIONS_CELL,
    CommittedPosition,
    CommittedPositions,
    caught_up,
    committed,
    has_room,
)
from ....coordinator.groups.record import Position
from ....log.runtime.runtime import Clock
from ..wire.errors import ErrorCode, KafkaRefusal


class CoordinationLost(KafkaRefusal):
    """Another gateway coordinates the group."""

    def __init__(self, where: str) -> None:
        super().__init__(ErrorCode.NOT_COORDINATOR, f"another gateway coordinates the group and has written its positions: {where}")


class TopicPositions:
    """The positions on one topic. Their cell is written with the coordinator's epoch first, after which no earlier coordinator can write it."""

    def __init__(
        self, cells: Cells, clock: Clock, *, group: str, topic: str, position: Position, epoch: int, gather_s: float = 0.0
    ) -> None:
        """``gather_s``: the time from one write to the next, if nobody is in a hurry."""
        self._clock = clock
        self._gather_s = gather_s
        self._written_s = float("-inf")
        self._hurried = asyncio.Event()
        self._cell = Document(cells, clock, positions_key(group, topic), POSITIONS_CELL, absent=CommittedPositions())
        self._where = f"{group}, {topic}"
        self._position = position
        self._epoch = epoch
        self._lock = asyncio.Lock()
        self._waiting: dict[int, CommittedPosition] = {}
        self._next: asyncio.Future[None] | None = None
        """The write that is to come, for those who wait for it."""
        self._writing: asyncio.Task[None] | None = None

    @property
    def position(self) -> Position:
        return self._position

    @property
    def queues(self) -> Mapping[int, CommittedPosition]:
        """The committed positions."""
        return self._cell.value.queues

    async def open(self) -> None:
        """Read them, and keep earlier coordinators out. Raises `CoordinationLost`, and what the table raises."""
        async with self._lock:
            await self._cell.read()
            await self._cell.change_known(lambda found: self._changed(found, {}))

    async def obey(self, position: Position) -> None:
        """Carry out the resets in the group's record. Raises as `open`."""
        async with self._lock:
            self._position = position
            if self._next is not None:  # they were made before
                self._next.set_exception(KafkaRefusal(ErrorCode.UNKNOWN_MEMBER_ID, f"the positions of {self._where} were reset"))
                self._next.exception()  # perhaps nobody waits any more
                self._next, self._waiting = None, {}
            await self._cell.change_known(lambda found: self._changed(found, {}))

    def extend(self, position: Position) -> None:
        """Know the same place in the record, perhaps of more queues."""
        self._position = position

    async def commit(self, queues: Mapping[int, CommittedPosition], *, hurries: bool = True) -> None:
        """Return when they are durable. Raises as `open`, and `KafkaRefusal` where the cell has no room for their texts."""
        if not has_room(committed(self._cell.value, {**self._waiting, **queues})):
            raise KafkaRefusal(
                ErrorCode.OFFSET_METADATA_TOO_LARGE, f"the positions of {self._where} have no room for such long texts"
            )
        self._waiting.update(queues)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        if hurries:
            self.hurry()
        ours = self._next
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        await asyncio.shield(ours)

    def hurry(self) -> None:
        """Wait no longer for what may come."""
        if self._next is not None:
            self._hurried.set()

    async def settled(self) -> None:
        """Return when all commits that were accepted before are durable, or have failed. Whoever begins then misses none of them."""
        self.hurry()
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def delete(self, queues: set[int]) -> None:
        """Forget positions. Raises as `open`."""
        async with self._lock:
            await self._cell.change_known(lambda found: self._without(self._changed(found, {}), queues))

    async def _write(self) -> None:
        try:
            while self._next is not None:
                await self._gather()
                async with self._lock:
                    await self._write_waiting()
        finally:
            self._writing = None

    async def _gather(self) -> None:
        """Wait until the next write is due, or somebody is in a hurry."""
        left_s = self._written_s + self._gather_s - self._clock.monotonic_s()
        if left_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._hurried.wait()

    async def _write_waiting(self) -> None:
        told, taken = self._next, self._waiting
        self._hurried.clear()
        if told is None:
            return  # a reset was carried out meanwhile
        self._next, self._waiting = None, {}
        try:
            await self._cell.change_known(lambda found: self._changed(found, taken))
        except Exception as error:  # noqa: BLE001 - whoever waits has to hear of it
            told.set_exception(error)
            told.exception()  # perhaps nobody waits any more
        else:
            self._written_s = self._clock.monotonic_s()
            told.set_result(None)

    def _changed(self, found: CommittedPositions, taken: Mapping[int, CommittedPosition]) -> CommittedPositions:
        if found.epoch > self._epoch:
            raise CoordinationLost(self._where)
        return replace(committed(caught_up(found, self._position), taken), epoch=self._epoch)

    @staticmethod
    def _without(found: CommittedPositions, queues: set[int]) -> CommittedPositions:
        return replace(found, queues={queue: one for queue, one in found.queues.items() if queue not in queues})
