"""The coordinator of one open lake: its table of cells, its groups, and its worker."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.limits import REFUSAL_TIMEOUT, WAIT_MAX, Duration, checked_duration
from ..log.runtime.runtime import Runtime
from ..log.stores.protocol import ObjectStore
from ..log.stores.refusals import Refusals
from .access.registry import AccessRegistry
from .cells.cells import Cells
from .cells.lake_cell import LakeCell
from .registry.groups import GroupRegistry
from .tables import CellTable, open_table
from .tables.objectstore import ObjectStoreTable
from .tables.open import InDynamoDB, InSqlite, InStore, table_place
from .tables.tolerant_table import TolerantTable
from .workers.in_flight import ReceivedInFlight
from .workers.lease import LEASE_ON_STORE_S, LEASE_S
from .workers.watch import LeaseWatch
from .workers.worker import Worker

_NEAR = ("memory://", "file://")


class Coordination:
    """One open lake's coordination, idle before use.

    ``lake`` is the lake's URL, or None for a table inside the lake. ``label`` is the worker's name for people.
    """

    def __init__(
        self,
        table: CellTable,
        runtime: Runtime,
        *,
        lake: str | None = None,
        lease_s: float = LEASE_S,
        label: str = "",
        refusal_timeout: Duration = REFUSAL_TIMEOUT,
    ) -> None:
        self.refusals = Refusals(
            table.url, runtime.clock, checked_duration("refusal_timeout", refusal_timeout, operation="open", most=WAIT_MAX)
        )
        # Cells in the lake's store are refused by that.
        self.table = table if isinstance(table, ObjectStoreTable) else TolerantTable(table, self.refusals)
        self.cells = Cells(self.table, runtime)
        self._lake = LakeCell(self.cells, runtime, lake)
        self.groups = GroupRegistry(self.cells, runtime, self._lake)
        self.access = AccessRegistry(self.cells, runtime, self._lake)
        self.worker = Worker(self.cells, runtime, lease_s=lease_s, label=label)
        self.in_flight = ReceivedInFlight(self.worker, runtime.clock)
        self.watch = LeaseWatch(self.cells, runtime)

    async def claim(self) -> None:
        """Check, before the first write, that the table is this lake's. Raises `TableMismatch`."""
        await self._lake.claim()

    async def close(self) -> None:
        try:
            await self.worker.close()
        finally:
            await self.table.close()


def check_coordination(url: str | None, store: ObjectStore) -> None:
    """Raise `InvalidArgument` unless ``url`` can name a table for the lake in ``store``."""
    table_place(url, store.url)


def open_coordination(
    url: str | None,
    *,
    store: ObjectStore,
    runtime: Runtime,
    options: Mapping[str, str] | None = None,
    label: str = "",
    refusal_timeout: Duration = REFUSAL_TIMEOUT,
) -> Coordination:
    """The coordination of the lake in ``store``, in the table of `open_table`. Raises as it does.

    A lease is 5 s long, or 15 s where every heartbeat is a request to a remote object store.
    """
    place = table_place(url, store.url)
    shared = url is not None and isinstance(place, InSqlite | InDynamoDB)
    remote = isinstance(place, InStore) and not store.url.startswith(_NEAR)
    return Coordination(
        open_table(url, store=store, runtime=runtime, options=options),
        runtime,
        lake=store.url if shared else None,
        lease_s=LEASE_ON_STORE_S if remote else LEASE_S,
        label=label,
        refusal_timeout=refusal_timeout,
    )
