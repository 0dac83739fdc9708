"""Metrics as monitoring systems get them: scraped over HTTP by Prometheus's own parser, and through OpenTelemetry's own SDK."""

from __future__ import annotations

import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock.consumers.handlers.results import ConsumeResult, RetryAfter
from penstock.consumers.metrics import MemoryMetrics, Metrics
from penstock.consumers.statistics import (
    BLOCKED_GROUPS,
    CATALOGUE,
    LAG_LATENCY,
    LAG_MESSAGES,
    LOOK_AGE,
    LOOK_TIME,
    MESSAGES_OUT,
    PARKED_GROUPS,
    PROCESS_TIME,
    QUEUEING_LATENCY,
    REFUSED,
    SENT_TO_DLQ,
    UNREAD,
    WAITING_MESSAGES,
    ConsumerStatistics,
    FailureCounters,
    QueueStatistics,
    TopicCounters,
    consumer_samples,
    lake_samples,
    producer_samples,
    sends_counted,
    timer_samples,
    transaction_samples,
)
from penstock.coordinator import DeadLetterPolicy, TimerStatistics, TransactionStatistics
from penstock.coordinator.operators.lake_view import GroupOverview, LakeOverview
from penstock.coordinator.transactions.statistics import GroupTransactions, OpenTransactions, TopicTransactions
from penstock.infra.metrics import MetricsServer, OpenTelemetryMetrics, serve_prometheus
from penstock.log import BatchOutcome, ProducerStatistics
from penstock.log.errors import InternalError, InvalidArgument, MissingDependency
from penstock.log.metrics import Sample
from tests.lakes import TIMEOUT_S, send_all
from tests.waiting import wait_until

GROUP = "billing"
SENDING = ProducerStatistics(messages_durable=1, batches_durable=1, bytes_waiting=12, failed=False)
ODD = '%DLQ%billing "x"\\\n'
"""What a label may hold that the text form must quote."""


def count_everything(metrics: Metrics, topic: str = "orders") -> None:
    """A little of all that there is."""
    metrics.watch(lambda: [Sample(REFUSED, (), 0.0)])
    counters = TopicCounters.of(metrics, topic=topic, group=GROUP)
    for name in TopicCounters.__dataclass_fields__:
        counter = getattr(counters, name)
        if isinstance(counter, FailureCounters):
            counter.count(["KeyError"])
        elif hasattr(counter, "add"):
            counter.add(3)
        else:
            counter.observe(7)
    sends_counted(metrics, topic=topic)(BatchOutcome(messages=3, size_bytes=300, took_s=0.007, durable=True))
    one = QueueStatistics(topic=topic, queue=2, lag_messages=40, inflight_messages=5, ready_messages=35, oldest_unsettled_ms=1_000)
    said = ConsumerStatistics(group=GROUP, queues=(one,), topic_queues=((topic, 4),))
    metrics.watch(lambda: consumer_samples(said, now_ms=3_500))
    metrics.watch(lambda: producer_samples([(topic, SENDING)]))
    group = GroupOverview(group="audit", topic=topic, consumers=0, owned=0, dead_letters=2, queues=())
    metrics.watch(lambda: lake_samples(LakeOverview(groups=(group,), ended_s=0, took_s=0)))
    metrics.watch(lambda: [Sample(LOOK_AGE, (), 1), Sample(LOOK_TIME, (), 2), Sample(UNREAD, ("topic", topic), 3)])
    metrics.watch(lambda: timer_samples({topic: TimerStatistics(fired=9, waiting=7, late_ms=40)}))
    standing = OpenTransactions(open=2, oldest_ms=500, half_messages={topic: 6})
    metrics.watch(
        lambda: transaction_samples(
            TransactionStatistics(
                at_ms=3_000,
                groups={GROUP: GroupTransactions(begun=5, committed=2, standing=standing)},
                topics={topic: TopicTransactions(committed_messages=4)},
            )
        )
    )


@pytest.fixture
def metrics() -> MemoryMetrics:
    return MemoryMetrics()


@pytest.fixture
def server(metrics: MemoryMetrics) -> Iterator[MetricsServer]:
    serving = serve_prometheus(metrics, port=0)
    yield serving
    serving.close()


def scrape(server: MetricsServer) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All series of the page, as Prometheus's parser reads them; fails on a series that stands twice."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=TIMEOUT_S) as answer:
        text = answer.read().decode()
    rows = [row for family in text_string_to_metric_families(text) for row in family.samples]
    found = {(row.name, frozenset(row.labels.items())): row.value for row in rows}
    assert len(found) == len(rows)
    return found


