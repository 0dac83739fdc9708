"""The coordination table of a lake, for operators: which one is recorded, and which one a process would use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ...log.errors import CallError, InvalidArgument
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import ObjectStore
from ..cells.agreement import LAKE_CODEC, lake_name, table_record
from ..cells.cells import Cells
from ..cells.document import Document
from ..cells.keys import LAKE
from ..cells.table_record import IN_LAKE, OwnTable, TableIdentity, TableRecord, mismatch
from ..coordination import is_shared, own_table
from ..tables import CellTable, CoordinationMismatch, TableMismatch, open_table
from ..tables.open import table_place
from ..workers.liveness import WorkerState, watch_workers, workers


class CoordinationInUse(CallError):
    """Processes are at work with the coordination table, which must be left alone for this."""

    kind = "coordination_in_use"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """A lake's table as it is recorded, and the one that was named."""

    recorded: TableRecord | None
    """None: no process of this release has written to a table."""
    named: OwnTable
    named_id: str | None
    """None: nothing was written there."""
    problem: CoordinationMismatch | None


class NamedTable:
    """A table that is named, opened for operators: nothing is compared before it is used.

    ``shared``: it could be another lake's than ``lake``.
    """

    def __init__(self, table: CellTable, own: OwnTable, runtime: Runtime, *, lake: str, shared: bool) -> None:
        self.cells = Cells(table, runtime)
        self.own = own
        self._table = table
        self._name = Document(self.cells, runtime.clock, LAKE, LAKE_CODEC, absent=None)
        self._lake = lake_name(lake)
        self._shared = shared

    @classmethod
    def open(cls, url: str | None, *, store: ObjectStore, runtime: Runtime) -> Self:
        """A table of `open_table`. Raises as it does, and `InvalidArgument` for one in memory."""
        place = table_place(url, store.url)
        table = open_table(url, store=store, runtime=runtime)
        own = own_table(place, table)
        if not own.lasting:
            raise InvalidArgument(
                "a table in the memory of one process is no lake's",
                operation="coordination",
                object=own.url,
                expected="sqlite:///path, dynamodb://… or store",
            )
        return cls(table, own, runtime, lake=store.url, shared=is_shared(url, place))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._table.close()

    async def id(self) -> str | None:
        """The table's own id. None: it has none yet."""
        if self.own.in_lake:
            return IN_LAKE
        await self._name.read()
        return None if self._name.stored is None else self._name.stored.write_id

    async def of_lake(self) -> str | None:
        """The other lake that the table belongs to."""
        owner = None if self.own.in_lake else await self._name.read()
        return owner if self._shared and owner != self._lake else None

    async def claimed(self, former_lake: str | None = None) -> TableIdentity:
        """The table as one of this lake, with an id, taken over from ``former_lake``. Raises `TableMismatch` for another lake's."""
        other = await self.of_lake()
        if other not in (None, former_lake):
            raise TableMismatch(
                "the coordination table is another lake's",
                operation="coordination",
                object=self.own.url,
                expected=self._lake,
                observed=other,
                hint=f"if it was this lake before it was moved: --former-lake {other}",
            )
        if not self.own.in_lake:
            await self._name.change(lambda lake: self._lake if lake is None or self._shared else lake)
        named = await self.id()
        assert named is not None, "it was written"
        return TableIdentity(id=named, url=self.own.url, name=self.own.name)

    async def check_unused(self, runtime: Runtime) -> None:
        """Watch the workers until each is known to be dead. Raises `CoordinationInUse` for the first that lives."""
        names = await workers(self.cells)
        found = await watch_workers(self.cells, runtime, names, enough=lambda one: one.state is WorkerState.LIVES)
        for one in found:
            if one.may_live:
                raise CoordinationInUse(
                    "a process is at work with the coordination table",
                    operation="coordination",
                    object=self.own.url,
                    expected="no worker that lives",
                    observed=f"{one.worker} ({one.heartbeat.label or 'unnamed'})" if one.heartbeat is not None else one.worker,
                    hint="stop all processes that use the lake, and call again; penstock workers lists them",
                )


async def table_status(url: str | None, *, store: ObjectStore, runtime: Runtime) -> TableStatus:
    """Writes nothing. Raises `TableMismatch` for another lake's table, and what stores and tables raise."""
    record = await table_record(store, runtime).read()
    async with NamedTable.open(url, store=store, runtime=runtime) as named:
        named_id = await named.id()
        problem = None if record is None else mismatch(record, named.own, named_id, lake=store.url)
        return TableStatus(recorded=record, named=named.own, named_id=named_id, problem=problem)


async def adopt_table(
    url: str | None, *, store: ObjectStore, runtime: Runtime, former_lake: str | None = None
) -> tuple[TableRecord, bool]:
    """Record a table as the lake's, as it is, whichever was recorded. Returns the record, and whether it changed.

    No process may be at work with the lake: those with the recorded table are not seen here. A table without cells makes all groups begin anew.
    Raises `CoordinationInUse`, `TableMismatch` for another lake's (unless that is ``former_lake``), and `InvalidArgument`.
    """
    document = table_record(store, runtime)
    before = await document.read()
    async with NamedTable.open(url, store=store, runtime=runtime) as named:
        if before is not None and before.move is None and await named.of_lake() is None:
            problem = mismatch(before, named.own, await named.id(), lake=store.url)
            if problem is None:
                return before, False
        await named.check_unused(runtime)
        table = await named.claimed(former_lake)
        former = None if before is None or before.table.id == table.id else before.table
        after = TableRecord(table=table, since_ms=runtime.clock.wall_ms(), former=former)
        await document.change(lambda _: after)
        return after, True
