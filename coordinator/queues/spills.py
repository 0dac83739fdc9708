"""Moves waiting messages out of a queue's full cell, and back. Pure.

An immutable object is written before the cell names it (`Spill`). Its rows return by due time, and the cell counts them, so every crash leaves each
message in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ...log.errors import InternalError
from .cell import MessageState, QueueCell, Spill, Tries

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WaitingRows:
    """Waiting messages by due time, as columns."""

    due_ms: Column
    offset: Column
    attempts: Column
    strikes: Column

    @staticmethod
    def of(waiting: Mapping[int, Tries]) -> WaitingRows:
        numbers = [(tries.due_ms, offset, tries.attempts, tries.strikes) for offset, tries in waiting.items()]
        return WaitingRows(*np.asarray(sorted(numbers), np.int64).reshape(-1, 4).T)

    @staticmethod
    def merged(parts: Iterable[WaitingRows]) -> WaitingRows:
        table = np.concatenate([part.table for part in parts], axis=1)
        return WaitingRows(*table[:, np.lexsort((table[1], table[0]))])

    @property
    def table(self) -> npt.NDArray[np.int64]:
        """A line for each column."""
        return np.stack([self.due_ms, self.offset, self.attempts, self.strikes])

    def __len__(self) -> int:
        return len(self.due_ms)

    @property
    def are_sound(self) -> bool:
        """Whether no number is negative, rows are by due time, and offsets are distinct."""
        by_due = np.all(np.diff(self.due_ms) >= 0)
        return bool(self.table.min(initial=0) >= 0 and by_due and len(np.unique(self.offset)) == len(self))

    def part(self, start: int, limit: int | None = None) -> WaitingRows:
        return WaitingRows(*self.table[:, start:limit])

    def count_due(self, until_ms: int) -> int:
        return int(np.searchsorted(self.due_ms, until_ms, "right"))

    def tries(self) -> dict[int, Tries]:
        return {
            offset: Tries(MessageState.WAITING, attempts, strikes, due_ms)
            for due_ms, offset, attempts, strikes in zip(*self.table.tolist(), strict=True)
        }

    def spill(self, id: str, taken: int = 0) -> Spill:
        """``taken`` rows came back before."""
        return Spill(id, taken, len(self) - taken, int(self.due_ms[taken]), int(self.offset[taken:].min()))


@dataclass(frozen=True, slots=True)
class SpillReturn:
    """Rows of one object that return together."""

    before: Spill
    after: Spill | None
    """None: these were its last rows."""
    waiting: Mapping[int, Tries]


def with_spilled(cell: QueueCell, spill: Spill, waiting: Mapping[int, Tries], generation: int) -> QueueCell:
    """The messages are in a written object. The same cell after a reset."""
    if cell.generation != generation:
        return cell
    if any(cell.tries.get(offset) != tries for offset, tries in waiting.items()):
        raise InternalError("what was to wait outside of the cell is not what waits in it", object=spill.id, observed=len(waiting))
    left = {offset: tries for offset, tries in cell.tries.items() if offset not in waiting}
    return replace(cell, tries=left, spills=(*cell.spills, spill))


def with_returned(cell: QueueCell, returning: Sequence[SpillReturn], generation: int) -> QueueCell:
    """The same cell after a reset."""
    if cell.generation != generation:
        return cell
    for one in returning:
        spills = _replaced(cell, (one.before,), one.after)
        cell = replace(cell, tries={**cell.tries, **one.waiting}, spills=spills)
    return cell


def with_merged(cell: QueueCell, before: Sequence[Spill], after: Spill, generation: int) -> QueueCell:
    """One object replaces several. The same cell after a reset."""
    return replace(cell, spills=_replaced(cell, before, after)) if cell.generation == generation else cell


def _replaced(cell: QueueCell, before: Sequence[Spill], after: Spill | None) -> tuple[Spill, ...]:
    if not set(before) <= set(cell.spills):
        raise InternalError("the cell names other rows than those that are to leave their object", observed=before)
    left = tuple(spill for spill in cell.spills if spill not in before)
    return left if after is None else (*left, after)


def nearest(found: Sequence[tuple[Spill, WaitingRows]], most: int, until_ms: int) -> list[SpillReturn]:
    """The first rows, due by ``until_ms``, at most ``most``."""
    parts = [rows.part(spill.taken, spill.taken + min(most, rows.count_due(until_ms) - spill.taken)) for spill, rows in found]
    due_ms = np.concatenate([np.empty(0, np.int64), *(part.due_ms for part in parts)])
    of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    counts = np.bincount(of[np.argsort(due_ms, kind="stable")[:most]], minlength=len(parts)).tolist()
    return [
        SpillReturn(spill, rows.spill(spill.id, spill.taken + count) if count < spill.count else None, part.part(0, count).tries())
        for (spill, rows), part, count in zip(found, parts, counts, strict=True)
        if count
    ]


def to_merge(spills: Iterable[Spill], most: int, rows_max: int) -> list[Spill]:
    """The smallest objects, which cost least to merge."""
    chosen: list[Spill] = []
    for spill in sorted(spills, key=lambda one: (one.count, one.id))[:most]:
        if sum(one.count for one in chosen) + spill.count <= rows_max:
            chosen.append(spill)
    return chosen if len(chosen) > 1 else []
