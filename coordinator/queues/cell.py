"""The cell of one queue in one consumer group: its owner, and the state of every message. Pure.

An offset is in one of four places. *Fresh*: never seen. *Granted*: in flight for the first time. *Settled*: done, by a handler or as a dead letter.
*Listed*: tracked individually (`Tries`, or a row of a `Spill`), or behind its message group's marker. A listed offset counts as settled for the
floor, so that no slow or failing message holds it.

The values are structs, as a write makes some ten of them: dataclasses take twenty to a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ...log.errors import InternalError
from .offsets import OffsetSet, SettledOffsets

K = TypeVar("K")
V = TypeVar("V")

ACKS_KEPT = 16
"""The acknowledging writes that are remembered."""

_NONE: Mapping[Any, Any] = MappingProxyType({})


class MessageState(IntEnum):
    """The state of a tracked message, or of a blocked message group's head. The numbers are stored."""

    WAITING = 0
    """The message failed, and will run again."""
    RUNNING = 1
    """The message is in flight in the owner."""
    OUT = 2
    """Handed out by ``receive`` until due, whatever the owner."""
    SUSPECT = 3
    """The message was in flight in a worker that died."""
    PARKED = 4
    """The message used up its attempts: its group stands still until an operator acts."""


class Receive(Struct, frozen=True, gc=False):
    """The receive to which messages are out (`receives.py`)."""

    attempt: int = 0
    """The hash of the attempt id, or 0."""
    holder: int = 0
    """The hash of the holder's name, or 0."""
    end: int = 0
    """ORDERLY: the offset behind its last message of the lane."""


class Tries(Struct, frozen=True, gc=False, cache_hash=True):
    """The history of a message that did not go straight through."""

    state: MessageState
    attempts: int = 1
    """The deliveries, the present one included."""
    strikes: int = 0
    """The attempts that failed by the message's own fault."""
    due_ms: int = 0
    """WAITING: when it may run again. OUT: when its handle expires."""
    company: int = 0
    """RUNNING or SUSPECT: the most messages of the process in flight with it; 1: alone, 0: no limit."""
    receive: Receive | None = None
    """OUT: the receive, if named."""


class Marker(Struct, frozen=True, gc=False, cache_hash=True):
    """A blocked message group, whose messages from ``head`` on are listed, except settled ones."""

    head: int
    limit: int
    """The offset below which the group's messages were delivered ``tries.attempts`` times; RUNNING or OUT: in flight, in order."""
    tries: Tries
    """The strikes are the head's."""

    def from_head(self, head: int, state: MessageState = MessageState.WAITING, due_ms: int = 0) -> Marker:
        """The marker further on, without strikes. Messages delivered with the old head keep attempts and receive."""
        if head >= self.limit and state is MessageState.WAITING and not due_ms:  # as of most: each was out alone
            return Marker(head, head, _CAUGHT_UP)
        attempts = self.tries.attempts if head < self.limit else 0
        receive = self.tries.receive if state is MessageState.OUT else None
        return Marker(head, max(self.limit, head), Tries(state, attempts, 0, due_ms, receive=receive))


_CAUGHT_UP = Tries(MessageState.WAITING, 0)
"""The tries of a marker behind all that was delivered."""


