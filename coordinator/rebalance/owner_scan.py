"""The owners of others' queues, and the times to read their cells."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..cells.cells import StoredCell
from .balance import Queue
from .member_context import MemberContext
from .owned_queues import OwnedQueues

_POLL_S = 0.3
_POLL_LATER_S = 0.7
"""The pause between reads of contested queues' cells, after the first ones."""
_POLL_SOON_S = 10.0
_SCAN_S = 0.7
_LEASES_BETWEEN_SCANS = 6
"""The longest time between scans of all others' cells, in leases."""


@dataclass(frozen=True, slots=True)
class ScanPacing:
    """The times at which a member below its share reads others' cells."""

    scan_s: float = -math.inf
    """The time of the next scan."""
    pause_s: float = _SCAN_S
    contested: frozenset[Queue] = frozenset()
    contested_since_s: float = -math.inf
    poll_s: float = math.inf
    """The next reading of contested queues."""

    @property
    def due_s(self) -> float:
        return min(self.poll_s, self.scan_s)

    def wanted(self, queues: Sequence[Queue], now_s: float) -> Sequence[Queue]:
        if now_s >= self.scan_s:
            return queues
        return [queue for queue in queues if queue in self.contested] if now_s >= self.poll_s else ()

    def scanned(self, now_s: float, lease_s: float) -> ScanPacing:
        if now_s < self.scan_s:
            return self
        return replace(self, scan_s=now_s + self.pause_s, pause_s=min(2 * self.pause_s, _LEASES_BETWEEN_SCANS * lease_s))

    def changed(self, at_s: float) -> ScanPacing:
        """The next scan is at ``at_s`` at the latest."""
        return replace(self, pause_s=_SCAN_S, scan_s=min(self.scan_s, at_s))

    def contesting(self, contested: frozenset[Queue], now_s: float) -> ScanPacing:
        since_s = self.contested_since_s if contested == self.contested else now_s
        pause_s = _POLL_S if now_s - since_s < _POLL_SOON_S else _POLL_LATER_S
        poll_s = now_s + pause_s if contested else math.inf
        return replace(self, contested=contested, contested_since_s=since_s, poll_s=poll_s)

    def expected(self, now_s: float) -> frozenset[Queue]:
        return self.contested if now_s - self.contested_since_s < _POLL_SOON_S else frozenset()


class OwnerScan:
    """Reads the cells of queues that others own."""

    def __init__(self, context: MemberContext, owned: OwnedQueues) -> None:
        self._context = context
        self._owned = owned
        self.owners: dict[Queue, str] = {}
        """Owners by queue, as last read; empty: dead."""
        self.pacing = ScanPacing()

    async def read(self, queues: Sequence[Queue], now_s: float) -> dict[Queue, StoredCell | None]:
        wanted = [queue for queue in self.pacing.wanted(queues, now_s) if queue not in self._owned.keepers]
        self.pacing = self.pacing.scanned(now_s, self._context.lease_s)
        if not wanted:
            return {}
        stored = await asyncio.gather(*(self._owned.read(queue) for queue in wanted))
        found = dict(zip(wanted, stored, strict=True))
        owners = {queue: self._owner_in(queue, cell) for queue, cell in found.items()}
        # Their names were read before this look, so that an owner that is not listed now is over.
        free = {"", *await self._context.find_over(sorted({owner for owner in owners.values() if owner}))}
        for queue, owner in owners.items():
            now = "" if owner in free else owner
            if self.owners.get(queue, "") != now:
                self.pacing = self.pacing.changed(now_s + _SCAN_S)
            self.owners[queue] = now
        return found

    def _owner_in(self, queue: Queue, stored: StoredCell | None) -> str:
        owner = self._owned.owner_in(queue, stored)
        return "" if owner == self._context.member.id else owner
