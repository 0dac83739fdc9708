"""What operators see of consumers: records of how things stand, and the metrics that say the same to monitoring systems.

Names and units (latencies in milliseconds) are RocketMQ's where it has the metric, so that its dashboards fit. Other metrics are named
``penstock_…``. `CATALOGUE` holds all of them. Only gauges have a topic's queues as labels. Metrics that count messages are counted by topic
and group, which keeps the number of series small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..coordinator import TimerStatistics, TransactionStatistics
from ..coordinator.transactions.checking.checker import Answer
from ..coordinator.transactions.statistics import GroupTransactions
from ..log.produce.accumulator import BatchSent, ProducerStatistics
from .metrics import Counter, Histogram, Kind, Metric, Metrics, Sample, check_metrics

_TOPIC = ("topic", "consumer_group")
_QUEUE = ("topic", "consumer_group", "queue")
_PRODUCERS = ("producer_group",)
_MS, _MESSAGES, _BYTES = "ms", "{message}", "By"


def _gauge(name: str, help: str, unit: str = "", *, labels: tuple[str, ...] = _QUEUE, largest: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, help=help, labels=labels, unit=unit, largest=largest)


def _counter(name: str, help: str, unit: str = "", *, labels: tuple[str, ...] = _TOPIC) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=help, labels=labels, unit=unit)


def _watched(name: str, help: str, unit: str = "", *, labels: tuple[str, ...]) -> Metric:
    """A counter whose source gives the current count when somebody looks."""
    return Metric(name=name, kind=Kind.COUNTER, help=help, labels=labels, unit=unit, watched=True)


def _histogram(name: str, help: str, buckets: tuple[float, ...], *, labels: tuple[str, ...] = _TOPIC, unit: str = _MS) -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=help, labels=labels, unit=unit, buckets=buckets)


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
PRODUCER_CONNECTIONS = _gauge("rocketmq_producer_connections", "Open producers", labels=("topic",))
MESSAGES_IN = _counter("rocketmq_messages_in_total", "Messages sent, and durable", _MESSAGES, labels=("topic",))
THROUGHPUT_IN = _counter("rocketmq_throughput_in_total", "Their bodies, properties and groups", _BYTES, labels=("topic",))
MESSAGE_SIZE = _histogram(
    "rocketmq_message_size",
    "Of a message that was sent: the mean of each batch",
    (1_024, 4_096, 524_288, 1_048_576, 2_097_152, 4_194_304),
    labels=("topic",),
    unit=_BYTES,
)
SEND_COST_TIME = _histogram(
    "rocketmq_send_cost_time",
    "From send to durable, or given up, of the first message of each batch",
    (1, 5, 10, 20, 50, 200, 500, 1_000, 5_000),
    labels=("topic", "invocation_status"),
)
HALF_MESSAGES = _gauge("rocketmq_half_messages", "Messages of transactions that nobody has decided", _MESSAGES, labels=("topic",))
COMMIT_MESSAGES = _watched("rocketmq_commit_messages_total", "Messages of transactions committed", _MESSAGES, labels=("topic",))
ROLLBACK_MESSAGES = _watched(
    "rocketmq_rollback_messages_total", "Messages of transactions rolled back", _MESSAGES, labels=("topic",)
)
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
OWNED_QUEUES = _gauge("penstock_owned_queues", "Queues that this process's consumers own", labels=_TOPIC)
TOPIC_QUEUES = _gauge("penstock_topic_queues", "Queues of a subscribed topic, owned by anybody or not", labels=_TOPIC, largest=True)
PRODUCER_WAITING = _gauge("penstock_producer_waiting_bytes", "Sent, not yet durable, in memory", _BYTES, labels=("topic",))
TIMING_MESSAGES = _gauge("rocketmq_timing_messages", "Delayed messages that wait for their time", _MESSAGES, labels=("topic",))
TIMERS_LATE = _gauge(
    "penstock_timers_late", "How late a delayed message of the last ones came, at the most", _MS, labels=("topic",), largest=True
)
TIMERS_FIRED = _watched("penstock_timers_fired_total", "Delayed messages that came into their topic", _MESSAGES, labels=("topic",))
TIMER_CLAIMS = _watched(
    "penstock_timer_claims_total", "Steps that let delayed messages go, each a write of a cell", labels=("topic",)
)
TRANSACTIONS_BEGUN = _watched("penstock_transactions_begun_total", "Transactions with a first message", labels=_PRODUCERS)
TRANSACTIONS_ENDED = _watched(
    "penstock_transactions_ended_total",
    "Transactions decided: committed, rolled_back, or expired by age or for want of an answer",
    labels=(*_PRODUCERS, "outcome"),
)
CHECK_BACKS_ASKED = _watched("penstock_check_backs_asked_total", "Questions to a checker", labels=_PRODUCERS)
CHECK_BACKS_ANSWERED = _watched(
    "penstock_check_backs_answered_total",
    "What came of them: commit, rollback, unknown, failed (raised, or no answer) or late",
    labels=(*_PRODUCERS, "outcome"),
)
OPEN_TRANSACTIONS = _gauge("penstock_open_transactions", "Transactions that nobody has decided", labels=_PRODUCERS)
OPEN_TRANSACTIONS_AGE = _gauge(
    "penstock_open_transactions_age_seconds", "Age of the oldest of them", "s", labels=_PRODUCERS, largest=True
)
UNFINISHED_TRANSACTIONS = _gauge(
    "penstock_unfinished_transactions", "Transactions decided, and not visible or taken back everywhere", labels=_PRODUCERS
)
HALF_OBJECTS_DELETED = _watched(
    "penstock_half_objects_deleted_total", "Objects of half messages deleted after a rollback", labels=("topic",)
)
FAILED_ATTEMPTS = _counter("penstock_failed_attempts_total", "Attempts that failed: raised, refused or out of time")
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
    PRODUCER_CONNECTIONS,
    MESSAGES_IN,
    THROUGHPUT_IN,
    MESSAGE_SIZE,
    SEND_COST_TIME,
    HALF_MESSAGES,
    COMMIT_MESSAGES,
    ROLLBACK_MESSAGES,
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
    OWNED_QUEUES,
    TOPIC_QUEUES,
    PRODUCER_WAITING,
    TIMING_MESSAGES,
    TIMERS_LATE,
    TIMERS_FIRED,
    TIMER_CLAIMS,
    TRANSACTIONS_BEGUN,
    TRANSACTIONS_ENDED,
    CHECK_BACKS_ASKED,
    CHECK_BACKS_ANSWERED,
    OPEN_TRANSACTIONS,
    OPEN_TRANSACTIONS_AGE,
    UNFINISHED_TRANSACTIONS,
    HALF_OBJECTS_DELETED,
    FAILED_ATTEMPTS,
    CELL_WRITES,
    TAKE_OVERS,
    HAND_OVERS,
)
"""All metrics that Penstock counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """One queue of a consumer group, as its owner sees it."""

    topic: str
    queue: int
    lag_messages: int
    """Messages not settled, up to the end of the queue: fresh, in flight, waiting, blocked and parked ones."""
    inflight_messages: int
    ready_messages: int
    """Fresh messages, which were not handed out yet."""
    oldest_unsettled_ms: int | None = None
    """Store time of the first message that is not settled; None when all are."""
    oldest_ready_ms: int | None = None
    """Store time of the first fresh message; None when there is none."""
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
    """Every topic it subscribes to: its name, and how many queues it has."""