class DeadLetters(Struct, frozen=True):
    """Messages to be written to the dead-letter queue, in order. A sequence is never given twice."""

    next_sequence: int = 0
    assigned: tuple[int, ...] = ()
    """The offsets without a durable dead letter, in order; the last has sequence ``next_sequence - 1``."""
    former: int = 0
    """The number of first offsets that are of a former life of topic or group."""
    lost: int = 0
    """The sequences without a dead letter for ever."""
    refused: tuple[tuple[int, int], ...] = ()
    """The (offset, attempts) that receivers gave up. Other attempts are known to the owner alone."""
    kept: tuple[tuple[int, int], ...] = ()
    """The (offset, sequence) that a redrive passed over, ascending, before ``assigned``."""

    @property
    def own(self) -> tuple[int, ...]:
        return self.assigned[self.former :]

    def sequences(self) -> list[tuple[int, int]]:
        """The (offset, sequence) without a durable dead letter."""
        first = self.next_sequence - len(self.assigned)
        return [*self.kept, *((offset, first + place) for place, offset in enumerate(self.assigned))]

    def only(self, pairs: Iterable[tuple[int, int]], *, next_sequence: int) -> DeadLetters:
        left = sorted(pairs, key=lambda pair: pair[1])
        count = 0
        while count < len(left) and left[-1 - count][1] == next_sequence - 1 - count:
            count += 1
        gap = len(left) - count
        return DeadLetters(next_sequence, tuple(offset for offset, _ in left[gap:]), kept=tuple(left[:gap]))

    def given_to(self, offsets: Sequence[int]) -> DeadLetters:
        return replace(self, next_sequence=self.next_sequence + len(offsets), assigned=(*self.assigned, *offsets))

    def with_refused(self, offset: int, attempts: int) -> DeadLetters:
        return replace(self.given_to((offset,)), refused=(*self.refused, (offset, attempts)))

    def left(self, assigned: tuple[int, ...], former: int, *, next_sequence: int | None = None) -> DeadLetters:
        own = set(assigned[former:])
        return replace(
            self,
            next_sequence=self.next_sequence if next_sequence is None else next_sequence,
            assigned=assigned,
            former=former,
            refused=tuple(one for one in self.refused if one[0] in own),
        )

    def without_written(self, sequence: int, *, lost: int = 0) -> DeadLetters:
        """The dead letters after this sequence; ``lost`` of those before were never written."""
        gone = max(0, len(self.assigned) - max(0, self.next_sequence - 1 - sequence))
        return replace(self.left(self.assigned[gone:], max(0, self.former - gone)), lost=self.lost + (lost if gone else 0))

    def without_own(self) -> DeadLetters:
        return self.left(self.assigned, len(self.assigned))


class Spill(Struct, frozen=True):
    """Waiting messages in an immutable object (`spills.py`), by due time. The first return first."""

    id: str
    """The id of the object: 32 hexadecimal digits."""
    taken: int
    count: int
    next_due_ms: int
    first_offset: int
    """The lowest of the rows left."""


class LogWitness(Struct, frozen=True):
    """An owner's knowledge at its write. A log or record restored to an older state contradicts it."""

    entry: int
    digest: int
    """64 bits of the digest of the log's state after that entry."""
    group: int
    """64 bits of a hash of the group's secret."""


