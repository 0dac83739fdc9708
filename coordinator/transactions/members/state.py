"""The cell of a producer group's member: one process's unfinished transactions. Pure.

A row is made by the first send, decided once, and removed when every process that could act on it knows the outcome. Changes may be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType

from ....log.errors import InternalError, TopicDeleted
from ..errors import AcksDecide, TransactionCommitted, TransactionExpired, TransactionNotFound, TransactionRolledBack
from .acks import Acks

AGE_MAX_MS = 4 * 3600 * 1000
"""The age at which an open transaction is rolled back; RocketMQ's."""
KEPT_MS = 24 * 3600 * 1000
"""The time that a transaction finished by others is kept, to refuse late links."""
LINK_S = 3600.0
"""The time, after the row was seen as committed, in which a link may leave; far below `KEPT_MS`."""
SEND_S = 3600.0
"""The time, after a first send began, in which it may be written; far below a lost upload's age."""


class Decision(IntEnum):
    """The decision on a transaction."""

    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2


class Decider(IntEnum):
    """The author of a decision."""

    NOBODY = 0
    OWNER = 1
    CHECKER = 2
    OPERATOR = 3
    CHECKS = 4
    """Its checker was asked as often as allowed, and never knew."""
    AGE = 5
    ACKS = 6
    """The cell of the queue whose messages it settles."""


@dataclass(frozen=True, slots=True)
class HalfPart:
    """One staged object, named by its number."""

    size_bytes: int
    digest: str
    """The digest of the whole object, by `sealed.digest`."""
    messages: int


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The outcome of a committed transaction on one topic."""

    entry: int | None = None
    """None: nothing was linked, or it is not known."""
    offsets: Mapping[int, tuple[int, int]] | None = None
    """The first offset and the one after the last of every touched queue."""
    gone: bool = False
    """Whether the topic was deleted."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The messages that one topic gets."""

    topic: str
    incarnation: str
    """The topic's life that they were sent to."""
    parts: tuple[HalfPart, ...] = ()
    """A finished transaction keeps one, which counts all messages."""
    linked: LinkResult | None = None

    @property
    def messages(self) -> int:
        return sum(part.messages for part in self.parts)

    def as_linked(self, linked: LinkResult | None) -> Destination:
        return replace(self, linked=linked, parts=tuple(replace(part, messages=self.messages) for part in self.parts[:1]))


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionRow:
    """One transaction."""

    id: str
    created_ms: int
    next_check_ms: int | None
    checks: int = 0
    decision: Decision = Decision.OPEN
    by: Decider = Decider.NOBODY
    claimed: bool = False
    """Whether others than the owner may still link it."""
    finished_ms: int = 0
    destinations: tuple[Destination, ...] = ()
    acks: Acks | None = None
    """The messages that it settles: their queue's cell decides."""

    @property
    def is_open(self) -> bool:
        return self.decision is Decision.OPEN

    @property
    def is_finished(self) -> bool:
        return self.finished_ms > 0

    @property
    def messages(self) -> int:
        return sum(one.messages for one in self.destinations)

    def destination(self, topic: str) -> Destination | None:
        return next((one for one in self.destinations if one.topic == topic), None)


