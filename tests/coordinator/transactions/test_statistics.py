"""What is counted of transactions: each change once, by the process that wrote it, and what stands by who looks."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from penstock.consumers.metrics import MemoryMetrics, Metric
from penstock.coordinator.transactions.checking.checker import CheckOutcome
from penstock.coordinator.transactions.finisher import LOOK_S, finisher_of
from penstock.coordinator.transactions.members.state import AGE_MAX_MS, Decider, Decision
from penstock.coordinator.transactions.metrics import (
    CHECK_BACKS_ANSWERED,
    CHECK_BACKS_ASKED,
    COMMIT_MESSAGES,
    HALF_MESSAGES,
    HALF_OBJECTS_DELETED,
    OPEN_TRANSACTIONS,
    OPEN_TRANSACTIONS_AGE,
    ROLLBACK_MESSAGES,
    TRANSACTIONS_BEGUN,
    TRANSACTIONS_ENDED,
    UNFINISHED_TRANSACTIONS,
    transaction_samples,
)
from tests.coordinator.transactions.stage import COMMIT, GROUP, ROLLBACK, UNKNOWN, Member, Stage
from tests.playing import played_on


class Shown:
    """What a process shows."""

    def __init__(self, member: Member) -> None:
        self._metrics = MemoryMetrics()
        counting, clock = member.transactions.counting, member.lake.runtime.clock
        self._metrics.watch(lambda: transaction_samples(counting.read(clock.wall_ms())))

    def of_group(self, metric: Metric, **labels: str) -> float | None:
        return self._metrics.value(metric, producer_group=GROUP, **labels)

    def of_topic(self, metric: Metric, topic: str) -> float | None:
        return self._metrics.value(metric, topic=topic)

    @property
    def ended(self) -> dict[str, float | None]:
        outcomes = ("committed", "rolled_back", "expired")
        return {outcome: self.of_group(TRANSACTIONS_ENDED, outcome=outcome) for outcome in outcomes}


@played_on(Stage)
async def test_a_senders_own_are_counted_once_however_often_they_are_committed(stage: Stage) -> None:
    sender = stage.member("sender")
    shown = Shown(sender)
    assert shown.of_group(TRANSACTIONS_BEGUN) is None
    committed = await sender.sent(b"a", b"b", topics=("paid", "booked", "paid"))
    rolled_back = await sender.sent(b"c")
    assert (shown.of_group(TRANSACTIONS_BEGUN), shown.ended["committed"]) == (2, 0)
    for _ in range(2):
        await sender.run(committed.commit())
        await sender.run(rolled_back.rollback())
    await stage.let_pass(10)  # their rows are taken out
    assert shown.ended == {"committed": 1, "rolled_back": 1, "expired": 0}
    assert (shown.of_topic(COMMIT_MESSAGES, "paid"), shown.of_topic(COMMIT_MESSAGES, "booked")) == (4, 2)
    assert (shown.of_topic(ROLLBACK_MESSAGES, "paid"), shown.of_topic(HALF_OBJECTS_DELETED, "paid")) == (1, 1)
    assert shown.of_group(OPEN_TRANSACTIONS) is None, "it does not look after the group"


@played_on(Stage)
async def test_who_decides_counts_and_not_who_sent_or_finishes(stage: Stage) -> None:
    sender, operator, other = stage.member("sender"), stage.member("operator"), stage.member("other")
    first, second = await sender.sent(b"a"), await sender.sent(b"b")
    assert first.id is not None
    assert second.id is not None
    sender.process.crash()
    for _ in range(2):
        await operator.run(operator.transactions.decide(first.id, Decision.COMMITTED, Decider.OPERATOR))
    await other.run(other.transactions.finish(first.id))
    assert Shown(operator).ended["committed"] == 1
    assert Shown(other).ended["committed"] in (0, None)
    await stage.let_pass(AGE_MAX_MS / 1000)
    await operator.run(finisher_of(operator.transactions, report=lambda what, error: None).once(GROUP))
    assert Shown(operator).ended == {"committed": 1, "rolled_back": 0, "expired": 1}


@played_on(Stage)
async def test_questions_and_what_came_of_them(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    for number in range(4):
        await sender.sent(b"%d" % number)
    sender.process.crash()
    checks, checker = other.check_backs([COMMIT, ROLLBACK, RuntimeError("the database is down"), UNKNOWN])
    checks._asked._on_question = other.transactions.counting.question
    shown = Shown(other)
    stop = other.process.call(asyncio.Event)
    task = other.process.spawn(checks.play(GROUP, stop))
    await stage.let_pass(70)
    assert len(checker.asked) == shown.of_group(CHECK_BACKS_ASKED) == 4
    answered = {str(one): shown.of_group(CHECK_BACKS_ANSWERED, outcome=one) for one in CheckOutcome}
    assert answered == {"commit": 1, "rollback": 1, "failed": 1, "unknown": 1, "late": 0}
    assert shown.ended == {"committed": 1, "rolled_back": 1, "expired": 0}
    other.process.call(stop.set)
    await task


@played_on(Stage)
async def test_who_looks_after_a_group_shows_what_stands_for_as_long_as_it_does(stage: Stage) -> None:
    sender, other = stage.member("sender"), stage.member("other")
    await sender.sent(b"a", b"b", topics=("paid", "booked"), first_check=timedelta(hours=1))
    await stage.let_pass(100)
    last = await sender.sent(b"c", first_check=timedelta(hours=1))
    assert last.id is not None
    shown = Shown(other)
    stop = other.process.call(asyncio.Event)
    task = other.process.spawn(finisher_of(other.transactions, report=lambda what, error: None).play(GROUP, stop))
    await stage.let_pass(1)
    assert shown.of_group(OPEN_TRANSACTIONS) == 2
    assert 100 <= (shown.of_group(OPEN_TRANSACTIONS_AGE) or 0) <= 105
    assert (shown.of_topic(HALF_MESSAGES, "paid"), shown.of_topic(HALF_MESSAGES, "booked")) == (3, 2)
    await stage.let_pass(LOOK_S - 2)
    sender.process.crash()
    await other.run(other.transactions.decide(last.id, Decision.ROLLED_BACK, Decider.OPERATOR))
    await stage.let_pass(2)
    assert (shown.of_group(OPEN_TRANSACTIONS), shown.of_group(UNFINISHED_TRANSACTIONS)) == (1, 1)
    await stage.let_pass(2 * LOOK_S)
    assert (shown.of_group(OPEN_TRANSACTIONS), shown.of_group(UNFINISHED_TRANSACTIONS)) == (1, 0)
    assert shown.of_topic(HALF_MESSAGES, "paid") == 2
    other.process.call(stop.set)
    await task
    assert shown.of_group(OPEN_TRANSACTIONS) is None
