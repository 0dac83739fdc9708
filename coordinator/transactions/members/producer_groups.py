"""The cells that name the producer groups, and the members of each."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ....log.errors import DataDamaged, LimitExceeded, NewerFormatError
from ....log.runtime.runtime import Runtime
from ...cells.cells import CellChanged, Cells
from ...cells.document import Codec, Document
from ...cells.keys import PRODUCER_GROUPS, producers_key
from ...cells.varints import VarintReader, append_bytes, append_varint
from ...limits import CELL_BYTES_MAX

_FORMAT = 1


class ProducerGroups:
    """The names of the producer groups, and of each one's members: a group is named before its first member, a member before its first
    transaction.
    """

    def __init__(self, cells: Cells, runtime: Runtime) -> None:
        self._cells = cells
        self._clock = runtime.clock

    async def groups(self) -> frozenset[str]:
        return await self._names(PRODUCER_GROUPS).read()

    async def members(self, group: str) -> frozenset[str]:
        return await self._names(producers_key(group)).read()

    async def join(self, group: str, member: str) -> None:
        """Call it before the member's first durable transaction."""
        members = self._names(producers_key(group))
        deadline_s = members.deadline_s()
        await members.read()
        while member not in members.value:
            if not members.value:
                await self._name(group)
            with suppress(CellChanged):
                await members.write(members.value | {member}, deadline_s=deadline_s)

    async def leave(self, group: str, member: str) -> None:
        """Take a member off the list, once its cell is marked as left."""
        await self._names(producers_key(group)).change(lambda members: members - {member})

    async def forget(self, group: str) -> None:
        """Take a group without members off the list, unless a member joins meanwhile.

        The group's empty list is written anew between reading and writing the list of groups. So a joining member wrote before, and that write
        conflicts, or names the group again, and the last write conflicts.
        """
        members, groups = self._names(producers_key(group)), self._names(PRODUCER_GROUPS)
        deadline_s = members.deadline_s()
        if await members.read() or group not in await groups.read():
            return
        with suppress(CellChanged):
            await members.write(members.value, deadline_s=deadline_s)
            await groups.write(groups.value - {group}, deadline_s=deadline_s)

    async def _name(self, group: str) -> None:
        """Name a group by a write even where it is named: a decision to forget it then fails."""
        await self._names(PRODUCER_GROUPS).change(lambda groups: groups | {group}, anew=True)

    def _names(self, key: str) -> Document[frozenset[str]]:
        return Document(self._cells, self._clock, key, Codec(partial(encode_names, where=key), decode_names), absent=frozenset())


def encode_names(names: frozenset[str], *, where: str) -> bytes:
    """Raises `LimitExceeded` for more names than a cell holds."""
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
    """Raises `DataDamaged`, or `NewerFormatError`."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) != _FORMAT:
        raise NewerFormatError(
            "the names were written by a later version of Penstock", object=where, expected=f"format {_FORMAT}", observed=version
        )
    names = frozenset(reader.text() for _ in range(reader.count()))
    if not reader.done:
        raise DataDamaged("there is more behind the names", object=where, observed=f"{len(data)} bytes")
    return names
