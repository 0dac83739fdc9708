"""The agreement of all processes on one coordination table: two would both hand out everything.

The lake has a record that names its table (`TableRecord`), made by the first process that writes to a table. And a table outside of the lake has a
cell that names its lake, as two lakes in one table would mix up their groups. The write id of that cell is the table's own id.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Callable
from urllib.parse import urlsplit

from ...log.errors import PermissionDenied, is_never_allowed
from ...log.format.stored_json import StoredForm, parse_stored
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import ObjectStore
from ..tables import CellTable, ObjectStoreTable, TableMismatch
from .cells import Cells
from .document import Codec, Document
from .keys import LAKE, TABLE
from .table_record import IN_LAKE, OwnTable, TableIdentity, TableRecord, decode_record, encode_record, mismatch

log = logging.getLogger("penstock.coordinator")

PROOF_S = 20.0
"""The time for which a reading of the record proves that no move began: who moves waits longer (docs/0004)."""
_ABSENCE_S = 60.0
"""The time between two looks, of a process that only reads, for a record that was not there."""


class _Form(StoredForm, frozen=True):
    lake: str


def _encode(lake: str | None) -> bytes:
    return json.dumps({"lake": lake}).encode()


def _decode(data: bytes, *, where: str) -> str | None:
    return parse_stored(data, _Form, what="the name of a lake", where=where).lake


LAKE_CODEC = Codec[str | None](_encode, _decode)
RECORD_CODEC = Codec[TableRecord | None](encode_record, decode_record)


def table_record(store: ObjectStore, runtime: Runtime, table: CellTable | None = None) -> Document[TableRecord | None]:
    """The record of the lake in ``store``; ``table``: the lake's own store as a table, if it is one already."""
    own = table if isinstance(table, ObjectStoreTable) else ObjectStoreTable(store, runtime=runtime)
    return Document(Cells(own, runtime), runtime.clock, TABLE, RECORD_CODEC, absent=None)


