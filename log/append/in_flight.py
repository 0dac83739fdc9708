"""A process's appends on their way into the log, settled by entries, jumps over entries, time and faults.

*Not written* needs a proof: this process has folded every entry that could carry the append, or a row of the same epoch shows it. Everything else is
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..errors import FencedError, NotWritten, PenstockError, RoutingChanged, SequenceError, TopicDeleted, UnknownOutcome
from ..format.fold import FoldedEntry
from ..format.growth import has_only_grown
from ..format.header import Action, Batch, Epoch, Opening, identity_of, is_idempotent
from ..format.idempotence import IdempotentRow, Standing, epoch_of, in_round_of, key_of, standing
from ..format.state import ProducerRow, TopicState
from ..limits import VALIDITY_ENTRIES
from ..message.few_rows import InlineRows

_LISTING_MS = 100
"""The age below which an entry did not pass over a hand-over: its writer may have listed before."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The append is in the log, durably."""

    entry: int
    store_time_ms: int
    offsets: Mapping[int, int] | None
    """The first offset in each of its queues. None after a jump over entries."""


@dataclass(frozen=True, slots=True)
class OpeningResult:
    """The producer's name belongs to this process until another opens it."""

    epoch: Epoch
    last_sequence: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Every record of the idempotent producer's batch was in the log already. This append wrote nothing."""


Outcome: TypeAlias = AppendResult | OpeningResult | Duplicate | PenstockError


@dataclass(eq=False, slots=True)
class PendingAppend:
    """A batch, an opening or a set of actions."""

    deadline_s: float
    """The deadline by the monotonic clock."""
    future: asyncio.Future[Outcome]
    batch: Batch | None = None
    opening: Opening | None = None
    actions: tuple[Action, ...] = ()
    rows: InlineRows | None = None
    """None: staged."""
    size_bytes: int = 0
    handed_tail: int | None = None
    handed_ms: int = 0
    handed_s: float = 0.0
    """The time by the monotonic clock; ``handed_ms`` is by the corrected clock."""
    exposed_until: int = 0
    """The last entry number as which an earlier request may still bring it."""
    passed_over: int = 0
    write_ids: set[str] = field(default_factory=set)

    @property
    def done(self) -> bool:
        return self.future.done()

    def settle(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)

    def valid_from(self, tail: int) -> None:
        """Let the entries after ``tail`` bring it; allowed only when no earlier request can any more."""
        if self.batch is not None:
            self.batch = replace(self.batch, valid_until=tail + VALIDITY_ENTRIES)
        if self.opening is not None:
            self.opening = replace(self.opening, valid_until=tail + VALIDITY_ENTRIES)
        self.handed_tail = None
        self.passed_over = 0

    def take_round(self, state: TopicState) -> None:
        """Number an idempotent producer's batch anew, unless an earlier request may still bring it as it is."""
        if self.batch is None or not is_idempotent(self.batch) or state.entry < self.exposed_until:
            return
        if (row := state.idempotent.get(key_of(self.batch))) is not None:
            self.batch = in_round_of(row, self.batch)

    def follow_growth(self, state: TopicState) -> None:
        """Let an idempotent producer's batch, whose queue its client chose, be of the present routing. No entry may have brought it as it was: now
        none will.
        """
        batch = self.batch
        if batch is None or not is_idempotent(batch) or not has_only_grown(state.growths, batch.generation, state.generation):
            return
        self.batch = replace(batch, generation=state.generation, parts=() if self.rows is not None else batch.parts)
        self.exposed_until = 0
        self.valid_from(state.entry)

    @property
    def valid_until(self) -> int:
        part = self.batch or self.opening
        return part.valid_until if part else 2**63


def before_any(pending: PendingAppend, state: TopicState) -> Outcome | None:
    """The outcome of an append that no entry can have brought and the fold would void.

    An opening may be in the log all the same, by an earlier append that ended as unknown.
    """
    if pending.opening is not None:
        return _gone(pending.opening.generation, state) or as_accepted(pending.opening, state)
    if pending.batch is not None:
        return _hopeless(pending, state)
    return None


