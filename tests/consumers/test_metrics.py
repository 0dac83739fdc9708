"""Counting: what is counted by whom, what several consumers of a process say together, and what the records become as samples."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import penstock
from penstock.consumers.metrics import Kind, MemoryMetrics, Metric, Sample
from penstock.consumers.statistics import (
    AWAIT_TIME,
    CATALOGUE,
    CONSUMER_CONNECTIONS,
    DELIVERY_LATENCY,
    ERRORS_MAX,
    FAILURES,
    FETCHING_PAUSED,
    INFLIGHT_MESSAGES,
    LAG_LATENCY,
    LAG_MESSAGES,
    MESSAGE_SIZE,
    MESSAGES_IN,
    MESSAGES_OUT,
    OWNED_QUEUES,
    PARKED_GROUPS,
    PROCESS_TIME,
    PRODUCER_CONNECTIONS,
    PRODUCER_WAITING,
    QUEUEING_LATENCY,
    SEND_COST_TIME,
    THROUGHPUT_IN,
    TOPIC_QUEUES,
    ConsumerStatistics,
    QueueStatistics,
    TopicCounters,
    consumer_samples,
    producer_samples,
    sends_counted,
)
from penstock.log import BatchOutcome, InternalError

ORDERS = {"topic": "orders", "consumer_group": "billing"}


def test_a_counter_is_one_for_all_who_ask_for_the_same_labels() -> None:
    metrics = MemoryMetrics()
    metrics.counter(MESSAGES_OUT, **ORDERS).add(3)
    metrics.counter(MESSAGES_OUT, consumer_group="billing", topic="orders").add()
    metrics.counter(MESSAGES_OUT, topic="orders", consumer_group="audit").add(10)
    assert metrics.value(MESSAGES_OUT, **ORDERS) == 4
    assert metrics.value(MESSAGES_OUT, topic="orders", consumer_group="audit") == 10
    assert metrics.value(MESSAGES_OUT, topic="orders", consumer_group="nobody") is None


def test_threads_lose_no_count() -> None:
    metrics = MemoryMetrics()
    counter, histogram = (
        metrics.counter(MESSAGES_OUT, **ORDERS),
        metrics.histogram(PROCESS_TIME, **ORDERS, invocation_status="success"),
    )
    begin = threading.Barrier(4)

    def count() -> None:
        begin.wait()
        for _ in range(5_000):
            counter.add()
            histogram.observe(2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.value(MESSAGES_OUT, **ORDERS) == 20_000
    (found,) = metrics.distributions()
    assert (sum(found.counts), found.sum) == (20_000, 40_000)


def test_a_value_falls_into_the_first_bucket_that_holds_it() -> None:
    metrics = MemoryMetrics()
    histogram = metrics.histogram(PROCESS_TIME, **ORDERS, invocation_status="failure")
    for value in (0, 1, 1.5, 60_000, 60_001):
        histogram.observe(value)
    (found,) = metrics.distributions()
    assert PROCESS_TIME.buckets == (1, 5, 10, 100, 1_000, 10_000, 60_000)
    assert found.counts == (2, 1, 0, 0, 0, 0, 1, 1)
    assert found.sum == 120_003.5


def test_a_source_is_asked_when_somebody_looks_until_it_is_given_up() -> None:
    metrics, asked = MemoryMetrics(), []

    def source() -> Iterator[Sample]:
        asked.append(True)
        yield Sample(PARKED_GROUPS, ("orders", "billing", "0"), 2)

    forget = metrics.watch(source)
    assert not asked
    assert metrics.value(PARKED_GROUPS, **ORDERS, queue="0") == 2
    forget()
    assert metrics.value(PARKED_GROUPS, **ORDERS, queue="0") is None
    assert len(asked) == 1
    forget()  # again does nothing


def test_what_a_source_raises_is_raised() -> None:
    metrics = MemoryMetrics()

    def source() -> list[Sample]:
        raise ValueError("no such state")

    metrics.watch(source)
    with pytest.raises(ValueError, match="no such state"):
        metrics.samples()


def test_consumers_of_one_process_are_added_up_but_the_age_of_the_oldest_is_the_oldest() -> None:
    metrics = MemoryMetrics()
    # During a hand-over inside one process both report the queue for a moment.
    for inflight, oldest_ms in ((3, 9_000), (2, 4_000)):
        one = QueueStatistics(
            topic="orders", queue=1, lag_messages=7, inflight_messages=inflight, ready_messages=0, oldest_unsettled_ms=oldest_ms
        )
        said = ConsumerStatistics(group="billing", queues=(one,), topic_queues=(("orders", 4),))
        metrics.watch(lambda said=said: consumer_samples(said, now_ms=10_000))  # type: ignore[misc]
    assert metrics.value(CONSUMER_CONNECTIONS, consumer_group="billing") == 2
    assert metrics.value(INFLIGHT_MESSAGES, **ORDERS, queue="1") == 5
    assert metrics.value(LAG_MESSAGES, **ORDERS, queue="1") == 7
    assert metrics.value(LAG_LATENCY, **ORDERS, queue="1") == 6_000
    assert metrics.value(OWNED_QUEUES, **ORDERS) == 2
    assert metrics.value(TOPIC_QUEUES, **ORDERS) == 4


def test_ages_are_of_the_moment_of_looking_and_never_negative() -> None:
    one = QueueStatistics(
        topic="orders",
        queue=0,
        lag_messages=1,
        inflight_messages=0,
        ready_messages=1,
        oldest_unsettled_ms=5_000,
        oldest_ready_ms=5_000,
        fetching_paused=True,
    )
    said = ConsumerStatistics(group="billing", queues=(one,))

    def value(metric: Metric, now_ms: int) -> float:
        return next(sample.value for sample in consumer_samples(said, now_ms=now_ms) if sample.metric == metric)

    assert (value(LAG_LATENCY, 5_250), value(LAG_LATENCY, 6_000)) == (250, 1_000)
    assert value(QUEUEING_LATENCY, 4_000) == 0
    assert value(FETCHING_PAUSED, 5_000) == 1


def test_a_topic_without_an_owned_queue_shows_that_it_has_none() -> None:
    said = ConsumerStatistics(group="billing", topic_queues=(("orders", 8),))
    found = {sample.metric: sample.value for sample in consumer_samples(said, now_ms=0)}
    assert found == {CONSUMER_CONNECTIONS: 1, TOPIC_QUEUES: 8, OWNED_QUEUES: 0}


def test_a_lake_s_open_producers_are_counted_by_topic() -> None:
    metrics = MemoryMetrics()
    with penstock.connect("memory://") as lake:
        for topic in ("orders", "audit"):
            lake.create_topic(topic, queues=1)
        forget = metrics.watch(lambda: producer_samples(lake.producer_statistics()))
        with lake.producer("orders"), lake.producer("orders", linger=timedelta(hours=1)) as slow, lake.producer("audit"):
            slow.send(penstock.Message(b"paid" * 1_000))
            assert metrics.value(PRODUCER_CONNECTIONS, topic="orders") == 2
            assert metrics.value(PRODUCER_CONNECTIONS, topic="audit") == 1
            assert (metrics.value(PRODUCER_WAITING, topic="orders") or 0) >= 4_000
            assert metrics.value(PRODUCER_WAITING, topic="audit") == 0
        assert metrics.value(PRODUCER_CONNECTIONS, topic="orders") is None
        forget()


def test_a_producer_counts_what_is_durable_and_how_long_a_batch_took() -> None:
    metrics = MemoryMetrics()
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=1)
        with lake.producer("orders", linger=timedelta(0), metrics=metrics) as producer:
            producer.send(penstock.Message(b"a" * 1_000)).result()
            producer.send_batch([penstock.Message(b"b" * 3_000), penstock.Message(b"c" * 5_000)]).result()
    assert metrics.value(MESSAGES_IN, topic="orders") == 3, "of a producer that is closed too"
    assert metrics.value(THROUGHPUT_IN, topic="orders") == 9_000
    found = {(one.metric, one.labels): one for one in metrics.distributions()}
    assert found[MESSAGE_SIZE, ("orders",)].counts == (1, 1, 0, 0, 0, 0, 0), "the mean of each batch: 1,000 and 4,000 bytes"
    took = found[SEND_COST_TIME, ("orders", "success")]
    assert sum(took.counts) == 2
    assert 0 < took.sum < 60_000
    assert not sum(found[SEND_COST_TIME, ("orders", "failure")].counts)


def test_a_batch_that_fails_is_counted_as_such() -> None:
    metrics = MemoryMetrics()
    count = sends_counted(metrics, topic="orders")
    count(BatchOutcome(messages=7, size_bytes=700, took_s=0.25, durable=False))
    assert metrics.value(MESSAGES_IN, topic="orders") == 0
    (failed,) = (one for one in metrics.distributions() if one.labels == ("orders", "failure"))
    assert failed.sum == 250


def test_a_consumer_counts_how_late_messages_came_and_how_long_they_waited_here() -> None:
    metrics, done = MemoryMetrics(), threading.Semaphore(0)

    def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
        if message.delivery_attempt == 1 and message.body == b"fails":
            return penstock.ConsumeResult.FAILURE
        done.release()
        return penstock.ConsumeResult.SUCCESS

    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=1, message_type="FIFO")
        with lake.producer("orders") as producer:
            for body in (b"fine", b"fails"):
                producer.send(penstock.Message(body, message_group=body.decode())).result()
        retry = penstock.RetryPolicy(interval=timedelta(milliseconds=200))
        with lake.push_consumer("orders", group="billing", listener=listen, retry=retry, metrics=metrics):
            assert done.acquire(timeout=60)
            assert done.acquire(timeout=60)
    found = {one.metric: one for one in metrics.distributions() if one.metric in (DELIVERY_LATENCY, AWAIT_TIME)}
    assert sum(found[DELIVERY_LATENCY].counts) >= 1
    assert sum(found[AWAIT_TIME].counts) == 2, "a retry waits for its time, which is not counted"
    assert 0 <= found[AWAIT_TIME].sum < 20_000


def test_a_metric_is_counted_as_what_it_is() -> None:
    metrics = MemoryMetrics()
    with pytest.raises(InternalError, match="rocketmq_messages_out_total"):
        metrics.counter(MESSAGES_OUT, topic="orders")
    with pytest.raises(InternalError, match="gauge by topic, consumer_group, queue"):
        metrics.counter(LAG_MESSAGES, **ORDERS, queue="0")
    with pytest.raises(InternalError):
        metrics.histogram(MESSAGES_OUT, **ORDERS)


def test_every_counter_and_histogram_of_consumers_can_be_counted() -> None:
    metrics = MemoryMetrics()
    sends_counted(metrics, topic="orders")(BatchOutcome(messages=2, size_bytes=2, took_s=0.001, durable=True))
    counters = TopicCounters.of(metrics, topic="orders", group="billing")
    for name in TopicCounters.__dataclass_fields__:
        counter = getattr(counters, name)
        if hasattr(counter, "add"):
            counter.add(2)
        elif name == "failures":
            counter.count(["ValueError", "ValueError"])
        else:
            counter.observe(2)
    counted = {sample.metric for sample in metrics.samples()}
    seen = {found.metric for found in metrics.distributions()}
    assert counted == {metric for metric in CATALOGUE if metric.kind is Kind.COUNTER and not metric.watched}
    assert seen == {metric for metric in CATALOGUE if metric.kind is Kind.HISTOGRAM}
    assert all(sample.value == 2 for sample in metrics.samples())


def test_failures_are_counted_by_error_and_of_too_many_errors_as_others() -> None:
    metrics = MemoryMetrics()
    failures = TopicCounters.of(metrics, topic="orders", group="billing").failures
    failures.count(["KeyError", "\x1b[2J", "KeyError"])
    failures.count(f"E{number}" for number in range(2 * ERRORS_MAX))
    failures.count(["KeyError", f"E{2 * ERRORS_MAX - 1}"])
    counted = {one.labels[-1]: one.value for one in metrics.samples() if one.metric is FAILURES}
    assert len(counted) <= ERRORS_MAX
    assert (counted["KeyError"], counted["E0"]) == (3, 1)
    assert counted["other"] > ERRORS_MAX
    assert sum(counted.values()) == 3 + 1 + 2 * ERRORS_MAX + 1


def test_names_follow_the_rules_of_both_systems() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(names) == len(set(names))
    for metric in CATALOGUE:
        assert metric.name.startswith(("rocketmq_", "penstock_"))
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
        assert list(metric.buckets) == sorted(set(metric.buckets))
        assert metric.help
