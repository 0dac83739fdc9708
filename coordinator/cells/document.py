"""A document over a cell: read, and changed by compare-and-set on top of others' writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...log.runtime.runtime import Clock
from .cells import CellChanged, Cells, StoredCell

WRITE_S = 10.0
"""The time after which an unanswered change is given up."""
LONG_WRITE_S = 30.0
"""The same for players of timers and broadcasting members, which wait for it."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decode(Protocol[T_co]):
    """Reads the content of the cell ``where``. Raises `DataDamaged` or `NewerFormatError`."""

    def __call__(self, data: bytes, *, where: str) -> T_co: ...


@dataclass(frozen=True)
class Codec(Generic[T]):
    """A content as bytes, and back."""

    encode: Callable[[T], bytes]
    decode: Decode[T]


class Document(Generic[T]):
    """The content of one cell, as this process knows it; for one task at a time.

    ``absent`` stands for a missing cell. All writes raise `UnknownOutcome` when the outcome stays open for ``write_s``, and what table and codec
    raise.
    """

    def __init__(self, cells: Cells, clock: Clock, key: str, codec: Codec[T], *, absent: T, write_s: float = WRITE_S) -> None:
        self._cells = cells
        self._clock = clock
        self._codec = codec
        self._absent = absent
        self._write_s = write_s
        self.key = key
        self.stored: StoredCell | None = None
        self.value = absent

    async def read(self) -> T:
        """Sees every write that ended before."""
        self._take(await self._cells.read(self.key))
        return self.value

    async def write(self, value: T, *, deadline_s: float | None = None) -> None:
        """Replace the known content, by ``deadline_s`` of the monotonic clock.

        Raises `CellChanged` for another's write, then the known content; this write may have been carried out before.
        """
        deadline_s = self.deadline_s() if deadline_s is None else deadline_s
        try:
            stored = await self._cells.write(self.key, self._codec.encode(value), on=self.stored, deadline_s=deadline_s)
        except CellChanged as changed:
            self._take(changed.stored)
            raise
        self.stored, self.value = stored, value

    async def change(self, change: Callable[[T], T], *, anew: bool = False) -> T:
        """Write the result of ``change`` on the present content, and return it.

        After another's write ``change`` is called again, perhaps on its own result, which it must leave unchanged. An unchanged content is written
        only with ``anew``. Raises what ``change`` raises.
        """
        deadline_s = self.deadline_s()
        await self.read()
        return await self.change_known(change, anew=anew, deadline_s=deadline_s)

    async def change_known(self, change: Callable[[T], T], *, anew: bool = False, deadline_s: float | None = None) -> T:
        """`change`, first tried on the known content without reading."""
        deadline_s = self.deadline_s() if deadline_s is None else deadline_s
        while (after := change(self.value)) != self.value or anew:
            try:
                await self.write(after, deadline_s=deadline_s)
            except CellChanged:
                continue
            break
        return after

    def deadline_s(self) -> float:
        return self._clock.monotonic_s() + self._write_s

    def _take(self, stored: StoredCell | None) -> None:
        self.value = self._absent if stored is None else self._codec.decode(stored.data, where=self.key)
        self.stored = stored