class TableAgreement:
    """One process's agreement on a table. ``lake`` is the lake's URL; ``shared``: the table could be another lake's.

    Without a ``record`` only the table's own cell is compared, and without ``shared`` that is not either.
    """

    def __init__(
        self,
        table: CellTable,
        runtime: Runtime,
        *,
        lake: str,
        own: OwnTable,
        record: Document[TableRecord | None] | None = None,
        shared: bool = True,
        read_only: bool = False,
    ) -> None:
        self.agreed = False
        """Whether nothing needs to be compared any more."""
        self.claimed = False
        """Whether the table may be written to."""
        self._own = own
        self._lake = lake
        self._shared = shared
        self._read_only = read_only
        self._clock = runtime.clock
        self._name = Document(Cells(table, runtime), runtime.clock, LAKE, LAKE_CODEC, absent=None)
        self._record = record
        self._id: str | None = IN_LAKE if own.in_lake else None
        self._seen_s = -math.inf
        self._proved_s = -math.inf
        """When the last reading was sent that found the record without a move."""
        self._void: set[str] = set()
        """Moves that were given up, or are done."""
        self._refusal: PermissionDenied | None = None
        """Why there is no record for this process; told once it was let read a cell."""
        self._lock = asyncio.Lock()

    async def check(self, *, found: bool) -> None:
        """Check, after a cell was looked for (``found``), that the table is the lake's. Raises `TableMismatch` and `CoordinationMismatch`."""
        async with self._lock:
            if self.agreed:
                return
            late = self._clock.monotonic_s() - self._seen_s > _ABSENCE_S
            if late:
                await self._look()
            # The check comes after the read: a process that writes has claimed the table for its lake before.
            if found or late:
                await self._read_name()
            self._compare()
            self.agreed = self._id is not None and (self._record is None or self._record.value is not None)
            if self._refusal is not None:
                self._tell(self._refusal)

    async def claim(self) -> None:
        """Check before the first write, and record the table where none is recorded. Raises as `check`."""
        async with self._lock:
            if self.claimed:
                return
            if not self.agreed or not self._is_proved():
                await self._affirm()
            if self._id is None and self._own.lasting:
                mine = lake_name(self._lake)
                self._compare_lake(await self._name.change(lambda lake: mine if lake is None else lake))
                self._take_id()
                await self._stay()
            self.claimed = True
            self.agreed = self._refusal is None

    async def confirm(self) -> None:
        """Check again, after a cell was made, unless a reading still proves that no move can have missed that cell."""
        async with self._lock:
            if self._record is not None and not self._is_proved():
                await self._affirm()

    async def thaw(self, move: str) -> None:
        """Check before a cell is believed that a move has copied, or filled."""
        if move not in self._void:
            async with self._lock:
                await self._look()
                self._compare()
                if self._record is None or self._record.value is None or not self._record.value.is_moving(move):
                    self._void.add(move)

    async def stay(self, move: str) -> None:
        """Give up a move before a cell is changed that it has copied."""
        if move not in self._void:
            async with self._lock:
                await self._affirm()
            self._void.add(move)

    async def _affirm(self) -> None:
        await self._look()
        if self._record is not None and self._record.value is None:
            self._forget_id()
        await self._read_name()
        self._compare()
        if self._id is not None:
            await self._stay()

    def _is_proved(self) -> bool:
        return self._clock.monotonic_s() - self._proved_s <= PROOF_S

    async def _look(self) -> None:
        sent_s = self._seen_s = self._clock.monotonic_s()
        if self._record is None:
            return
        try:
            found = await self._record.read()
        except PermissionDenied as error:
            self._go_without(error)
        else:
            self._proved_s = sent_s if found is not None and found.move is None else -math.inf

    async def _stay(self) -> None:
        """Record the table where none is, and give up a move away from it."""
        record, own_id = self._record, self._id
        if record is None or self._read_only or not self._own.lasting:
            return
        assert own_id is not None, "it was made"
        mine = TableRecord(table=TableIdentity(id=own_id, url=self._own.url, name=self._own.name), since_ms=self._clock.wall_ms())
        before, sent_s = record.value, self._clock.monotonic_s()
        try:
            await record.change_known(_settled(mine))
        except PermissionDenied as error:
            if before is not None:
                raise
            self._go_without(error)
        else:
            self._compare()
            if record.value != before:
                self._proved_s = sent_s

    def _go_without(self, error: PermissionDenied) -> None:
        if not is_never_allowed(error):
            raise error
        self._record, self._refusal = None, error

    def _tell(self, refusal: PermissionDenied) -> None:
        # Policies of before this record do not allow it. They must not end what they let work.
        self._refusal = None
        log.warning(
            "this process cannot tell whether %s is the coordination table of %s: %s. Let it read and write the object "
            "coordination/%s (penstock infra policy)",
            self._own.url,
            self._lake,
            refusal,
            TABLE,
        )

    async def _read_name(self) -> None:
        if self._id is None and self._own.lasting:
            self._compare_lake(await self._name.read())
            self._take_id()

    def _forget_id(self) -> None:
        """Where nothing is recorded, lake and table may be others by the same names."""
        if self._id is not None and not self._own.in_lake:
            self._id, self.claimed = None, False

    def _take_id(self) -> None:
        if self._name.stored is not None:
            self._id = self._name.stored.write_id

    def _compare(self) -> None:
        if self._record is not None and self._record.value is not None:
            error = mismatch(self._record.value, self._own, self._id, lake=self._lake)
            if error is not None:
                raise error

    def _compare_lake(self, owner: str | None) -> None:
        if self._shared and owner is not None and owner != lake_name(self._lake):
            raise TableMismatch(
                "the coordination table is another lake's",
                operation="coordinate",
                object=self._own.url,
                expected=lake_name(self._lake),
                observed=owner,
                hint="give each lake a prefix or a file of its own (dynamodb://table/prefix); if this is that lake, and was moved: "
                "penstock coordination adopt",
            )


def _settled(mine: TableRecord) -> Callable[[TableRecord | None], TableRecord | None]:
    def settled(found: TableRecord | None) -> TableRecord | None:
        if found is None:
            return mine
        return found.stayed() if found.table.id == mine.table.id else found

    return settled


def lake_name(url: str) -> str:
    """The URL without its opener's options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