_NONE: Mapping[str, TransactionRow] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True, slots=True)
class MemberCell:
    """The transactions of one member of a producer group."""

    group: str
    used_ms: int = 0
    """The last time when a transaction began here."""
    left: bool = False
    """Whether nothing begins here any more."""
    rows: Mapping[str, TransactionRow] = field(default_factory=lambda: _NONE)

    # --- Questions --------------------------------------------------------------------------------------------------------------

    def row(self, id: str) -> TransactionRow:
        """Raises `TransactionNotFound`."""
        found = self.rows.get(id)
        if found is None:
            raise not_known(id)
        return found

    def to_check(self, now_ms: int) -> list[TransactionRow]:
        """The longest due first."""
        due = [row for row in self.rows.values() if row.is_open and row.next_check_ms is not None and row.next_check_ms <= now_ms]
        return sorted(due, key=lambda row: row.next_check_ms or 0)

    def to_finish(self) -> list[TransactionRow]:
        return [row for row in self.rows.values() if not row.is_open and not row.is_finished]

    def aged(self, now_ms: int) -> list[TransactionRow]:
        return [row for row in self.rows.values() if row.is_open and row.acks is None and is_aged(row, now_ms)]

    def to_judge(self) -> list[TransactionRow]:
        """Transactions that queues' cells decide."""
        return [row for row in self.rows.values() if row.is_open and row.acks is not None]

    def holds(self, id: str) -> bool:
        """Whether staged messages, and the log's memory of uploads, must stay."""
        row = self.rows.get(id)
        return row is not None and row.decision is not Decision.ROLLED_BACK

    # --- Sending ----------------------------------------------------------------------------------------------------------------

    def with_half(
        self,
        id: str,
        topic: str,
        incarnation: str,
        number: int,
        part: HalfPart,
        *,
        now_ms: int,
        first_check_ms: int | None,
        first: bool,
    ) -> MemberCell:
        """The cell with one more part for a topic; ``first``: the transaction's first. Raises the outcome of a decided transaction,
        `TransactionNotFound`, and `TopicDeleted`.
        """
        row = self.rows.get(id)
        if row is None and first:
            if self.left:
                raise TransactionNotFound("the member was taken off its group's list, as it was idle for long", object=id)
            row = TransactionRow(
                id=id, created_ms=now_ms, next_check_ms=None if first_check_ms is None else now_ms + first_check_ms
            )
        row = self.row(id) if row is None else row
        check_open(row, operation="send in a transaction")
        check_decidable(row, Decider.OWNER)  # once its commit has begun, its messages are settled too
        known = row.destination(topic) or Destination(topic, incarnation)
        if known.incarnation != incarnation:
            raise TopicDeleted(
                "the topic was deleted and created again since the transaction's first message to it",
                operation="send",
                object=topic,
            )
        if number < len(known.parts):
            if known.parts[number] != part:
                raise InternalError("two parts of a transaction have one number", object=id, observed=number)
            return self
        if number > len(known.parts):
            raise InternalError("a part of a transaction is missing", object=id, expected=len(known.parts), observed=number)
        sent = replace(known, parts=(*known.parts, part))
        others = tuple(one for one in row.destinations if one.topic != topic)
        return replace(self._with(replace(row, destinations=(*others, sent))), used_ms=max(self.used_ms, now_ms))

    # --- Deciding ---------------------------------------------------------------------------------------------------------------

    def with_acks(self, id: str, acks: Acks, *, now_ms: int) -> MemberCell:
        """The cell with the messages that a transaction settles; too late, it is rolled back. Raises `TransactionRolledBack`, `TransactionExpired` or
        `TransactionCommitted` when it is decided.
        """
        row = self.row(id)
        if row.acks == acks:
            return self
        check_open(row, operation="commit")
        if row.acks is not None:
            raise InternalError("a transaction settles other messages than before", object=id)
        if is_aged(row, now_ms):
            return self._with(replace(row, decision=Decision.ROLLED_BACK, by=Decider.AGE))
        return self._with(replace(row, acks=acks, next_check_ms=None))

    def decided(self, id: str, decision: Decision, by: Decider, *, now_ms: int) -> MemberCell:
        """The cell with a transaction decided, the same if it is so decided; a late commit rolls it back, if this row decides. Raises
        `TransactionRolledBack`, `TransactionExpired` or `TransactionCommitted` for another decision, and `AcksDecide`.
        """
        row = self.row(id)
        if row.decision is decision:
            return self
        check_open(row, operation="commit" if decision is Decision.COMMITTED else "roll back")
        check_decidable(row, by, decision)
        if decision is Decision.COMMITTED and by is not Decider.ACKS and is_aged(row, now_ms):
            return self._with(replace(row, decision=Decision.ROLLED_BACK, by=Decider.AGE))
        return self._with(replace(row, decision=decision, by=by))

    def with_check(self, id: str, *, checks: int, now_ms: int, every_ms: int) -> MemberCell:
        """The cell with the ``checks``-th check counted, and the next scheduled. Raises the outcome of a decided transaction, and
        `TransactionNotFound` when another process asked.
        """
        row = self.row(id)
        check_open(row, operation="check")
        if row.checks == checks and row.next_check_ms == now_ms + every_ms:
            return self
        if row.checks != checks - 1:
            raise TransactionNotFound("another has asked the checker", object=id, expected=checks - 1, observed=row.checks)
        return self._with(replace(row, checks=checks, next_check_ms=now_ms + every_ms))

    # --- Finishing --------------------------------------------------------------------------------------------------------------

    def with_claim(self, id: str) -> MemberCell:
        """Finishing by others has begun, and the row is kept."""
        row = self.row(id)
        return self if row.claimed or row.is_finished else self._with(replace(row, claimed=True))

    def with_finished(self, id: str, linked: Mapping[str, LinkResult], *, now_ms: int) -> MemberCell:
        """The transaction is finished, or forgotten if only its owner took part."""
        row = self.rows.get(id)
        if row is None or row.is_finished:
            return self
        if row.is_open:
            raise InternalError("a transaction is finished before it is decided", object=id)
        if may_leave_at_once(row):
            return self._without([id])
        destinations = tuple(one.as_linked(linked.get(one.topic)) for one in row.destinations)
        return self._with(replace(row, finished_ms=max(1, now_ms), destinations=destinations))

    def without_old(self, now_ms: int) -> MemberCell:
        """Removes finished transactions that are no longer asked for or linked."""
        old = [row.id for row in self.rows.values() if may_be_forgotten(row, now_ms)]
        return self._without(old) if old else self

    def as_seen(self, now_ms: int) -> MemberCell:
        return self if self.used_ms else replace(self, used_ms=max(1, now_ms))

    def withdrawn(self, id: str, *, now_ms: int) -> MemberCell:
        """The cell with a transaction rolled back by its sender, whose first write may not have arrived and cannot count after this one. Raises
        `TransactionCommitted`.
        """
        if id in self.rows:
            return self.decided(id, Decision.ROLLED_BACK, Decider.OWNER, now_ms=now_ms)
        return replace(self, used_ms=max(self.used_ms + 1, now_ms))

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing began for so long that the member is replaced."""
        return not self.rows and self.used_ms > 0 and now_ms - self.used_ms >= KEPT_MS

    def as_left(self) -> MemberCell:
        """Only for a member without transactions."""
        if self.rows:
            raise InternalError("a member leaves that has transactions", observed=len(self.rows))
        return self if self.left else replace(self, left=True)

    def _with(self, row: TransactionRow) -> MemberCell:
        return replace(self, rows={**self.rows, row.id: row})

    def _without(self, ids: Iterable[str]) -> MemberCell:
        gone = set(ids)
        return replace(self, rows={row.id: row for row in self.rows.values() if row.id not in gone})


# --- The guards, one by one ---------------------------------------------------------------------------------------------------------


def check_open(row: TransactionRow, *, operation: str) -> None:
    """Raise the outcome of a decided transaction."""
    if row.decision is Decision.COMMITTED:
        raise TransactionCommitted(
            "the transaction is committed",
            operation=operation,
            object=row.id,
            expected="an open transaction",
            observed=_WHO[row.by],
        )
    if row.decision is Decision.ROLLED_BACK:
        expired = row.by in (Decider.AGE, Decider.CHECKS)
        raise (TransactionExpired if expired else TransactionRolledBack)(
            "the transaction has expired, and was rolled back" if expired else "the transaction was rolled back",
            operation=operation,
            object=row.id,
            expected="an open transaction",
            observed=_NOT_SETTLED if row.by is Decider.ACKS else _WHO[row.by],
            hint="none of its messages becomes visible; undo the local work, or send them in a new transaction",
        )


def check_decidable(row: TransactionRow, by: Decider, decision: Decision = Decision.ROLLED_BACK) -> None:
    """Raise `AcksDecide` where a queue's cell decides. Only its sender may commit a transaction without checker."""
    alone = decision is Decision.COMMITTED and row.next_check_ms is None and by in (Decider.CHECKER, Decider.OPERATOR)
    if alone or (row.acks is not None and by is not Decider.ACKS):
        raise AcksDecide(
            "the transaction settles messages, and the write that settles them decides it",
            operation="decide a transaction",
            object=row.id,
            expected="that they are settled with it, or can never be",
            hint="it is rolled back when they are handed out again: at the end of their invisible duration",
        )


