"""Decides what the next entry holds, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ..format.fold import (
    FoldedEntry,
    Judge,
    VoidReason,
    bases_of,
    follows,
    is_expired,
    is_of_epoch,
    is_of_generation,
    was_accepted,
)
from ..format.handover import HandOver
from ..format.header import Batch, Epoch, Header, Opening, is_idempotent
from ..format.idempotence import Standing, is_numbered, key_of, standing
from ..format.state import TopicState
from ..limits import ENTRY_INLINE_BYTES_MAX, ENTRY_LINKS_MAX, VALIDITY_ENTRIES
from ..message.few_rows import InlineRows
from .in_flight import PendingAppend


@dataclass(frozen=True, slots=True)
class ComposedEntry:
    """The entry after a state, with nothing that the fold would void."""

    before: TopicState
    folded: FoldedEntry
    """What the fold makes of it on ``before``."""
    inline: Mapping[int, InlineRows]
    """Rows by position of their batch."""
    put_in: Sequence[PendingAppend]
    useless: Sequence[str]

    @property
    def header(self) -> Header:
        return self.folded.header

    @property
    def empty(self) -> bool:
        return not (self.header.actions or self.header.openings or self.header.batches)


@dataclass(frozen=True, slots=True)
class _Accepted:
    """Batches with the first offset of each in its queues."""

    batches: list[Batch] = field(default_factory=list)
    offsets: list[Mapping[int, int]] = field(default_factory=list)

    def offer(self, batch: Batch, judge: Judge) -> bool:
        """Take a batch unless it is void, or the entry has all that it may have."""
        if len(self.batches) >= ENTRY_LINKS_MAX or isinstance(offsets := judge.accept(batch), VoidReason):
            return False
        self.batches.append(batch)
        self.offsets.append(offsets)
        return True


def compose(
    state: TopicState,
    pending: Sequence[PendingAppend],
    waiting: Mapping[str, HandOver],
    *,
    write_id: str,
    now_ms: int,
    combines: bool = False,
    inline_bytes_max: int = ENTRY_INLINE_BYTES_MAX,
) -> ComposedEntry:
    """The entry within the caps: actions, openings, handed-over batches (oldest first), this process's batches."""
    judge = Judge(state, state.entry + 1)
    judge.advance_time(now_ms)
    open_pending = [one for one in pending if not one.done]
    changing = [one for one in open_pending if one.actions]
    opening = [one for one in open_pending if one.opening]
    actions = tuple(action for one in changing for action in one.actions)
    for action in actions:
        judge.act(action)
    openings = _openings(judge, waiting.values(), opening)
    accepted = _Accepted()
    useless = _take_handed(accepted, judge, waiting, state)
    own, inline = _take_own(accepted, judge, open_pending, inline_bytes_max=inline_bytes_max)
    batches = tuple(accepted.batches)
    header = Header(
        entry=state.entry + 1,
        write_id=write_id,
        append_time_ms=now_ms,
        state_digest=state.digest,
        bases=bases_of(state, batches),
        actions=actions,
        openings=tuple(openings),
        batches=batches,
        combines=combines,
    )
    folded = FoldedEntry(judge.state(), header, tuple(openings.values()), tuple(accepted.offsets))
    return ComposedEntry(state, folded, inline, [*changing, *opening, *own], useless)


def _openings(judge: Judge, waiting: Iterable[HandOver], own: Sequence[PendingAppend]) -> dict[Opening, Epoch]:
    openings: dict[Opening, Epoch] = {}
    offered = chain.from_iterable(handed.openings for handed in waiting)
    for opening in chain(offered, (one.opening for one in own if one.opening)):
        if isinstance(epoch := judge.open(opening, len(openings)), Epoch):
            openings[opening] = epoch
    return openings


def _take_handed(accepted: _Accepted, judge: Judge, waiting: Mapping[str, HandOver], state: TopicState) -> list[str]:
    """Take the handed-over batches; the keys of the objects that no later entry can bring."""
    useless: list[str] = []
    for key, handed in waiting.items():
        for batch in handed.batches:
            accepted.offer(batch, judge)
        if not still_waits(handed, state):
            useless.append(key)
    return useless


def _take_own(
    accepted: _Accepted, judge: Judge, pending: Sequence[PendingAppend], *, inline_bytes_max: int
) -> tuple[list[PendingAppend], dict[int, InlineRows]]:
    """Take the appends that fit; they, and the inline rows by position."""
    own: list[PendingAppend] = []
    inline: dict[int, InlineRows] = {}
    inline_bytes = 0
    for one in pending:
        if one.batch is None:
            continue
        position, size = len(accepted.batches), 0 if one.batch.parts else one.size_bytes
        if (inline and inline_bytes + size > inline_bytes_max) or not accepted.offer(one.batch, judge):
            continue
        if not one.batch.parts:
            inline[position] = one.rows
            inline_bytes += size
        own.append(one)
    return own, inline


def still_waits(handed: HandOver, state: TopicState) -> bool:
    """Whether a later entry could bring any of it, as far as the producers' rows show."""
    if state.entry < handed.tail:
        return True  # it was formed on a later state than this one, which therefore cannot judge it
    if is_expired(handed.tail + VALIDITY_ENTRIES, state.entry + 1) or not state.alive:
        return False
    openings = any(
        not was_accepted(opening, state.openings) and is_of_generation(opening.generation, state.generation)
        for opening in handed.openings
    )
    return openings or any(_waits(batch, state) for batch in handed.batches)


def _waits(batch: Batch, state: TopicState) -> bool:
    if not is_of_generation(batch.generation, state.generation) or is_expired(batch.valid_until, state.entry + 1):
        return False
    if is_idempotent(batch):
        # What is missing before it may come with a later entry.
        found = is_numbered(batch) and standing(state.idempotent.get(key_of(batch)), batch)
        return found in {Standing.FOLLOWS, Standing.GAP}
    row = (state.named if batch.named else state.unnamed).get(batch.producer)
    if row is None:
        return not batch.named
    return is_of_epoch(row, batch) and follows(row, batch)
