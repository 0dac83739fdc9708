"""The metrics of transactions, by producer group or topic. Names and units are RocketMQ's where it has the metric."""

from __future__ import annotations

from collections.abc import Iterator

from ...log.metrics import Sample, age_ms, gauge, watched
from .checking.checker import CheckOutcome
from .statistics import GroupTransactions, TransactionStatistics

_PRODUCERS = ("producer_group",)

HALF_MESSAGES = gauge("rocketmq_half_messages", "Messages of transactions that nobody has decided", "{message}", labels=("topic",))
COMMIT_MESSAGES = watched("rocketmq_commit_messages_total", "Messages of transactions committed", "{message}", labels=("topic",))
ROLLBACK_MESSAGES = watched(
    "rocketmq_rollback_messages_total", "Messages of transactions rolled back", "{message}", labels=("topic",)
)
TRANSACTIONS_BEGUN = watched("penstock_transactions_begun_total", "Transactions with a first message", labels=_PRODUCERS)
TRANSACTIONS_ENDED = watched(
    "penstock_transactions_ended_total",
    "Transactions decided: committed, rolled_back, or expired by age or for want of an answer",
    labels=(*_PRODUCERS, "outcome"),
)
CHECK_BACKS_ASKED = watched("penstock_check_backs_asked_total", "Questions to a checker", labels=_PRODUCERS)
CHECK_BACKS_ANSWERED = watched(
    "penstock_check_backs_answered_total",
    "What came of them: commit, rollback, unknown, failed (raised, or no answer) or late",
    labels=(*_PRODUCERS, "outcome"),
)
OPEN_TRANSACTIONS = gauge("penstock_open_transactions", "Transactions that nobody has decided", labels=_PRODUCERS)
OPEN_TRANSACTIONS_AGE = gauge(
    "penstock_open_transactions_age_seconds", "Age of the oldest of them", "s", labels=_PRODUCERS, largest=True
)
UNFINISHED_TRANSACTIONS = gauge(
    "penstock_unfinished_transactions", "Transactions decided, and not visible or taken back everywhere", labels=_PRODUCERS
)
HALF_OBJECTS_DELETED = watched(
    "penstock_half_objects_deleted_total", "Objects of half messages deleted after a rollback", labels=("topic",)
)

CATALOGUE = (
    HALF_MESSAGES,
    COMMIT_MESSAGES,
    ROLLBACK_MESSAGES,
    TRANSACTIONS_BEGUN,
    TRANSACTIONS_ENDED,
    CHECK_BACKS_ASKED,
    CHECK_BACKS_ANSWERED,
    OPEN_TRANSACTIONS,
    OPEN_TRANSACTIONS_AGE,
    UNFINISHED_TRANSACTIONS,
    HALF_OBJECTS_DELETED,
)


def transaction_samples(statistics: TransactionStatistics) -> Iterator[Sample]:
    """The metrics of transactions that this process wrote, asked about or watches."""
    for group, one in statistics.groups.items():
        yield Sample(TRANSACTIONS_BEGUN, (group,), one.begun)
        yield Sample(TRANSACTIONS_ENDED, (group, "committed"), one.committed)
        yield Sample(TRANSACTIONS_ENDED, (group, "rolled_back"), one.rolled_back)
        yield Sample(TRANSACTIONS_ENDED, (group, "expired"), one.expired)
        yield Sample(CHECK_BACKS_ASKED, (group,), one.asked)
        for answer in CheckOutcome:
            yield Sample(CHECK_BACKS_ANSWERED, (group, answer), one.answers.get(answer, 0))
        yield from _standing_samples(group, one, statistics.at_ms)
    for topic, counted in statistics.topics.items():
        yield Sample(COMMIT_MESSAGES, (topic,), counted.committed_messages)
        yield Sample(ROLLBACK_MESSAGES, (topic,), counted.rolled_back_messages)
        yield Sample(HALF_OBJECTS_DELETED, (topic,), counted.deleted_objects)


def _standing_samples(group: str, one: GroupTransactions, now_ms: int) -> Iterator[Sample]:
    if (standing := one.standing) is None:
        return
    yield Sample(OPEN_TRANSACTIONS, (group,), standing.open)
    yield Sample(OPEN_TRANSACTIONS_AGE, (group,), age_ms(standing.oldest_ms, now_ms) / 1000)
    yield Sample(UNFINISHED_TRANSACTIONS, (group,), standing.unfinished)
    for topic, messages in standing.half_messages.items():
        yield Sample(HALF_MESSAGES, (topic,), messages)