def after_fold(pending: PendingAppend, folded: FoldedEntry) -> Outcome | None:
    if pending.actions:
        written = folded.header.write_id in pending.write_ids
        return AppendResult(folded.number, folded.store_time_ms, {}) if written else None
    if pending.opening is not None:
        for opening, epoch in zip(folded.header.openings, folded.epochs, strict=True):
            if is_own(opening, pending.opening) and isinstance(epoch, Epoch):
                return OpeningResult(epoch, folded.state.named[opening.producer].last)
        return _gone(pending.opening.generation, folded.state)
    offsets = folded.accepted.get(identity_of(_batch(pending)))
    if offsets is not None:
        return AppendResult(folded.number, folded.store_time_ms, offsets)
    return _hopeless(pending, folded.state)


def after_jump(pending: PendingAppend, state: TopicState) -> Outcome | None:
    """The outcome after entries were passed over: only what a row of the same epoch proves."""
    if pending.exposed_until == 0:  # the append has not left this process
        return before_any(pending, state)
    if pending.opening is not None and (opened := as_accepted(pending.opening, state)) is not None:
        return opened
    if pending.batch is None:
        return _unknown("the log was trimmed past this process while an entry was on its way")
    batch = pending.batch
    if is_idempotent(batch):
        return _idempotent_after_jump(pending, batch, state)
    row = _row(state, batch)
    if row is not None and proves(row, batch):
        if row.last >= batch.last:
            return AppendResult(row.entry, row.time_ms, None)
        if row.last == batch.previous:
            return _hopeless(pending, state)
    return _unknown("the log was trimmed past this process, and no row of this producer's epoch is left to tell")


def _idempotent_after_jump(pending: PendingAppend, batch: Batch, state: TopicState) -> Outcome | None:
    # In another life of the topic a producer of the same id may have the same numbers.
    row = state.idempotent.get(key_of(batch)) if state.generation == batch.generation else None
    if row is not None:
        match standing(row, batch):
            case Standing.DUPLICATE:
                return AppendResult(row.entry, state.store_time_ms, None)
            case Standing.FOLLOWS:
                return _hopeless(pending, state)
    return _unknown("the log was trimmed past this process, and no row of this producer is left to tell")


def at_deadline(pending: PendingAppend, state: TopicState) -> Outcome:
    if state.entry >= pending.exposed_until:
        return NotWritten(
            "the send did not get into the log in time", operation="append", hint="nothing of it was written; try again"
        )
    return _unknown("the send may still get into the log")


def is_expired(pending: PendingAppend, state: TopicState) -> bool:
    return state.entry >= pending.valid_until


def _batch(pending: PendingAppend) -> Batch:
    assert pending.batch is not None, "a pending append is a batch, an opening or actions"
    return pending.batch


def as_accepted(opening: Opening, state: TopicState) -> OpeningResult | None:
    """The result of an accepted opening. None: not known, or replaced by a later opening."""
    entry = state.openings.get(opening.write_id)
    row = state.named.get(opening.producer)
    if entry is None or row is None or row.epoch is None or row.epoch.entry != entry:
        return None
    # For an entry with several openings the state does not tell which has which position, and no two may have one epoch.
    alone = list(state.openings.values()).count(entry) == 1
    return OpeningResult(row.epoch, row.last) if alone else None


def is_own(accepted: Opening, own: Opening) -> bool:
    return accepted.write_id == own.write_id


def proves(row: ProducerRow, batch: Batch) -> bool:
    """Whether a row is of the batch's epoch, and so proves anything about the batch."""
    return row.epoch == batch.epoch


def _row(state: TopicState, batch: Batch) -> ProducerRow | None:
    return (state.named if batch.named else state.unnamed).get(batch.producer)


def _hopeless(pending: PendingAppend, state: TopicState) -> Outcome | None:
    batch = _batch(pending)
    if (gone := _gone(batch.generation, state)) is not None:
        return gone
    if is_idempotent(batch):
        return _judged_anew(pending, batch, state) or _closed(batch, state)
    return _fenced(batch, state) or _forgotten(batch, state) or _closed(batch, state)


