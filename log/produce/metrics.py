"""Producers' metrics by topic. Names and units are RocketMQ's where it has the metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..metrics import Metrics, Sample, check_metrics, counter, gauge, histogram
from .accumulator import BatchOutcome, ProducerStatistics

PRODUCER_CONNECTIONS = gauge("rocketmq_producer_connections", "Open producers", labels=("topic",))
MESSAGES_IN = counter("rocketmq_messages_in_total", "Messages sent, and durable", "{message}", labels=("topic",))
THROUGHPUT_IN = counter("rocketmq_throughput_in_total", "Their bodies, properties and groups", "By", labels=("topic",))
MESSAGE_SIZE = histogram(
    "rocketmq_message_size",
    "Of a message that was sent: the mean of each batch",
    (1_024, 4_096, 524_288, 1_048_576, 2_097_152, 4_194_304),
    labels=("topic",),
    unit="By",
)
SEND_COST_TIME = histogram(
    "rocketmq_send_cost_time",
    "From send to durable, or given up, of the first message of each batch",
    (1, 5, 10, 20, 50, 200, 500, 1_000, 5_000),
    labels=("topic", "invocation_status"),
)
PRODUCER_WAITING = gauge("penstock_producer_waiting_bytes", "Sent, not yet durable, in memory", "By", labels=("topic",))

CATALOGUE = (
    PRODUCER_CONNECTIONS,
    MESSAGES_IN,
    THROUGHPUT_IN,
    MESSAGE_SIZE,
    SEND_COST_TIME,
    PRODUCER_WAITING,
)


def producer_samples(producers: Iterable[tuple[str, ProducerStatistics]]) -> Iterator[Sample]:
    """The gauges of open producers."""
    for topic, statistics in producers:
        yield Sample(PRODUCER_CONNECTIONS, (topic,), 1)
        yield Sample(PRODUCER_WAITING, (topic,), statistics.bytes_waiting)


def sends_counted(metrics: Metrics, *, topic: str) -> Callable[[BatchOutcome], None]:
    """Counts batches, as ``ProducerOptions(on_batch=…)``: four additions each."""
    check_metrics(metrics, "producer")
    messages, size = metrics.counter(MESSAGES_IN, topic=topic), metrics.counter(THROUGHPUT_IN, topic=topic)
    mean_size = metrics.histogram(MESSAGE_SIZE, topic=topic)
    succeeded_ms = metrics.histogram(SEND_COST_TIME, topic=topic, invocation_status="success")
    failed_ms = metrics.histogram(SEND_COST_TIME, topic=topic, invocation_status="failure")

    def count(sent: BatchOutcome) -> None:
        (succeeded_ms if sent.durable else failed_ms).observe(1000 * sent.took_s)
        if sent.durable:
            messages.add(sent.messages)
            size.add(sent.size_bytes)
            mean_size.observe(sent.size_bytes / sent.messages)

    return count
