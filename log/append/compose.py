"""Decides what the next entry holds, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ..format.fold import Judge, VoidReason, bases_of, follows, is_expired, is_of_epoch, is_of_generation, was_accepted
from ..format.handover import HandOver
from ..format.header import Action, Batch, Header, Opening, is_idempotent
from ..format.idempotence import Standing, is_numbered, key_of, standing
from ..format.state import TopicState
from ..limits import ENTRY_INLINE_BYTES_MAX, ENTRY_LINKS_MAX, VALIDITY_ENTRIES
from ..message.few_rows import InlineRows
from .in_flight import PendingAppend


@dataclass(frozen=True, slots=True)
class ComposedEntry:
    """The entry after a state, with nothing that the fold would void."""

    header: Header
    inline: Mapping[int, InlineRows]
    """Rows by position of their batch."""
    put_in: Sequence[PendingAppend]
    useless: Sequence[str]

    @property
    def empty(self) -> bool:
        return not (self.header.actions or self.header.openings or self.header.batches)


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
    actions = _actions(judge, changing)
    openings = _openings(judge, waiting.values(), opening)
    handed, useless = _handed_batches(judge, waiting, state)
    own, inline = _own_batches(judge, open_pending, before=len(handed), inline_bytes_max=inline_bytes_max)
    batches = (*handed, *(one.batch for one in own if one.batch is not None))
    header = Header(
        entry=state.entry + 1,
        write_id=write_id,
        append_time_ms=now_ms,
        state_digest=state.digest,
        bases=bases_of(state, batches),
        actions=actions,
        openings=openings,
        batches=batches,
        combines=combines,
    )
    return ComposedEntry(header, inline, [*changing, *opening, *own], useless)


def _actions(judge: Judge, changing: Sequence[PendingAppend]) -> tuple[Action, ...]:
    actions = tuple(action for one in changing for action in one.actions)
    for action in actions:
        judge.act(action)
    return actions


def _openings(judge: Judge, waiting: Iterable[HandOver], own: Sequence[PendingAppend]) -> tuple[Opening, ...]:
    openings: list[Opening] = []
    offered = chain.from_iterable(handed.openings for handed in waiting)
    for opening in chain(offered, (one.opening for one in own if one.opening)):
        if not isinstance(judge.open(opening, len(openings)), VoidReason):
            openings.append(opening)
    return tuple(openings)


def _handed_batches(judge: Judge, waiting: Mapping[str, HandOver], state: TopicState) -> tuple[list[Batch], list[str]]:
    """The accepted batches, and the keys of the objects that no later entry can bring."""
    batches: list[Batch] = []
    useless: list[str] = []
    for key, handed in waiting.items():
        for batch in handed.batches:
            if len(batches) < ENTRY_LINKS_MAX and not isinstance(judge.accept(batch), VoidReason):
                batches.append(batch)
        if not still_waits(handed, state):
            useless.append(key)
    return batches, useless


def _own_batches(
    judge: Judge, pending: Sequence[PendingAppend], *, before: int, inline_bytes_max: int
) -> tuple[list[PendingAppend], dict[int, InlineRows]]:
    """The appends that fit behind ``before`` batches, and the inline rows by position."""
    own: list[PendingAppend] = []
    inline: dict[int, InlineRows] = {}
    inline_bytes = 0
    for one in pending:
        position = before + len(own)
        if one.batch is None or position >= ENTRY_LINKS_MAX:
            continue
        size = 0 if one.batch.parts else one.size_bytes
        if inline and inline_bytes + size > inline_bytes_max:
            continue
        if isinstance(judge.accept(one.batch), VoidReason):
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