def consumer_samples(statistics: ConsumerStatistics, *, now_ms: int) -> Iterator[Sample]:
    """The gauges of a consumer at a moment, by the clock that store times are compared with."""
    group = statistics.group
    yield Sample(CONSUMER_CONNECTIONS, (group,), 1)
    for topic, count in statistics.topic_queues:
        yield Sample(TOPIC_QUEUES, (topic, group), count)
        yield Sample(OWNED_QUEUES, (topic, group), sum(one.topic == topic for one in statistics.queues))
    for one in statistics.queues:
        labels = (one.topic, group, str(one.queue))
        for metric, value in (
            (LAG_MESSAGES, one.lag_messages),
            (LAG_LATENCY, _age_ms(one.oldest_unsettled_ms, now_ms)),
            (INFLIGHT_MESSAGES, one.inflight_messages),
            (READY_MESSAGES, one.ready_messages),
            (QUEUEING_LATENCY, _age_ms(one.oldest_ready_ms, now_ms)),
            (CACHED_MESSAGES, one.cached_messages),
            (CACHED_BYTES, one.cached_bytes),
            (WAITING_MESSAGES, one.waiting_messages),
            (BLOCKED_GROUPS, one.blocked_groups),
            (PARKED_GROUPS, one.parked_groups),
            (CELL_BYTES, one.cell_bytes),
            (FETCHING_PAUSED, int(one.fetching_paused)),
        ):
            yield Sample(metric, labels, value)


