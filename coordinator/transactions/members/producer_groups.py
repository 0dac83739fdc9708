"""Sets of names in separate cells: the producer groups, and the members of each that may have transactions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from ....log.errors import DataDamaged, LimitExceeded, NewerFormatError
from ....log.runtime.runtime import Runtime
from ...cells.cells import CellChanged, Cells, Stored
from ...cells.keys import PRODUCER_GROUPS, producers_key
from ...cells.varints import VarintReader, append_bytes, append_varint
from ...limits import CELL_BYTES_MAX

WRITE_S = 10.0
"""How long the table may take to answer before it is given up."""
_FORMAT = 1


class ProducerGroups:
    """Finds groups and members without listing anything: a group is named before its first member is, and a member before its first
    transaction.
    """

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock

    async def groups(self) -> frozenset[str]:
        """All groups that may have a transaction."""
        return (await self._read(PRODUCER_GROUPS))[0]

    async def members(self, group: str) -> frozenset[str]:
        """The members of a group that may have transactions."""
        return (await self._read(producers_key(group)))[0]

    async def join(self, group: str, member: str) -> None:
        """Name a member, and its group, before its first transaction is durable."""
        key = producers_key(group)
        deadline_s = self._clock.monotonic_s() + WRITE_S
        members, listed = await self._read(key)
        while member not in members:
            if not members:
                # The write is made even where the group is named, as somebody may be about to forget it: this write makes writes
                # decided before it fail.
                await self._change(PRODUCER_GROUPS, lambda groups: groups | {group}, anew=True)
            try:
                await self._cells.write(key, encode_names(members | {member}, where=key), on=listed, deadline_s=deadline_s)
            except CellChanged as changed:
                members, listed = _decoded(changed.stored, key)
            else:
                return

    async def leave(self, group: str, member: str) -> None:
        """Take a member off the list. Its cell says before that nothing begins in it any more."""
        await self._change(producers_key(group), lambda members: members - {member})

    async def forget(self, group: str) -> None:
        """Take a group without members off the list. Nothing is done where a member joins meanwhile.

        The group's empty list is written anew between reading all groups and writing them. A member that joins has either written the
        list before, and then that write conflicts. Or it reads the list after, and then names the group after that reading, which the
        last write conflicts with.
        """
        key = producers_key(group)
        deadline_s = self._clock.monotonic_s() + WRITE_S
        members, listed = await self._read(key)
        if members:
            return
        groups, stored = await self._read(PRODUCER_GROUPS)
        if group not in groups:
            return
        with suppress(CellChanged):
            await self._cells.write(key, encode_names(members, where=key), on=listed, deadline_s=deadline_s)
            without = encode_names(groups - {group}, where=PRODUCER_GROUPS)
            await self._cells.write(PRODUCER_GROUPS, without, on=stored, deadline_s=deadline_s)

    async def _read(self, key: str) -> tuple[frozenset[str], Stored | None]:
        return _decoded(await self._cells.read(key), key)

    async def _change(self, key: str, change: Callable[[frozenset[str]], frozenset[str]], *, anew: bool = False) -> None:
        """Write a changed set of names. ``anew``: write it even if it is unchanged."""
        deadline_s = self._clock.monotonic_s() + WRITE_S
        before, stored = await self._read(key)
        while True:
            after = change(before)
            if after == before and not anew:
                return
            try:
                await self._cells.write(key, encode_names(after, where=key), on=stored, deadline_s=deadline_s)
            except CellChanged as changed:
                before, stored = _decoded(changed.stored, key)
            else:
                return


def _decoded(stored: Stored | None, key: str) -> tuple[frozenset[str], Stored | None]:
    return frozenset() if stored is None else decode_names(stored.data, where=key), stored


def encode_names(names: frozenset[str], *, where: str) -> bytes:
    """A set of names as bytes. Raises `LimitExceeded` if it is larger than a cell."""
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
            hint="members that have gone leave when somebody maintains the lake, and groups that have none: run penstock maintain",
        )
    return bytes(data)


def decode_names(data: bytes, *, where: str) -> frozenset[str]:
    """The inverse of `encode_names`. Raises `DataDamaged`, or `NewerFormatError`."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) != _FORMAT:
        raise NewerFormatError(
            "the names were written by a later version of Penstock", object=where, expected=f"format {_FORMAT}", observed=version
        )
    names = frozenset(reader.text() for _ in range(reader.count()))
    if not reader.done:
        raise DataDamaged("there is more behind the names", object=where, observed=f"{len(data)} bytes")
    return names