def not_known(id: str) -> TransactionNotFound:
    return TransactionNotFound(
        "no transaction of this id is known",
        object=id,
        expected="one that is open, or was finished within a day by others than its sender",
        hint="it was decided and forgotten, or never had a message; messages of a committed one have its id as producer",
    )


def is_aged(row: TransactionRow, now_ms: int) -> bool:
    return now_ms - row.created_ms >= AGE_MAX_MS


def may_leave_at_once(row: TransactionRow) -> bool:
    """Whether a finished transaction need not be kept: its owner decided it, has the answer, and alone links it."""
    return row.by in (Decider.OWNER, Decider.ACKS) and not row.claimed


def may_be_forgotten(row: TransactionRow, now_ms: int) -> bool:
    return row.is_finished and now_ms - row.finished_ms >= KEPT_MS


_NOT_SETTLED = "its messages were settled elsewhere, or handed out again"
_WHO = {
    Decider.NOBODY: "nobody decided it",
    Decider.OWNER: "by its sender",
    Decider.CHECKER: "by a check-back",
    Decider.OPERATOR: "by an operator",
    Decider.CHECKS: "its checker did not know, as often as it was asked",
    Decider.AGE: f"open for more than {AGE_MAX_MS // 3_600_000} hours",
    Decider.ACKS: "by the messages that it settles",
}