def series(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_a_scrape_has_every_metric_of_the_catalogue_under_its_name(server: MetricsServer, metrics: MemoryMetrics) -> None:
    count_everything(metrics)
    found = scrape(server)
    names = {name for name, _ in found}
    for metric in CATALOGUE:
        assert (f"{metric.name}_bucket" if metric.buckets else metric.name) in names
    orders = {"topic": "orders", "consumer_group": GROUP}
    assert found[series("rocketmq_messages_out_total", **orders)] == 3
    assert found[series("rocketmq_consumer_lag_messages", **orders, queue="2")] == 40
    assert found[series("rocketmq_consumer_lag_latency", **orders, queue="2")] == 2_500
    assert found[series("penstock_topic_queues", **orders)] == 4
    assert found[series("rocketmq_producer_connections", topic="orders")] == 1
    assert found[series("penstock_timers_fired_total", topic="orders")] == 9
    assert found[series("penstock_transactions_ended_total", producer_group=GROUP, outcome="committed")] == 2
    assert found[series("penstock_open_transactions_age_seconds", producer_group=GROUP)] == 2.5


def test_buckets_are_cumulative(server: MetricsServer, metrics: MemoryMetrics) -> None:
    labels = {"topic": "orders", "consumer_group": GROUP, "invocation_status": "success"}
    histogram = metrics.histogram(PROCESS_TIME, **labels)
    for value in (0.5, 7, 7, 99_999):
        histogram.observe(value)
    found = scrape(server)
    below = {dict(key)["le"]: value for (name, key), value in found.items() if name == "rocketmq_process_time_bucket"}
    assert below == {"1.0": 1, "5.0": 1, "10.0": 3, "100.0": 3, "1000.0": 3, "10000.0": 3, "60000.0": 3, "+Inf": 4}
    assert found[series("rocketmq_process_time_count", **labels)] == 4
    assert found[series("rocketmq_process_time_sum", **labels)] == 100_013.5


def test_labels_survive_whatever_they_hold(server: MetricsServer, metrics: MemoryMetrics) -> None:
    metrics.counter(MESSAGES_OUT, topic=ODD, consumer_group=GROUP).add()
    assert scrape(server)[series("rocketmq_messages_out_total", topic=ODD, consumer_group=GROUP)] == 1


def test_scraping_reads_what_is_now(server: MetricsServer, metrics: MemoryMetrics) -> None:
    counter = metrics.counter(MESSAGES_OUT, topic="orders", consumer_group=GROUP)
    counter.add(2)
    name = series("rocketmq_messages_out_total", topic="orders", consumer_group=GROUP)
    assert scrape(server)[name] == 2
    counter.add(5)
    assert scrape(server)[name] == 7


def test_a_source_that_fails_is_told_once_and_leaves_the_others(
    server: MetricsServer, metrics: MemoryMetrics, caplog: pytest.LogCaptureFixture
) -> None:
    well = False

    def source() -> list[Sample]:
        if not well:
            raise NameError("producer_samples")
        return []

    metrics.watch(source)
    count_everything(metrics)
    names = {name for name, _ in scrape(server)}
    assert "rocketmq_messages_out_total" in names
    assert "rocketmq_consumer_lag_messages" in names
    scrape(server)
    told = "a source of metrics fails, and its metrics are left out: NameError: producer_samples"
    assert caplog.messages == [told]
    well = True
    scrape(server)
    well = False
    scrape(server)
    assert caplog.messages == [told, told]


def test_the_process_itself_is_shown_too(server: MetricsServer) -> None:
    assert any(name == "python_info" for name, _ in scrape(server))


def test_a_closed_server_frees_its_port(metrics: MemoryMetrics) -> None:
    first = serve_prometheus(metrics, port=0, host="127.0.0.1")
    port = first.port
    first.close()
    second = serve_prometheus(metrics, port=port, host="127.0.0.1")
    second.close()
    assert second.port == port


@pytest.mark.parametrize("port", [None, 99_999])
def test_a_port_that_cannot_be_had_is_named(metrics: MemoryMetrics, port: int | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        asked = taken.getsockname()[1] if port is None else port
        with pytest.raises(InvalidArgument, match=rf"metrics cannot be served here .*{asked}.*Name another port"):
            serve_prometheus(metrics, port=asked, host="127.0.0.1")


def read_all(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, str], object]]]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: [
            ({name: str(value) for name, value in (point.attributes or {}).items()}, point) for point in metric.data.data_points
        ]
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


@pytest.fixture
def telemetry() -> Iterator[tuple[OpenTelemetryMetrics, InMemoryMetricReader]]:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader], shutdown_on_exit=False)
    yield OpenTelemetryMetrics(provider.get_meter("test")), reader
    provider.shutdown()


def test_opentelemetry_has_every_metric_of_the_catalogue(telemetry: tuple[OpenTelemetryMetrics, InMemoryMetricReader]) -> None:
    metrics, reader = telemetry
    count_everything(metrics)
    found = read_all(reader)
    assert set(found) == {metric.name for metric in CATALOGUE}
    ((labels, point),) = found["rocketmq_consumer_lag_messages"]
    assert labels == {"topic": "orders", "consumer_group": GROUP, "queue": "2"}
    assert point.value == 40  # type: ignore[attr-defined]
    ((labels, point),) = found["penstock_transactions_begun_total"]
    assert (labels, point.value) == ({"producer_group": GROUP}, 5)  # type: ignore[attr-defined]
    statuses = {labels["invocation_status"]: point for labels, point in found["rocketmq_process_time"]}
    assert set(statuses) == {"success", "failure"}
    assert tuple(statuses["success"].explicit_bounds) == PROCESS_TIME.buckets  # type: ignore[attr-defined]
    assert statuses["success"].sum == 7  # type: ignore[attr-defined]