def producer_samples(producers: Iterable[tuple[str, ProducerStatistics]]) -> Iterator[Sample]:
    """The gauges of open producers, as a lake's ``producer_statistics`` names them."""
    for topic, statistics in producers:
        yield Sample(PRODUCER_CONNECTIONS, (topic,), 1)
        yield Sample(PRODUCER_WAITING, (topic,), statistics.bytes_waiting)


def timer_samples(timers: Mapping[str, TimerStatistics]) -> Iterator[Sample]:
    """The metrics of the topics whose delayed messages this process delivers, as a lake's ``timer_statistics`` names them."""
    for topic, statistics in timers.items():
        yield Sample(TIMING_MESSAGES, (topic,), statistics.waiting)
        yield Sample(TIMERS_LATE, (topic,), statistics.late_ms)
        yield Sample(TIMERS_FIRED, (topic,), statistics.fired)
        yield Sample(TIMER_CLAIMS, (topic,), statistics.claims)


def transaction_samples(statistics: TransactionStatistics) -> Iterator[Sample]:
    """The metrics of transactions that this process wrote, asked about or looks after, as a lake's ``transaction_statistics`` tells them."""
    for group, one in statistics.groups.items():
        yield Sample(TRANSACTIONS_BEGUN, (group,), one.begun)
        yield Sample(TRANSACTIONS_ENDED, (group, "committed"), one.committed)
        yield Sample(TRANSACTIONS_ENDED, (group, "rolled_back"), one.rolled_back)
        yield Sample(TRANSACTIONS_ENDED, (group, "expired"), one.expired)
        yield Sample(CHECK_BACKS_ASKED, (group,), one.asked)
        for answer in Answer:
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
    yield Sample(OPEN_TRANSACTIONS_AGE, (group,), _age_ms(standing.oldest_ms, now_ms) / 1000)
    yield Sample(UNFINISHED_TRANSACTIONS, (group,), standing.unfinished)
    for topic, messages in standing.half_messages.items():
        yield Sample(HALF_MESSAGES, (topic,), messages)


def _age_ms(since_ms: int | None, now_ms: int) -> int:
    return 0 if since_ms is None else max(0, now_ms - since_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounters:
    """The counters of one topic in one consumer group. The counting code makes them once, with `of`."""

    messages_out: Counter
    bytes_out: Counter
    sent_to_dlq: Counter
    lost_letters: Counter
    failed_attempts: Counter
    cell_writes: Counter
    take_overs: Counter
    hand_overs: Counter
    succeeded_ms: Histogram
    """How long successful handlers ran; below, those that did not succeed."""
    failed_ms: Histogram
    delivery_ms: Histogram
    await_ms: Histogram

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
            cell_writes=counter(CELL_WRITES),
            take_overs=counter(TAKE_OVERS),
            hand_overs=counter(HAND_OVERS),
            succeeded_ms=process_time("success"),
            failed_ms=process_time("failure"),
            delivery_ms=metrics.histogram(DELIVERY_LATENCY, topic=topic, consumer_group=group),
            await_ms=metrics.histogram(AWAIT_TIME, topic=topic, consumer_group=group),
        )


def sends_counted(metrics: Metrics, *, topic: str) -> Callable[[BatchSent], None]:
    """Counts a producer's batches: pass it as ``ProducerOptions(on_batch=…)``. It costs four additions a batch, and nothing a message."""
    check_metrics(metrics, "producer")
    messages, size = metrics.counter(MESSAGES_IN, topic=topic), metrics.counter(THROUGHPUT_IN, topic=topic)
    mean_size = metrics.histogram(MESSAGE_SIZE, topic=topic)
    succeeded_ms = metrics.histogram(SEND_COST_TIME, topic=topic, invocation_status="success")
    failed_ms = metrics.histogram(SEND_COST_TIME, topic=topic, invocation_status="failure")

    def count(sent: BatchSent) -> None:
        (succeeded_ms if sent.durable else failed_ms).observe(1000 * sent.took_s)
        if sent.durable:
            messages.add(sent.messages)
            size.add(sent.size_bytes)
            mean_size.observe(sent.size_bytes / sent.messages)

    return count
