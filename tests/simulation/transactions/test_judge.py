"""The judge of transactions finds what it is for: every rule, by a history that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from penstock.log.paths import TopicPaths
from tests.simulation.transactions.judge import judge
from tests.simulation.transactions.logs import Row, TopicLog
from tests.simulation.transactions.records import Book, Change, Fate, History, Sent, Told

pytestmark = pytest.mark.simulation

TOPIC = "orders"
ONE, TWO = b"a|0", b"a|1"


@dataclass
class Handle:
    id: str | None = "id-a"


@dataclass
class Case:
    """A committed transaction of two messages, as it should be."""

    history: History
    log: TopicLog

    @staticmethod
    def sound() -> Case:
        sends = [Sent(TOPIC, body, 1.0, durable_s=1.4) for body in (ONE, TWO)]
        told = Told("a", "s0", 1.0, Handle(), sends, committed_s=3.0)
        history = History(told=[told], books={"a": Book.PAID})
        history.changes["id-a"] = [Change(1.5, Fate.OPEN), Change(2.0, Fate.COMMITTED, 0.5)]
        log = TopicLog(TopicPaths.of(TOPIC))
        row = Row(life=1, queue=0, offset=0, entry=2, landed_s=2.5, job="tx-id-a")
        log.lives[1] = (0.5, None)
        log.rows = {ONE: [row], TWO: [replace(row, offset=1)]}
        return Case(history, log)

    @property
    def told(self) -> Told:
        return self.history.told[0]

    def fates(self, *fates: Fate) -> None:
        self.history.changes["id-a"] = [Change(1.5 + number / 10, fate) for number, fate in enumerate(fates)]

    def judged(self) -> list[str]:
        return judge(self.history, {TOPIC: self.log})


def test_a_sound_history_is_found_right() -> None:
    assert Case.sound().judged() == []


def _none(case: Case) -> None:
    case.log.rows.clear()


def _half(case: Case) -> None:
    del case.log.rows[TWO]


def _twice(case: Case) -> None:
    case.log.rows[ONE].append(replace(case.log.rows[ONE][0], offset=2))


def _two_entries(case: Case) -> None:
    case.log.rows[TWO] = [replace(case.log.rows[TWO][0], entry=3)]


def _linked_twice(case: Case) -> None:
    case.log.linked["tx-id-a"] = 2


def _early(case: Case) -> None:
    case.log.rows = {body: [replace(row, landed_s=1.9) for row in rows] for body, rows in case.log.rows.items()}


def _open(case: Case) -> None:
    case.fates(Fate.OPEN)
    case.told.committed_s = None


def _rolled_back(case: Case) -> None:
    case.fates(Fate.OPEN, Fate.ROLLED_BACK)
    case.told.committed_s = None
    case.history.books["a"] = Book.VOID


def _later_life(case: Case) -> None:
    case.log.lives[1] = (1.6, None)


def _from_nowhere(case: Case) -> None:
    case.log.rows[b"x"] = [replace(case.log.rows[ONE][0], offset=2)]


def _told_wrongly(case: Case) -> None:
    case.fates(Fate.OPEN, Fate.ROLLED_BACK)
    _none(case)
    case.history.ordered["id-a"] = {Fate.ROLLED_BACK}


def _told_too_early(case: Case) -> None:
    case.told.committed_s = 1.9


def _told_both(case: Case) -> None:
    case.told.rolled_back_s = 4.0


def _told_unknown(case: Case) -> None:
    case.told.committed_s, case.told.unknown_s = None, 4.0


def _decided_twice(case: Case) -> None:
    case.fates(Fate.OPEN, Fate.COMMITTED, Fate.ROLLED_BACK)


def _paid_and_rolled_back(case: Case) -> None:
    _rolled_back(case)
    _none(case)
    case.history.books["a"] = Book.PAID


def _void_and_committed(case: Case) -> None:
    case.history.books["a"] = Book.VOID


def _with_what_failed(case: Case) -> None:
    case.told.insisted, case.told.sends[1].durable_s = True, None


def _read_less(case: Case) -> None:
    case.history.read[TOPIC] = {(TOPIC, 0, 0): ONE}


def _settled_otherwise(case: Case) -> None:
    case.told.consumed.append(("carts", 0, 0))
    case.history.to_consume.append(("carts", 0, 0))


def _not_settled(case: Case) -> None:
    case.history.to_consume.append(("carts", 0, 0))


def _left(case: Case) -> None:
    case.history.left.append("topics/orders/staged/jobs/tx-id-a/record")


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("T1", _half),
        ("T1", _twice),
        ("T1", _two_entries),
        ("T1", _linked_twice),
        ("T2", _early),
        ("T3", _open),
        ("T3", _rolled_back),
        ("T3", _from_nowhere),
        ("T3", _later_life),
        ("T4", _none),
        ("T5", _told_wrongly),
        ("T5", _told_too_early),
        ("T5", _told_both),
        ("T5", _told_unknown),
        ("T5", _decided_twice),
        ("T6", _read_less),
        ("T7", _paid_and_rolled_back),
        ("T7", _void_and_committed),
        ("T7", _with_what_failed),
        ("T8", _settled_otherwise),
        ("T8", _not_settled),
        ("T9", _left),
    ],
)
def test_what_is_wrong_is_found(rule: str, spoil: Callable[[Case], None]) -> None:
    case = Case.sound()
    spoil(case)
    assert any(wrong.startswith(rule) for wrong in case.judged()), case.judged()


def test_what_ended_by_time_or_by_an_operator_may_be_paid() -> None:
    case = Case.sound()
    _paid_and_rolled_back(case)
    case.history.changes["id-a"][-1] = Change(2.0, Fate.ROLLED_BACK, age_s=900.0, checks=15)
    assert case.judged() == []
    case.history.changes["id-a"][-1] = Change(2.0, Fate.ROLLED_BACK)
    case.history.ordered["id-a"] = {Fate.ROLLED_BACK}
    assert case.judged() == []


def test_a_topic_that_was_deleted_owes_nothing() -> None:
    case = Case.sound()
    _none(case)
    case.history.deleted[TOPIC] = [(2.2, 2.4)]
    assert case.judged() == []