class QueueCell(Struct, frozen=True, kw_only=True):
    """A consumer group's state of one queue."""

    generation: int = 0
    epoch: int = 0
    """Raised by every take, which refuses an earlier owner's late writes."""
    owner: str = ""
    """The member that may grant, or empty."""
    step: int = 0
    """The owner's writes in this epoch, by which it recognises its own below another's."""
    commands: int = 0
    """The last operator's command carried out here."""
    settled: SettledOffsets = field(default_factory=SettledOffsets)
    """Settled and listed offsets."""
    granted: OffsetSet = field(default_factory=OffsetSet)
    tries: Mapping[int, Tries] = field(default_factory=lambda: _NONE)
    markers: Mapping[int, Marker] = field(default_factory=lambda: _NONE)
    """Keyed by the message group's 64-bit hash."""
    spills: tuple[Spill, ...] = ()
    """Waiting messages for which the cell has no room."""
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    transactions: frozenset[str] = frozenset()
    """Transactions committed by settling messages here, until their rows note that (docs/0014)."""

    seen: LogWitness | None = None
    """The last writer's; None before the first write in this generation, and from earlier versions."""

    acks: tuple[int, ...] = ()
    """The ids of the last acknowledging writes, newest last, by which a writer without an answer recognises its own."""
    ack_writes: int = 0

    # --- Owners -----------------------------------------------------------------------------------------------------------------

    def taken_by(self, worker: str) -> QueueCell:
        """Messages in flight in the old owner become suspects."""
        in_flight = self.in_flight
        suspects = {
            offset: _suspected(Tries(MessageState.RUNNING), in_flight)
            for first, limit in self.granted.ranges()
            for offset in range(first, limit)
        }
        return replace(
            self,
            owner=worker,
            epoch=self.epoch + 1,
            step=0,
            settled=self.settled.with_all(self.granted),
            granted=OffsetSet(),
            tries=suspects | {offset: _suspected(tries, in_flight) for offset, tries in self.tries.items()},
            markers={group: replace(marker, tries=_suspected(marker.tries, in_flight)) for group, marker in self.markers.items()},
        )

    def released(self) -> QueueCell:
        """Nothing may be in flight."""
        if self.in_flight:
            raise InternalError("a queue with messages in flight cannot be released", observed=self.in_flight)
        return replace(self, owner="")

    @property
    def in_flight(self) -> int:
        """The messages and blocked groups in flight in the owner."""
        tries = [*self.tries.values(), *(marker.tries for marker in self.markers.values())]
        return len(self.granted) + sum(one.state is MessageState.RUNNING for one in tries)

    @property
    def count_spilled(self) -> int:
        return sum(spill.count for spill in self.spills)

    @property
    def first_listed(self) -> int | None:
        heads = (marker.head for marker in self.markers.values())
        return min([*self.tries, *heads, *(spill.first_offset for spill in self.spills)], default=None)

    # --- Messages without a blocked group ---------------------------------------------------------------------------------------

    def with_granted(self, offsets: OffsetSet) -> QueueCell:
        if self.granted.meets(offsets) or self.settled.meets(offsets):
            raise InternalError("a message cannot be granted twice", observed=offsets.ranges())
        return replace(self, granted=self.granted.union(offsets))

    def with_ungranted(self, offsets: OffsetSet) -> QueueCell:
        """Granted messages become fresh: no handler was started."""
        if len(self.granted.without(offsets)) != len(self.granted) - len(offsets):
            raise InternalError("only what is granted can be given back", observed=offsets.ranges())
        return replace(self, granted=self.granted.without(offsets))

    def with_settled(self, offsets: OffsetSet) -> QueueCell:
        if not offsets:
            return self
        return replace(
            self,
            granted=self.granted.without(offsets),
            settled=self.settled.with_all(offsets),
            tries=_untracked(self.tries, offsets),
        )

    def with_tries(self, offset: int, tries: Tries) -> QueueCell:
        return replace(
            self,
            granted=self.granted.without_range(offset, offset + 1),
            settled=self.settled.with_range(offset, offset + 1),
            tries=_with(self.tries, offset, tries),
        )

    def with_all_tries(self, tries: Mapping[int, Tries]) -> QueueCell:
        offsets = OffsetSet.of_offsets(list(tries))
        return replace(
            self,
            granted=self.granted.without(offsets),
            settled=self.settled.with_all(offsets),
            tries={**self.tries, **tries},
        )

    # --- Blocked message groups -------------------------------------------------------------------------------------------------

    def with_listed(self, offsets: OffsetSet) -> QueueCell:
        return replace(self, settled=self.settled.with_all(offsets))

    def with_markers(self, markers: Mapping[int, Marker | None], listed: OffsetSet) -> QueueCell:
        """Blocked groups are new, advanced or stopped, or (None) caught up; ``listed`` offsets are behind these markers."""
        standing, gone = markers, [group for group, marker in markers.items() if marker is None]
        if gone:
            standing = {group: marker for group, marker in markers.items() if marker is not None}
        return replace(
            self,
            granted=self.granted.without(listed),
            settled=self.settled.with_all(listed),
            tries=_untracked(self.tries, listed),
            markers={**_without(self.markers, gone), **standing},
        )

    def with_marker(self, group: int, marker: Marker) -> QueueCell:
        if group not in self.markers:
            raise InternalError("no such message group is blocked", observed=group)
        return replace(self, markers=_with(self.markers, group, marker))

    # --- Dead letters -----------------------------------------------------------------------------------------------------------

    def with_dead_letters(self, offsets: Sequence[int]) -> QueueCell:
        """The messages are given up, and get the next sequences."""
        return replace(self.with_settled(OffsetSet.of_offsets(offsets)), dead_letters=self.dead_letters.given_to(offsets))

    def with_dead_letters_written(self, sequence: int, *, lost: int = 0) -> QueueCell:
        """The dead letters up to this sequence are durable, except ``lost`` for ever."""
        return replace(self, dead_letters=self.dead_letters.without_written(sequence, lost=lost))

    # --- Transactions -----------------------------------------------------------------------------------------------------------

    def with_transaction(self, transaction: str) -> QueueCell:
        return replace(self, transactions=self.transactions | {transaction})

    def without_markers(self, groups: Iterable[int]) -> QueueCell:
        return replace(self, markers=_without(self.markers, groups))

    def without_transactions(self, noted: Iterable[str]) -> QueueCell:
        """The transactions are noted elsewhere. The same cell if it has none."""
        left = self.transactions.difference(noted)
        return self if left == self.transactions else replace(self, transactions=left)

    # --- Acknowledgements -------------------------------------------------------------------------------------------------------

    def with_ack(self, write: int) -> QueueCell:
        return replace(self, acks=(*self.acks, write)[-ACKS_KEPT:], ack_writes=self.ack_writes + 1)

    def has_ack(self, write: int, since: int) -> bool | None:
        """Whether this write was carried out, after at least ``since`` others; None if the cell has forgotten."""
        if write in self.acks:
            return True
        return False if 0 <= self.ack_writes - since <= ACKS_KEPT else None

    # --- Resets -----------------------------------------------------------------------------------------------------------------

    def reset_to(self, position: int, generation: int, *, lives_on: bool = True) -> QueueCell:
        """The cell at another position, from where everything is fresh; dead letters stay assigned, and transactions committed. ``lives_on``: topic
        and group are those of the assigned dead letters.
        """
        return QueueCell(
            generation=generation,
            epoch=self.epoch,
            owner=self.owner,
            step=self.step,
            commands=self.commands,
            settled=SettledOffsets(position),
            dead_letters=self.dead_letters if lives_on else self.dead_letters.without_own(),
            transactions=self.transactions,
            acks=self.acks,
            ack_writes=self.ack_writes,
        )


