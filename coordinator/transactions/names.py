"""Which producer groups there are, and which members of one may have transactions: sets of names in cells of their own."""

from __future__ import annotations

from collections.abc import Callable

from ...log.errors import DataDamaged, LimitExceeded, NewerFormatError
from ...log.runtime import Runtime
from ..cells import CellChanged, Cells
from ..keys import PRODUCER_GROUPS, producers_key
from ..limits import CELL_BYTES_MAX
from ..varints import VarintReader, append_bytes, append_varint

WRITE_S = 10.0
"""After so long without an answer the table is given up."""
_FORMAT = 1


class ProducerGroups:
    """Found without listing anything: a group is named before its first member is, and a member before its first transaction."""

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock

    async def groups(self) -> frozenset[str]:
        """All that ever had a transaction."""
        return await self._read(PRODUCER_GROUPS)

    async def members(self, group: str) -> frozenset[str]:
        """Those that may have transactions."""
        return await self._read(producers_key(group))

    async def join(self, group: str, member: str) -> None:
        """Name a member, and its group: before its first transaction is durable."""
        if group not in await self.groups():
            await self._change(PRODUCER_GROUPS, lambda names: names | {group})
        await self._change(producers_key(group), lambda names: names | {member})

    async def leave(self, group: str, member: str) -> None:
        """Take a member off the list; its cell says before that nothing begins in it any more."""
        await self._change(producers_key(group), lambda names: names - {member})

    async def _read(self, key: str) -> frozenset[str]:
        stored = await self._cells.read(key)
        return frozenset() if stored is None else decode_names(stored.data, where=key)

    async def _change(self, key: str, change: Callable[[frozenset[str]], frozenset[str]]) -> None:
        deadline_s = self._clock.monotonic_s() + WRITE_S
        stored = await self._cells.read(key)
        while True:
            before = frozenset[str]() if stored is None else decode_names(stored.data, where=key)
            after = change(before)
            if after == before:
                return
            try:
                await self._cells.write(key, encode_names(after, where=key), on=stored, deadline_s=deadline_s)
            except CellChanged as changed:
                stored = changed.stored
            else:
                return


def encode_names(names: frozenset[str], *, where: str) -> bytes:
    """A set of names as bytes. Raises `LimitExceeded` for more than a cell takes."""
    data = bytearray([_FORMAT])
    append_varint(data, len(names))
    for name in sorted(names):
        append_bytes(data, name.encode())
    if len(data) > CELL_BYTES_MAX:
        raise LimitExceeded(
            "too many producer groups, or members of one",
            operation="begin a transaction",
            object=where,
            expected=f"names of at most {CELL_BYTES_MAX} bytes together",
            observed=f"{len(names)} names",
            hint="members that have gone leave when somebody maintains the lake: run penstock maintain",
        )
    return bytes(data)


def decode_names(data: bytes, *, where: str) -> frozenset[str]:
    """What `encode_names` gave. Raises `DataDamaged`, or `NewerFormatError`."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) != _FORMAT:
        raise NewerFormatError(
            "the names were written by a later version of Penstock", object=where, expected=f"format {_FORMAT}", observed=version
        )
    names = frozenset(reader.text() for _ in range(reader.count()))
    if not reader.done:
        raise DataDamaged("there is more behind the names", object=where, observed=f"{len(data)} bytes")
    return names