def _judged_anew(pending: PendingAppend, batch: Batch, state: TopicState) -> Outcome | None:
    """The outcome of an idempotent producer's batch that will not follow any more."""
    row = _idempotent_row(pending, state)
    if row is not None and in_round_of(row, batch) is not batch:
        return None  # it is on its way with numbers of another round, which will never count
    match standing(row, batch):
        case Standing.DUPLICATE:
            return Duplicate()
        case Standing.FENCED | Standing.PASSED as found:
            return _refused(found, batch, row)
    return None


def _chain(batch: Batch) -> object:
    return key_of(batch), epoch_of(batch.previous)


def _idempotent_row(pending: PendingAppend, state: TopicState) -> IdempotentRow | None:
    return state.idempotent.get(key_of(_batch(pending)))


def _refused(found: Standing, batch: Batch, row: IdempotentRow | None) -> PenstockError:
    facts = {
        "operation": "append",
        "object": f"producer {batch.producer}, queue {key_of(batch)[1]}",
        "observed": f"epoch {epoch_of(batch.previous)}, {batch.previous}",
    }
    if found is Standing.FENCED:
        assert row is not None, "a row has the later epoch"
        return FencedError(
            "the idempotent producer has begun a later epoch; the send was not written",
            expected=f"epoch {epoch_of(row.last)}",
            **facts,
        )
    return SequenceError(
        "the batch does not follow what the log has of the idempotent producer; it was not written",
        expected="nothing before it" if row is None else f"epoch {epoch_of(row.last)}, {row.last}",
        **facts,
    )


def may_be_filled(pending: PendingAppend, state: TopicState) -> bool:
    """Whether a request that has left may bring a batch, once what is missing before it has come."""
    return state.entry < pending.exposed_until


def _gone(generation: int, state: TopicState) -> PenstockError | None:
    if not state.alive:
        return TopicDeleted("the topic was deleted", operation="append", hint="open it anew if it was created again")
    if has_only_grown(state.growths, generation, state.generation):
        return RoutingChanged(
            "the topic has more queues than when the rows were routed; nothing of them was written",
            operation="append",
            expected=f"routing generation {generation}",
            observed=f"{state.generation}, with {state.queues} queues",
            hint="route them anew, and try again",
        )
    if state.generation != generation:
        return TopicDeleted(
            "the topic is not as it was when it was opened: it was deleted and created again, or a repair of its log voids what was "
            "under way",
            operation="append",
            expected=f"routing generation {generation}",
            observed=state.generation,
            hint="open it anew",
        )
    return None


def _fenced(batch: Batch, state: TopicState) -> PenstockError | None:
    row = _row(state, batch)
    if batch.named and row is not None and row.epoch != batch.epoch:
        return FencedError(
            "a newer instance of this named producer is open; the send was not written",
            operation="append",
            object=batch.producer,
            expected=batch.epoch,
            observed=row.epoch,
            hint="leave the name to the newer instance; or open it anew, which fences that one, and go on from last_sequence",
        )
    return None


def _forgotten(batch: Batch, state: TopicState) -> PenstockError | None:
    if batch.named and batch.producer not in state.named:
        return NotWritten(
            "the producer's name has left the state, as it was not used for long",
            operation="append",
            object=batch.producer,
            hint="nothing of it was written; open the producer anew",
        )
    return None


def _closed(batch: Batch, state: TopicState) -> PenstockError | None:
    if batch.job is not None and batch.job in state.closed_jobs:
        return NotWritten(
            "the staged rows were given up, as nothing linked them for long",
            operation="append",
            object=batch.job,
            hint="nothing of it was written; try again",
        )
    return None


def _unknown(message: str) -> UnknownOutcome:
    return UnknownOutcome(
        message, operation="append", hint="reopen the producer; a named producer's last_sequence says what was written"
    )


