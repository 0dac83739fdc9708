"""The coordinator of one open lake: its table of cells, its groups, and its worker."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.limits import REFUSAL_TIMEOUT, WAIT_MAX, Duration, checked_duration
from ..log.runtime.runtime import Runtime
from ..log.stores.protocol import ObjectStore
from ..log.stores.refusals import Refusals
from .access.registry import AccessRegistry
from .cells.agreement import TableAgreement, table_record
from .cells.cells import Cells
from .cells.table_record import OwnTable
from .registry.groups import GroupRegistry
from .tables import CellTable, open_table
from .tables.objectstore import ObjectStoreTable
from .tables.open import InDynamoDB, InMemory, InStore, Place, table_place
from .tables.tolerant_table import TolerantTable
from .workers.in_flight import ReceivedInFlight
from .workers.lease import LEASE_ON_STORE_S, LEASE_S
from .workers.watch import LeaseWatch
from .workers.worker import Worker

_NEAR = ("memory://", "file://")


class Coordination:
    """One open lake's coordination, idle before use.

    ``agreement`` says whether the table is the lake's. ``label`` is the worker's name for people.
    """

    def __init__(
        self,
        table: CellTable,
        runtime: Runtime,
        *,
        agreement: TableAgreement | None = None,
        lease_s: float = LEASE_S,
        label: str = "",
        refusal_timeout: Duration = REFUSAL_TIMEOUT,
    ) -> None:
        self.refusals = Refusals(
            table.url, runtime.clock, checked_duration("refusal_timeout", refusal_timeout, operation="open", most=WAIT_MAX)
        )
        # Cells in the lake's store are refused by that.
        self.table = table if isinstance(table, ObjectStoreTable) else TolerantTable(table, self.refusals)
        self.cells = Cells(self.table, runtime, agreement=agreement)
        self._agreement = agreement
        self.groups = GroupRegistry(self.cells, runtime)
        self.access = AccessRegistry(self.cells, runtime)
        self.worker = Worker(self.cells, runtime, lease_s=lease_s, label=label)
        self.in_flight = ReceivedInFlight(self.worker, runtime.clock)
        self.watch = LeaseWatch(self.cells, runtime)

    async def claim(self) -> None:
        """Check, before the first write, that the table is this lake's. Raises `TableMismatch` and `CoordinationMismatch`."""
        if self._agreement is not None:
            await self._agreement.claim()

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
    read_only: bool = False,
) -> Coordination:
    """The coordination of the lake in ``store``, in the table of `open_table`. Raises as it does.

    A lease is 5 s long, or 15 s where every heartbeat is a request to a remote object store. The first use of a cell asks the lake which table is
    its own, and raises `CoordinationMismatch` for another; the first write records the table, unless ``read_only``.
    """
    place = table_place(url, store.url)
    remote = isinstance(place, InStore) and not store.url.startswith(_NEAR)
    table = open_table(url, store=store, runtime=runtime, options=options)
    return Coordination(
        table,
        runtime,
        agreement=TableAgreement(
            table,
            runtime,
            lake=store.url,
            own=own_table(place, table),
            record=table_record(store, runtime, table),
            shared=is_shared(url, place),
            read_only=read_only,
        ),
        lease_s=LEASE_ON_STORE_S if remote else LEASE_S,
        label=label,
        refusal_timeout=refusal_timeout,
    )


def is_shared(url: str | None, place: Place) -> bool:
    """Whether another lake could name the table."""
    return url is not None and not isinstance(place, InStore | InMemory)


def own_table(place: Place, table: CellTable) -> OwnTable:
    """What the lake's record says of a table. A service outside of the lake that gives its tables names of their own says so here."""
    in_lake = isinstance(place, InStore)
    return OwnTable(
        url="store" if in_lake else table.url,
        in_lake=in_lake,
        lasting=not isinstance(place, InMemory),
        name=f"dynamodb:{place.table}/{place.prefix}" if isinstance(place, InDynamoDB) else None,
    )
