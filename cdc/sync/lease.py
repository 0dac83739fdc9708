"""The lease of a sync's driver. Only its holder writes the sync's record."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from ...coordinator.cells.cells import CellChanged
from ...coordinator.cells.document import Codec, Document
from ...coordinator.cells.keys import role_key
from ...coordinator.coordination import Coordination
from ...coordinator.lakes import OpenLake
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.codec import decode_cell
from ...coordinator.queues.keeper import OwnershipLost, QueueKeeper, take
from ...coordinator.workers.lease import MARGIN
from ...coordinator.workers.worker import LeaseLost, SessionMember
from ...log.errors import CallError, DataDamaged, NewerFormatError
from ...log.runtime.runtime import Runtime
from .record import RECORD_BYTES_MAX, RECORD_CODEC, SHARE_TABLES, SyncRecord, record_key, size_key, sync_group

_LOOK_S = 0.3

log = logging.getLogger("penstock.cdc")


class SyncInUse(CallError):
    """Another driver runs this sync."""

    kind = "sync_in_use"


def _decode_halved(data: bytes, *, where: str) -> int:
    return int(data) if data.isdigit() and len(data) <= 2 else 0


_HALVED = Codec(lambda halved: b"%d" % halved, _decode_halved)


class SyncLease:
    """The lease of one sync. All methods except `check` are for the lake's event loop."""

    def __init__(self, coordination: Coordination, runtime: Runtime, topic: str, name: str) -> None:
        self._coordination = coordination
        self._cells = coordination.cells
        self._clock = runtime.clock
        self._role = role_key(topic, sync_group(name))
        self._member: SessionMember | None = None
        self._keeper: QueueKeeper | None = None
        self._record = Document(self._cells, self._clock, record_key(topic, name), RECORD_CODEC, absent=None)
        self._halved = Document(self._cells, self._clock, size_key(topic, name), _HALVED, absent=0)
        self._warned_full = False
        self.after_death = False

    async def take(self, *, patience_s: float | None = None) -> None:
        """Become the holder. Raises `SyncInUse` after ``patience_s``, by default the time until a dead holder is known as such."""
        await self._coordination.claim()
        worker = self._coordination.worker
        self._member = member = await worker.join("")
        worker.started(1)  # keeps the lease short: a sync's driver is to be replaced soon
        try:
            self._keeper = await self._taken(member, worker.lease_s * (2 + MARGIN) if patience_s is None else patience_s)
        except BaseException:
            worker.finished(1)
            await member.leave()
            raise
        try:
            await self._record.read()
            await self._halved.read()
        except BaseException:
            await self.give_up()
            raise

    async def _taken(self, member: SessionMember, patience_s: float) -> QueueKeeper:
        watch = self._coordination.watch
        until_s = self._clock.monotonic_s() + patience_s
        while True:
            found = await self._cells.read(self._role)
            owner = "" if found is None else decode_cell(found.data, where=self._role).owner
            if owner:
                await watch.look([owner])
            if not owner or (watch.is_dead(owner) and await watch.fence(owner)):
                keeper = await take(self._cells, member, self._role, begin=QueueCell(), found=found)
                if keeper is not None:
                    self.after_death = bool(owner)
                    return keeper
                continue
            if self._clock.monotonic_s() >= until_s:
                raise SyncInUse(
                    "the sync is running elsewhere",
                    operation="sync",
                    object=self._role,
                    observed=f"held by {owner}",
                    hint="stop that one, or give this one a name and a folder of its own; who was killed is replaced within seconds",
                )
            await asyncio.sleep(_LOOK_S)

    def check(self) -> None:
        """Raise `LeaseLost` unless this is the holder for certain. Callable from any thread; does no I/O."""
        member, keeper = self._member, self._keeper
        if member is None or keeper is None or keeper.ended.is_set() or not member.may_start():
            raise LeaseLost(
                "the sync's lease was lost",
                operation="sync",
                object=self._role,
                observed=None if member is None else member.error,
                hint="another driver may go on with it; what was committed stands",
            )

    @property
    def epoch(self) -> int:
        assert self._keeper is not None, "take comes first"
        return self._keeper.epoch

    @property
    def record(self) -> SyncRecord | None:
        return self._record.value

    async def save(self, record: SyncRecord) -> None:
        """Write the record. Raises `LeaseLost` or `OwnershipLost`, and `LimitExceeded` for too many tables."""
        deadline_s = self._record.deadline_s()
        while self._record.value != record:
            if self._keeper is None or self._keeper.ended.is_set():
                raise LeaseLost("the sync's lease was lost", operation="sync", object=self._record.key)
            try:
                await self._record.write(record, deadline_s=deadline_s)
            except CellChanged:
                pass
            except (DataDamaged, NewerFormatError):
                self._record.stored, self._record.value = await self._cells.read(self._record.key), None
            else:
                break
            await self._keeper.look()  # a write of the former holder may have come late; then this one stands above it
        self._warn_of_fullness()

    def _warn_of_fullness(self) -> None:
        size_bytes = 0 if self._record.stored is None else len(self._record.stored.data)
        if size_bytes > RECORD_BYTES_MAX * 3 // 4 and not self._warned_full:
            self._warned_full = True
            log.warning(
                "the record of the sync (%s) is nearly full, with %d of %d bytes, and the sync ends once it is: %s",
                self._record.key,
                size_bytes,
                RECORD_BYTES_MAX,
                SHARE_TABLES,
            )

    @property
    def halved(self) -> int:
        """The last driver's number of halvings; 0 for unreadable text."""
        return self._halved.value

    async def save_halved(self, halved: int) -> None:
        if halved != self._halved.value:
            with suppress(CellChanged):  # another driver wrote it, and holds the sync by now
                await self._halved.write(halved)

    async def give_up(self) -> None:
        keeper, member = self._keeper, self._member
        self._keeper = self._member = None
        if keeper is not None and not keeper.ended.is_set():
            try:
                await keeper.release()
            except OwnershipLost:
                keeper.lose()
        if member is not None:
            self._coordination.worker.finished(1)
            await member.leave()


async def take_lease(opened: OpenLake, topic: str, name: str, *, patience_s: float | None) -> SyncLease:
    """Become the holder of a sync; see `SyncLease.take`."""
    lease = SyncLease(await opened.coordination(), opened.lake.runtime, topic, name)
    await lease.take(patience_s=patience_s)
    return lease