def removed_queue(cell: QueueCell, since: int) -> QueueCell:
    """The cell of a queue that the topic lost: without owner, which a former owner cannot write, its assigned dead
    letters lost. The same cell when that was done before.
    """
    if cell.generation >= since:
        return cell
    letters = cell.dead_letters
    over = letters.without_written(letters.next_sequence, lost=len(letters.assigned))
    return replace(cell.reset_to(0, since), owner="", epoch=cell.epoch + 1, step=0, dead_letters=over)


def _suspected(tries: Tries, in_flight: int) -> Tries:
    """The tries after the worker's death: a strike only if the message ran alone, else half the company."""
    if tries.state is not MessageState.RUNNING:
        return tries
    alone = tries.company == 1
    return Tries(MessageState.SUSPECT, tries.attempts, tries.strikes + alone, 0, max(1, (tries.company or in_flight) // 2))


def _untracked(tries: Mapping[int, Tries], offsets: OffsetSet) -> Mapping[int, Tries]:
    if not tries:
        return tries
    if len(offsets) >= len(tries):
        return {offset: one for offset, one in tries.items() if offset not in offsets}
    left = dict(tries)  # most writes settle a few of many, and a copy costs far less than a look at each
    for first, limit in offsets.ranges():
        for offset in range(first, limit):
            left.pop(offset, None)
    return left


def _with(mapping: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**mapping, key: value}


def _without(mapping: Mapping[K, V], keys: Iterable[K]) -> Mapping[K, V]:
    gone = [key for key in keys if key in mapping]
    if not gone:
        return mapping
    left = dict(mapping)  # of many mostly a few go, and a copy costs far less than a look at each
    for key in gone:
        del left[key]
    return left