def test_opentelemetry_adds_up_consumers_of_one_process_and_forgets_them(
    telemetry: tuple[OpenTelemetryMetrics, InMemoryMetricReader],
) -> None:
    metrics, reader = telemetry
    forgets = [metrics.watch(lambda: producer_samples([("orders", SENDING)])) for _ in range(2)]
    ((_, point),) = read_all(reader)["rocketmq_producer_connections"]
    assert point.value == 2  # type: ignore[attr-defined]
    forgets[0]()
    ((_, point),) = read_all(reader)["rocketmq_producer_connections"]
    assert point.value == 1  # type: ignore[attr-defined]


def test_opentelemetry_refuses_a_metric_counted_as_what_it_is_not(
    telemetry: tuple[OpenTelemetryMetrics, InMemoryMetricReader],
) -> None:
    with pytest.raises(InternalError):
        telemetry[0].counter(LAG_MESSAGES, topic="orders", consumer_group=GROUP, queue="0")


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("prometheus_client", lambda: serve_prometheus(MemoryMetrics(), port=0), "metrics"),
        ("opentelemetry", OpenTelemetryMetrics, "opentelemetry"),
    ],
)
def test_without_the_extra_the_error_names_it(
    module: str, call: Callable[[], object], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(MissingDependency) as caught:
        call()
    assert caught.value.hint == f"pip install '.[{extra}]'"


def test_what_a_consumer_does_is_seen(server: MetricsServer, metrics: MemoryMetrics) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2)
        send_all(lake, [penstock.Message(b"paid", message_group=f"user-{number}") for number in range(10)])
        left, never = threading.Semaphore(0), threading.Event()

        def listen(message: penstock.MessageView) -> ConsumeResult:
            left.release()
            never.wait(0.001)
            return ConsumeResult.DEAD_LETTER if message.offset == 0 and message.queue == 0 else ConsumeResult.SUCCESS

        labels = {"topic": "orders", "consumer_group": GROUP}
        with lake.push_consumer("orders", group=GROUP, listener=listen, metrics=metrics):
            for _ in range(10):
                assert left.acquire(timeout=TIMEOUT_S)
            wait_until(lambda: metrics.value(SENT_TO_DLQ, **labels) == 1, "the dead letter")
            found = scrape(server)
            assert found[series("penstock_owned_queues", **labels)] == found[series("penstock_topic_queues", **labels)] == 2
            assert found[series("rocketmq_consumer_connections", consumer_group=GROUP)] == 1
        found = scrape(server)
    assert found[series("rocketmq_messages_out_total", **labels)] == 10
    assert found[series("rocketmq_throughput_out_total", **labels)] == 40
    assert found[series("penstock_failed_attempts_total", **labels)] == 1
    handled = {
        status: found[series("rocketmq_process_time_count", **labels, invocation_status=status)]
        for status in ("success", "failure")
    }
    assert handled == {"success": 9, "failure": 1}
    assert found[series("rocketmq_process_time_sum", **labels, invocation_status="success")] >= 5
    assert found[series("penstock_cell_writes_total", **labels)] >= 4
    assert found[series("penstock_hand_overs_total", **labels)] == 2
    assert found[series("penstock_take_overs_total", **labels)] == 0
    assert series("rocketmq_consumer_connections", consumer_group=GROUP) not in found


def test_parked_and_waiting_messages_are_seen_and_get_older(metrics: MemoryMetrics) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=1)
        send_all(lake, [penstock.Message(name.encode(), message_group=name) for name in ("parks", "waits", "goes", "parks")])

        def listen(message: penstock.MessageView) -> ConsumeResult | RetryAfter:
            if message.body == b"waits":
                return RetryAfter(timedelta(hours=1))
            return ConsumeResult.DEAD_LETTER if message.body == b"parks" else ConsumeResult.SUCCESS

        labels = {"topic": "orders", "consumer_group": GROUP, "queue": "0"}
        park = DeadLetterPolicy.PARK
        with lake.push_consumer("orders", group=GROUP, listener=listen, metrics=metrics, dead_letter_policy=park):
            wait_until(lambda: metrics.value(PARKED_GROUPS, **labels) == 1, "the parked group")
            wait_until(lambda: metrics.value(WAITING_MESSAGES, **labels) == 1, "the waiting message")
            assert metrics.value(BLOCKED_GROUPS, **labels) == 1
            before_ms = metrics.value(LAG_LATENCY, **labels) or 0
            wait_until(lambda: (metrics.value(LAG_LATENCY, **labels) or 0) > before_ms, "the oldest message gets older")
            assert metrics.value(QUEUEING_LATENCY, **labels) == 0  # everything was handed out once
