"""A document over a cell: read, and changed by compare-and-set, again and again on top of what others write.

Documents of one cell agree on its codec. Nothing else is shared: each of them knows the cell as it last read or wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...log.runtime.runtime import Clock
from .cells import CellChanged, Cells, StoredCell

WRITE_S = 10.0
"""How long the table may take to answer before a change is given up."""
LONG_WRITE_S = 30.0
"""The same for processes that can do nothing else before: players of timers, broadcasting members."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decode(Protocol[T_co]):
    """Reads the content of the cell ``where``. Raises `DataDamaged` or `NewerFormatError`."""

    def __call__(self, data: bytes, *, where: str) -> T_co: ...


@dataclass(frozen=True)
class Codec(Generic[T]):
    """A content as bytes, and the inverse."""

    encode: Callable[[T], bytes]
    decode: Decode[T]


class Document(Generic[T]):
    """The content of one cell, as this process knows it; for one task at a time.

    ``absent`` stands for a cell that is not there. All methods that write raise `UnknownOutcome` when the table does not tell the outcome
    of a write within ``write_s``. They raise what the table and the codec raise, too.
    """

    def __init__(self, cells: Cells, clock: Clock, key: str, codec: Codec[T], *, absent: T, write_s: float = WRITE_S) -> None:
        self._cells = cells
        self._clock = clock
        self._codec = codec
        self._absent = absent
        self._write_s = write_s
        self.key = key
        self.stored: StoredCell | None = None
        """The cell as it was last read or written; None: there was none."""
        self.value = absent
        """Its content."""

    async def read(self) -> T:
        """The present content. Sees every write that ended before."""
        self._take(await self._cells.read(self.key))
        return self.value

    async def write(self, value: T, *, deadline_s: float | None = None) -> None:
        """Replace the content that is known with ``value``, by ``deadline_s`` of the monotonic clock.

        Raises `CellChanged` when another's write is there, which is then the content here. This one may have been carried out before it.
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

        ``change`` is called again when another's write came first, perhaps on its own result, which it must then leave unchanged. Nothing
        is written where it changes nothing, except with ``anew``. Raises what ``change`` raises.
        """
        deadline_s = self.deadline_s()
        await self.read()
        return await self.change_known(change, anew=anew, deadline_s=deadline_s)

    async def change_known(self, change: Callable[[T], T], *, anew: bool = False, deadline_s: float | None = None) -> T:
        """The same without reading first: the first try is based on the content that is known."""
        deadline_s = self.deadline_s() if deadline_s is None else deadline_s
        while (after := change(self.value)) != self.value or anew:
            try:
                await self.write(after, deadline_s=deadline_s)
            except CellChanged:
                continue
            break
        return after

    def deadline_s(self) -> float:
        """The deadline of a change that begins now."""
        return self._clock.monotonic_s() + self._write_s

    def _take(self, stored: StoredCell | None) -> None:
        """Go on from this cell."""
        self.value = self._absent if stored is None else self._codec.decode(stored.data, where=self.key)
        self.stored = stored
