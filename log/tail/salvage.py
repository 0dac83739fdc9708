"""Recovers readable entries around damage, whose verdicts no fold gives.

An entry with a whole footer folds exactly. After a wholly lost entry, an entry's batches are proved accepted where the next known offset base of
every queue it touches has moved by exactly its rows. After a repair entries fold exactly again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..errors import DataDamaged, ViewLost
from ..format.entry import FOOTER_KEY, read_header
from ..format.fold import FoldedEntry, VoidReason, fold, is_well_formed, store_time
from ..format.header import Header, Repair, decode_header
from ..format.sealed import read_footer_alone
from ..format.state import TopicState
from ..paths import TopicPaths
from ..stores.protocol import ObjectMissing, ObjectStore
from .damage import entry_numbers, find_resumption
from .entry_rows import RowRange, runs_of
from .view import View, read_floor


@dataclass(frozen=True, slots=True)
class SalvagedEntry:
    """An entry with at least a readable footer."""

    header: Header
    data: bytes
    rows_readable: bool


async def fold_known(view: View, store: ObjectStore, paths: TopicPaths, known: int, *, expect_many: bool = False) -> None:
    """Fold on up to entry ``known``: an entry missing before it is damage, not the log's end.

    Around damage, the view may end up beyond. ``expect_many`` fetches later entries too. Raises as `View.step`.
    """
    await view.catch_up(until=known, expect_many=expect_many)
    while (number := view.state.entry + 1) <= known:
        where = paths.entry(number)
        if (floor := await read_floor(store, paths)) >= number:
            raise ViewLost("the log was trimmed past this view", object=paths.log, expected=f"floor < {number}", observed=floor)
        damage = DataDamaged("an entry in mid-log is missing", object=where, expected=f"entries up to {known}")
        resumption = await find_resumption(store, paths, number, damage)
        view.state, view.skipped = resumption.state, view.skipped or resumption.skipped
        if view.on_jump:
            view.on_jump(view.state)
        await view.catch_up(until=known)


async def read_remains(store: ObjectStore, paths: TopicPaths, number: int) -> SalvagedEntry | None:
    where = paths.entry(number)
    try:
        data = (await store.get(where)).data
    except ObjectMissing:
        return None
    try:
        try:
            remains = SalvagedEntry(read_header(data, where=where, number=number), data, rows_readable=True)
        except DataDamaged:
            footer = read_footer_alone(data, where=where)
            remains = SalvagedEntry(decode_header(footer[FOOTER_KEY], where=where), data, rows_readable=False)
    except (DataDamaged, KeyError):
        return None
    return remains if remains.header.entry == number else None


async def salvage(store: ObjectStore, paths: TopicPaths, before: TopicState, after: TopicState) -> list[tuple[FoldedEntry, bytes]]:
    """The entries between two states whose rows are certain, in order. Batches with damaged rows have no offsets, as if void."""
    numbers = [number for number in await entry_numbers(store, paths, after=before.entry) if number <= after.entry]
    found = {number: remains for number in numbers if (remains := await read_remains(store, paths, number)) is not None}
    return [(_readable_part(one, found[one.number]), found[one.number].data) for one in _known_folds(before, after, found)]


def lost_between(before: TopicState, after: TopicState, salvaged: Iterable[FoldedEntry]) -> tuple[tuple[int, int, int], ...]:
    """(queue, first offset, exclusive limit) of rows given out between two states and in no salvaged entry."""
    runs: dict[int, list[RowRange]] = {}
    for folded in salvaged:
        for run in runs_of(folded):
            runs.setdefault(run.queue, []).append(run)
    lost: list[tuple[int, int, int]] = []
    for queue, end in enumerate(after.next_offsets):
        at = before.next_offsets[queue] if queue < before.queues and after.incarnation == before.incarnation else 0
        for run in runs.get(queue, ()):
            if run.first_offset > at:
                lost.append((queue, at, run.first_offset))
            at = run.first_offset + run.count
        if end > at:
            lost.append((queue, at, end))
    return tuple(lost)


def exact_folds(state: TopicState, found: Mapping[int, SalvagedEntry]) -> Iterator[FoldedEntry]:
    """Fold as far as footers reach, and on from every later repair."""
    for number, remains in sorted(found.items()):
        if number == state.entry + 1 or _is_repair(remains.header):
            try:
                folded = fold(state, remains.header)
            except DataDamaged:
                continue
            yield folded
            state = folded.state


def _is_repair(header: Header) -> bool:
    return any(isinstance(action, Repair) for action in header.actions)


def _known_folds(before: TopicState, after: TopicState, found: Mapping[int, SalvagedEntry]) -> Iterator[FoldedEntry]:
    """The entries that fold exactly, and those whose batches were all accepted, by later bases."""
    exact = {folded.number: folded for folded in exact_folds(before, found)}
    headers = [remains.header for _, remains in sorted(found.items())]
    state = before
    for position, header in enumerate(headers):
        if header.entry in exact:
            state = exact[header.entry].state
            yield exact[header.entry]
            continue
        time_ms = max(state.store_time_ms, min(store_time(state.store_time_ms, header.append_time_ms), after.store_time_ms))
        state = replace(state, entry=header.entry, store_time_ms=time_ms)
        if header.batches and all_accepted(header, headers[position + 1 :], after.next_offsets):
            yield FoldedEntry(state, header, (), tuple(_offsets_in_order(header)))


def all_accepted(header: Header, following: Sequence[Header], ends: Sequence[int]) -> bool:
    """Whether every queue of ``header`` has moved by all its rows until its next known base."""
    for queue, base in header.bases.items():
        total = sum(batch.rows.get(queue, 0) for batch in header.batches)
        known = next((h.bases[queue] for h in following if queue in h.bases), ends[queue] if queue < len(ends) else -1)
        if known != base + total:
            return False
    return all(is_well_formed(batch) and all(queue in header.bases for queue in batch.rows) for batch in header.batches)


def _offsets_in_order(header: Header) -> Iterator[Mapping[int, int]]:
    following = dict(header.bases)
    for batch in header.batches:
        yield {queue: following[queue] for queue in batch.rows}
        for queue, count in batch.rows.items():
            following[queue] += count


def _readable_part(folded: FoldedEntry, remains: SalvagedEntry) -> FoldedEntry:
    if remains.rows_readable:
        return folded
    kept = tuple(
        verdict if batch.parts else VoidReason.MALFORMED
        for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True)
    )
    return replace(folded, verdicts=kept)
