"""Operators' records of consumers, and the same as metrics.

Names and units (latencies in milliseconds) are RocketMQ's where it has the metric, others are ``penstock_…``. Only gauges have queues as labels,
which keeps series few.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..coordinator.groups.record import GroupProtocol
from ..coordinator.operators import metrics as lakes
from ..coordinator.operators.lake_view import LakeOverview
from ..coordinator.operators.metrics import (
    GROUP_CONSUMERS,
    GROUP_DEAD_LETTERS,
    GROUP_OWNED_QUEUES,
    LOOK_AGE,
    LOOK_TIME,
    UNREAD,
)
from ..coordinator.timers import metrics as timers
from ..coordinator.timers.metrics import TIMER_CLAIMS, TIMERS_FIRED, TIMERS_LATE, TIMING_MESSAGES, timer_samples
from ..coordinator.transactions import metrics as transactions
from ..coordinator.transactions.metrics import (
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
from ..log.escapes import steers
from ..log.metrics import Counter, Histogram, Metric, Metrics, Sample, age_ms, counter, gauge, histogram
from ..log.produce import metrics as producers
from ..log.produce.metrics import (
    MESSAGE_SIZE,
    MESSAGES_IN,
    PRODUCER_CONNECTIONS,
    PRODUCER_WAITING,
    SEND_COST_TIME,
    THROUGHPUT_IN,
    producer_samples,
    sends_counted,
)

__all__ = [
    "AWAIT_TIME",
    "BLOCKED_GROUPS",
    "CACHED_BYTES",
    "CACHED_MESSAGES",
    "CATALOGUE",
    "CELL_BYTES",
    "CELL_WRITES",
    "CHECK_BACKS_ANSWERED",
    "CHECK_BACKS_ASKED",
    "COMMIT_MESSAGES",
    "CONSUMER_CONNECTIONS",
    "DELIVERY_LATENCY",
    "FAILED_ATTEMPTS",
    "FAILURES",
    "FETCHING_PAUSED",
    "GROUP_CONSUMERS",
    "GROUP_DEAD_LETTERS",
    "GROUP_OWNED_QUEUES",
    "HALF_MESSAGES",
    "HALF_OBJECTS_DELETED",
    "HAND_OVERS",
    "INFLIGHT_MESSAGES",
    "LAG_LATENCY",
    "LAG_MESSAGES",
    "LOOK_AGE",
    "LOOK_TIME",
    "LOST_LETTERS",
    "MESSAGES_IN",
    "MESSAGES_OUT",
    "MESSAGE_SIZE",
    "OPEN_TRANSACTIONS",
    "OPEN_TRANSACTIONS_AGE",
    "OWNED_QUEUES",
    "PARKED_GROUPS",
    "PROCESS_TIME",
    "PRODUCER_CONNECTIONS",
    "PRODUCER_WAITING",
    "QUEUEING_LATENCY",
    "READY_MESSAGES",
    "ROLLBACK_MESSAGES",
    "SEND_COST_TIME",
    "SENT_TO_DLQ",
    "TAKE_OVERS",
    "THROUGHPUT_IN",
    "THROUGHPUT_OUT",
    "TIMERS_FIRED",
    "TIMERS_LATE",
    "TIMER_CLAIMS",
    "TIMING_MESSAGES",
    "TOPIC_QUEUES",
    "TRANSACTIONS_BEGUN",
    "TRANSACTIONS_ENDED",
    "UNFINISHED_TRANSACTIONS",
    "UNREAD",
    "WAITING_MESSAGES",
    "ConsumerStatistics",
    "QueueStatistics",
    "TopicCounters",
    "consumer_samples",
    "lake_samples",
    "producer_samples",
    "sends_counted",
    "timer_samples",
    "transaction_samples",
]

ERRORS_MAX = 32
"""The errors of a topic in a group that are counted by name."""
OTHER_ERROR = "other"
_TOPIC = ("topic", "consumer_group")
_QUEUE = ("topic", "consumer_group", "queue")
_MS, _MESSAGES, _BYTES = "ms", "{message}", "By"
_gauge, _counter, _histogram = partial(gauge, labels=_QUEUE), partial(counter, labels=_TOPIC), partial(histogram, labels=_TOPIC)

# --- RocketMQ's ------------------------------------------------------------------------------------------------------------------
LAG_MESSAGES = _gauge("rocketmq_consumer_lag_messages", "Messages not settled, up to the end of the queue", _MESSAGES, largest=True)
LAG_LATENCY = _gauge("rocketmq_consumer_lag_latency", "Age of the oldest message that is not settled", _MS, largest=True)
INFLIGHT_MESSAGES = _gauge(
    "rocketmq_consumer_inflight_messages",
    "Messages given to a consumer and not settled: with a handler, waiting for one, or handed out by receive",
    _MESSAGES,
)
READY_MESSAGES = _gauge("rocketmq_consumer_ready_messages", "Messages that nobody was given yet", _MESSAGES, largest=True)
QUEUEING_LATENCY = _gauge(
    "rocketmq_consumer_queueing_latency", "Age of the oldest message that nobody was given yet", _MS, largest=True
)
CACHED_MESSAGES = _gauge("rocketmq_consumer_cached_messages", "Messages fetched and not yet settled, in memory", _MESSAGES)
CACHED_BYTES = _gauge("rocketmq_consumer_cached_bytes", "Their bodies", _BYTES)
CONSUMER_CONNECTIONS = _gauge("rocketmq_consumer_connections", "Live consumers", labels=("consumer_group",))
DELIVERY_LATENCY = _histogram(
    "rocketmq_delivery_latency",
    "From stored to here, of the first message of each fetch",
    (1, 5, 10, 20, 50, 200, 500, 1_000, 5_000),
)
AWAIT_TIME = _histogram(
    "rocketmq_await_time",
    "From here to a handler, of the first message of each run in its first attempt",
    (1, 5, 20, 100, 1_000, 5_000, 10_000),
)
MESSAGES_OUT = _counter(
    "rocketmq_messages_out_total", "Messages given to a handler or handed out by receive, retries too", _MESSAGES
)
THROUGHPUT_OUT = _counter("rocketmq_throughput_out_total", "Their bodies", _BYTES)
SENT_TO_DLQ = _counter("rocketmq_send_to_dlq_messages_total", "Messages given up: durable in the dead-letter queue", _MESSAGES)
LOST_LETTERS = _counter(
    "penstock_dead_letters_lost_total", "Messages given up that have no dead letter, as they were gone before", _MESSAGES
)
PROCESS_TIME = _histogram(
    "rocketmq_process_time",
    "How long a handler ran, for one message or one batch",
    (1, 5, 10, 100, 1_000, 10_000, 60_000),
    labels=(*_TOPIC, "invocation_status"),
)

# --- Penstock's own --------------------------------------------------------------------------------------------------------------
WAITING_MESSAGES = _gauge("penstock_waiting_messages", "Messages that failed and wait for their next attempt", _MESSAGES)
BLOCKED_GROUPS = _gauge("penstock_blocked_message_groups", "Message groups that wait for their first message's next attempt")
PARKED_GROUPS = _gauge("penstock_parked_message_groups", "Message groups that stand still until an operator releases or skips")
CELL_BYTES = _gauge("penstock_cell_bytes", "Size of the queue's cell, which may have 65,536", _BYTES, largest=True)
FETCHING_PAUSED = _gauge("penstock_fetching_paused", "1 while nothing is fetched, as too much is unsettled", largest=True)
REFUSED = gauge(
    "penstock_refused_seconds",
    "How long the store or the table has refused what it allowed before; 0: it does not",
    "s",
    labels=(),
    largest=True,
)
OWNED_QUEUES = _gauge("penstock_owned_queues", "Queues that this process's consumers own", labels=_TOPIC)
TOPIC_QUEUES = _gauge("penstock_topic_queues", "Queues of a subscribed topic, owned by anybody or not", labels=_TOPIC, largest=True)
FAILED_ATTEMPTS = _counter("penstock_failed_attempts_total", "Attempts that failed: raised, refused or out of time")
FAILURES = _counter(
    "penstock_failures_total",
    "The same by error: the class of what was raised, a word for another end, or other beyond 32 of these",
    labels=(*_TOPIC, "error"),
)
CELL_WRITES = _counter("penstock_cell_writes_total", "Writes of queues' cells, lost ones too")
TAKE_OVERS = _counter("penstock_take_overs_total", "Queues taken from a worker that died")
HAND_OVERS = _counter("penstock_hand_overs_total", "Queues drained and released to another worker")

CATALOGUE = (
    LAG_MESSAGES,
    LAG_LATENCY,
    INFLIGHT_MESSAGES,
    READY_MESSAGES,
    QUEUEING_LATENCY,
    CACHED_MESSAGES,
    CACHED_BYTES,
    CONSUMER_CONNECTIONS,
    DELIVERY_LATENCY,
    AWAIT_TIME,
    MESSAGES_OUT,
    THROUGHPUT_OUT,
    SENT_TO_DLQ,
    LOST_LETTERS,
    PROCESS_TIME,
    WAITING_MESSAGES,
    BLOCKED_GROUPS,
    PARKED_GROUPS,
    CELL_BYTES,
    FETCHING_PAUSED,
    REFUSED,
    OWNED_QUEUES,
    TOPIC_QUEUES,
    FAILED_ATTEMPTS,
    FAILURES,
    CELL_WRITES,
    TAKE_OVERS,
    HAND_OVERS,
    *producers.CATALOGUE,
    *timers.CATALOGUE,
    *transactions.CATALOGUE,
    *lakes.CATALOGUE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """One queue of a consumer group."""

    topic: str
    queue: int
    lag_messages: int
    """Messages not settled: fresh, in flight, waiting, blocked and parked."""
    inflight_messages: int
    ready_messages: int
    """Messages that were not handed out yet."""
    oldest_unsettled_ms: int | None = None
    """The store time of the first unsettled message."""
    oldest_ready_ms: int | None = None
    """The store time of the first fresh message."""
    cached_messages: int = 0
    cached_bytes: int = 0
    waiting_messages: int = 0
    blocked_groups: int = 0
    parked_groups: int = 0
    cell_bytes: int = 0
    fetching_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatistics:
    """One live consumer."""

    group: str
    queues: tuple[QueueStatistics, ...] = ()
    """The queues it owns."""
    topic_queues: tuple[tuple[str, int], ...] = ()
    """The subscribed topics, with the number of queues of each."""


def consumer_samples(statistics: ConsumerStatistics, *, now_ms: int) -> Iterator[Sample]:
    group = statistics.group
    yield Sample(CONSUMER_CONNECTIONS, (group,), 1)
    for topic, count in statistics.topic_queues:
        yield Sample(TOPIC_QUEUES, (topic, group), count)
        yield Sample(OWNED_QUEUES, (topic, group), sum(one.topic == topic for one in statistics.queues))
    for one in statistics.queues:
        labels = (one.topic, group, str(one.queue))
        for metric, value in (
            (LAG_MESSAGES, one.lag_messages),
            (LAG_LATENCY, age_ms(one.oldest_unsettled_ms, now_ms)),
            (INFLIGHT_MESSAGES, one.inflight_messages),
            (READY_MESSAGES, one.ready_messages),
            (QUEUEING_LATENCY, age_ms(one.oldest_ready_ms, now_ms)),
            (CACHED_MESSAGES, one.cached_messages),
            (CACHED_BYTES, one.cached_bytes),
            (WAITING_MESSAGES, one.waiting_messages),
            (BLOCKED_GROUPS, one.blocked_groups),
            (PARKED_GROUPS, one.parked_groups),
            (CELL_BYTES, one.cell_bytes),
            (FETCHING_PAUSED, int(one.fetching_paused)),
        ):
            yield Sample(metric, labels, value)


def lake_samples(seen: LakeOverview) -> Iterator[Sample]:
    """The metrics of all groups and timers of a lake, named as owners' and players'."""
    for group in seen.groups:
        labels = (group.topic, group.group)
        yield Sample(TOPIC_QUEUES, labels, len(group.queues))
        yield Sample(GROUP_CONSUMERS, labels, group.consumers)
        yield Sample(GROUP_OWNED_QUEUES, labels, group.owned)
        is_native = group.protocol is GroupProtocol.PENSTOCK
        if is_native:
            yield Sample(GROUP_DEAD_LETTERS, labels, group.dead_letters)
        for one in group.queues:
            found = one.progress
            retries = ((WAITING_MESSAGES, found.waiting), (BLOCKED_GROUPS, found.blocked), (PARKED_GROUPS, found.parked))
            for metric, value in ((LAG_MESSAGES, found.lag), (LAG_LATENCY, one.lag_ms), *(retries if is_native else ())):
                if value is not None:
                    yield Sample(metric, (*labels, str(found.queue)), value)
    for topic, waiting in seen.timers.items():
        yield Sample(TIMING_MESSAGES, (topic,), waiting)


class FailureCounters:
    """Counts the failures of one topic in one group by error, of which there may be any number."""

    def __init__(self, count: Callable[[str], Counter]) -> None:
        self._count = count
        self._by_error: dict[str, Counter] = {}

    def count(self, errors: Iterable[str]) -> None:
        for error, count in collections.Counter(errors).items():
            known = self._by_error.get(error)
            if known is None and len(self._by_error) < ERRORS_MAX:
                known = self._by_error[error] = self._count(OTHER_ERROR if steers(error) else error)
            elif known is None:
                known = self._count(OTHER_ERROR)
            known.add(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounters:
    """The counters of one topic in one group."""

    messages_out: Counter
    bytes_out: Counter
    sent_to_dlq: Counter
    lost_letters: Counter
    failed_attempts: Counter
    failures: FailureCounters
    cell_writes: Counter
    take_overs: Counter
    hand_overs: Counter
    succeeded_ms: Histogram
    """Successful handlers; below, the others."""
    failed_ms: Histogram
    delivery_ms: Histogram
    await_ms: Histogram

    def count_failures(self, errors: Sequence[str]) -> None:
        """Count failed attempts, all and by error."""
        self.failed_attempts.add(len(errors))
        self.failures.count(errors)

    @classmethod
    def of(cls, metrics: Metrics, *, topic: str, group: str) -> TopicCounters:
        def counter(metric: Metric) -> Counter:
            return metrics.counter(metric, topic=topic, consumer_group=group)

        def process_time(status: str) -> Histogram:
            return metrics.histogram(PROCESS_TIME, topic=topic, consumer_group=group, invocation_status=status)

        return cls(
            messages_out=counter(MESSAGES_OUT),
            bytes_out=counter(THROUGHPUT_OUT),
            sent_to_dlq=counter(SENT_TO_DLQ),
            lost_letters=counter(LOST_LETTERS),
            failed_attempts=counter(FAILED_ATTEMPTS),
            failures=FailureCounters(lambda error: metrics.counter(FAILURES, topic=topic, consumer_group=group, error=error)),
            cell_writes=counter(CELL_WRITES),
            take_overs=counter(TAKE_OVERS),
            hand_overs=counter(HAND_OVERS),
            succeeded_ms=process_time("success"),
            failed_ms=process_time("failure"),
            delivery_ms=metrics.histogram(DELIVERY_LATENCY, topic=topic, consumer_group=group),
            await_ms=metrics.histogram(AWAIT_TIME, topic=topic, consumer_group=group),
        )