class InFlightAppends:
    """The appends whose outcome is not known yet, in order."""

    def __init__(self) -> None:
        self._appends: list[PendingAppend] = []

    def __bool__(self) -> bool:
        return any(not one.done for one in self._appends)

    @property
    def open(self) -> list[PendingAppend]:
        self._appends = [one for one in self._appends if not one.done]
        return list(self._appends)

    def add(self, pending: PendingAppend) -> None:
        self._appends.append(pending)

    def folded(self, folded: FoldedEntry) -> None:
        for pending in self.open:
            pending.take_round(folded.state)
            outcome = after_fold(pending, folded)
            if isinstance(outcome, RoutingChanged):
                pending.follow_growth(folded.state)
                pending.take_round(folded.state)
                outcome = before_any(pending, folded.state)
            if outcome is not None:
                pending.settle(outcome)
            elif pending.handed_tail is not None and folded.header.append_time_ms > pending.handed_ms + _LISTING_MS:
                pending.passed_over += 1
        self._renew_expired(folded.state)

    def jumped(self, state: TopicState) -> None:
        for pending in self.open:
            pending.take_round(state)
            outcome = after_jump(pending, state)
            if outcome is not None:
                pending.settle(outcome)
        self._renew_expired(state)

    def gaps(self, state: TopicState) -> list[PendingAppend]:
        """Idempotent producers' batches before which something is missing that no append of this process can bring."""
        numbered = [(one, one.batch) for one in self.open if one.batch is not None and is_idempotent(one.batch)]
        first: dict[object, int] = {}
        for _, batch in numbered:
            first.setdefault(_chain(batch), batch.previous)
            first[_chain(batch)] = min(first[_chain(batch)], batch.previous)
        return [
            one
            for one, batch in numbered
            if first[_chain(batch)] == batch.previous
            and not may_be_filled(one, state)
            and standing(state.idempotent.get(key_of(batch)), batch) is Standing.GAP
        ]

    def looked(self, waited: Iterable[PendingAppend], state: TopicState) -> None:
        """Call out of order what was waiting when a look at the log's end began, and is still without what is missing before it.

        Before, other processes may have written that.
        """
        waiting = set(map(id, waited))
        while gaps := [one for one in self.gaps(state) if id(one) in waiting]:
            for pending in gaps:
                pending.settle(_refused(Standing.GAP, _batch(pending), _idempotent_row(pending, state)))

    def _renew_expired(self, state: TopicState) -> None:
        for pending in self.open:
            if is_expired(pending, state):
                if pending.batch and pending.rows is not None:
                    pending.batch = replace(pending.batch, parts=())
                pending.valid_from(state.entry)

    def end_overdue(self, now_s: float, state: TopicState) -> None:
        """Settle overdue appends even if the timer is late: their staged rows may be gone."""
        for pending in self.open:
            if now_s >= pending.deadline_s:
                pending.settle(at_deadline(pending, state))

    def end(self, state: TopicState) -> None:
        for pending in self.open:
            pending.settle(at_deadline(pending, state))

    def fail(self, error: PenstockError, state: TopicState) -> None:
        """End all appends after a permanent fault: with the fault itself where nothing can have been written."""
        for pending in self.open:
            if state.entry >= pending.exposed_until:
                pending.settle(error)
            else:
                unknown = UnknownOutcome(
                    "the send may be in the log, and a fault keeps this process from telling",
                    operation="append",
                    observed=str(error),
                    hint="reopen the producer; a named producer's last_sequence says what was written",
                )
                unknown.__cause__ = error
                pending.settle(unknown)


def expose(chosen: Sequence[PendingAppend], until: int) -> Callable[[], None]:
    """Note that a request leaves that may bring these appends as late as entry ``until``.

    Returns a function that withdraws the note once the store has refused the request for good.
    """
    before = [(pending, pending.exposed_until) for pending in chosen]
    for pending in chosen:
        pending.exposed_until = max(pending.exposed_until, until)

    def take_back() -> None:
        for pending, exposed_until in before:
            pending.exposed_until = exposed_until

    return take_back
