"""Consumers' metrics for Prometheus or OpenTelemetry.

Needs ``penstock[metrics]`` (prometheus-client) or ``penstock[opentelemetry]`` (its API; the application chooses the exporter).
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from ..log.errors import InvalidArgument, MissingDependency, install_hint
from ..log.metrics import (
    Counter,
    Distribution,
    Histogram,
    Kind,
    MemoryMetrics,
    Metric,
    Source,
    label_values,
    merge_samples,
    samples_of,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric as Family


LOOPBACK = "127.0.0.1"

log = logging.getLogger("penstock.metrics")


def catalogue() -> tuple[Metric, ...]:
    """All metrics of Penstock, those of gateways too."""
    from ..consumers.statistics import CATALOGUE
    from ..gateway.kafka.metrics import CATALOGUE as OF_KAFKA
    from ..gateway.metrics import CATALOGUE as OF_GATEWAYS
    from ..gateway.rocketmq.metrics import CATALOGUE as OF_ROCKETMQ
    from .pool_metrics import CATALOGUE as OF_POOLS

    return (*CATALOGUE, *OF_ROCKETMQ, *OF_KAFKA, *OF_GATEWAYS, *OF_POOLS)


class _Failures:
    """The failing sources, each logged once until a scrape without errors."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    @contextmanager
    def noted(self) -> Iterator[Callable[[Exception], None]]:
        """One scrape; the function takes the errors of failing sources."""
        found: set[str] = set()

        def note(error: Exception) -> None:
            text = f"{type(error).__name__}: {error}"
            if text not in self._told:
                log.warning("a source of metrics fails, and its metrics are left out: %s", text, exc_info=error)
            found.add(text)

        yield note
        self._told = found


class PrometheusCollector:
    """Shows `MemoryMetrics` to prometheus-client: ``registry.register(PrometheusCollector(metrics))``. Nothing is copied between scrapes."""

    def __init__(self, metrics: MemoryMetrics) -> None:
        self._metrics = metrics
        self._failures = _Failures()

    def describe(self) -> list[Family]:
        """The names alone, so that registering reads nothing."""
        return [_family(metric) for metric in catalogue()]

    def collect(self) -> list[Family]:
        """The counts so far, but of sources that fail."""
        families: dict[Metric, Family] = {}

        def family(metric: Metric) -> Family:
            if metric not in families:
                families[metric] = _family(metric)
            return families[metric]

        with self._failures.noted() as note:
            samples = self._metrics.samples(failed=note)
        for sample in samples:
            labels = dict(zip(sample.metric.labels, sample.labels, strict=True))
            family(sample.metric).add_sample(sample.metric.name, labels, sample.value)
        for distribution in self._metrics.distributions():
            for row in _histogram_rows(distribution):
                family(distribution.metric).add_sample(*row)
        return list(families.values())


def _family(metric: Metric) -> Family:
    """A metric without series, named without the ending of counters."""
    from prometheus_client.metrics_core import Metric as Family

    return Family(metric.name.removesuffix("_total") if metric.kind is Kind.COUNTER else metric.name, metric.help, str(metric.kind))


def _histogram_rows(found: Distribution) -> Iterator[tuple[str, dict[str, str], float]]:
    """Prometheus counts cumulatively: each bucket holds those below it too."""
    labels = dict(zip(found.metric.labels, found.labels, strict=True))
    bounds = [*(str(float(bound)) for bound in found.metric.buckets), "+Inf"]
    totals = list(itertools.accumulate(found.counts))
    for bound, total in zip(bounds, totals, strict=True):
        yield f"{found.metric.name}_bucket", {**labels, "le": bound}, total
    yield f"{found.metric.name}_count", labels, totals[-1]
    yield f"{found.metric.name}_sum", labels, found.sum


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """A port where Prometheus, and a readiness probe, finds ``/metrics``."""

    server: WSGIServer
    thread: threading.Thread

    @property
    def port(self) -> int:
        return self.server.server_port

    def close(self) -> None:
        """Stop listening, and wait until the thread has ended."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def serve_prometheus(metrics: MemoryMetrics | WorkersCollector, *, port: int, host: str = LOOPBACK) -> MetricsServer:
    """Serve ``/metrics`` on ``port`` (0: any free one) from a thread, with the process's CPU, memory and open files where they are known.

    Callers who reach the port read all metrics: only this machine does, unless ``host`` names another address (0.0.0.0: all).

    Raises `MissingDependency` without prometheus-client, `InvalidArgument` when the port is taken or may not be used.
    """
    registry = _registry(metrics)
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except (OSError, OverflowError) as error:
        raise InvalidArgument(
            "metrics cannot be served here",
            operation="serve metrics",
            object=f"{host}:{port}",
            observed=str(error),
            hint="Name another port, or an address of this machine",
        ) from error
    return MetricsServer(server, thread)


def metrics_text(metrics: MemoryMetrics) -> str:
    """What `serve_prometheus` would serve. Raises `MissingDependency`."""
    registry = _registry(metrics)
    from prometheus_client import generate_latest

    return generate_latest(registry).decode()


def _registry(metrics: MemoryMetrics | WorkersCollector) -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
    except ImportError as error:
        raise _missing("serving metrics needs prometheus-client", error, "metrics") from error
    registry = CollectorRegistry()
    if isinstance(metrics, WorkersCollector):
        registry.register(metrics)
        return registry
    for make in (ProcessCollector, PlatformCollector, GCCollector):
        make(registry=registry)
    registry.register(PrometheusCollector(metrics))
    return registry


class WorkersCollector:
    """Shows the metrics of several processes to prometheus-client, each sample with the label ``worker``."""

    def __init__(self, texts: Callable[[], Mapping[str, str]]) -> None:
        """``texts`` gives what `metrics_text` gave in each process, by its name; it is asked at each scrape."""
        self._texts = texts

    def describe(self) -> list[Family]:
        """Nothing, so that registering asks nobody."""
        return []

    def collect(self) -> list[Family]:
        """The samples of all processes, by family."""
        from prometheus_client.metrics_core import Metric as Family
        from prometheus_client.parser import text_string_to_metric_families

        found: dict[str, Family] = {}
        for worker, text in self._texts().items():
            for family in text_string_to_metric_families(text):
                shown = found.setdefault(family.name, Family(family.name, family.documentation, family.type))
                for sample in family.samples:
                    shown.add_sample(sample.name, {**sample.labels, "worker": worker}, sample.value)
        return list(found.values())


@contextmanager
def metrics_server(metrics: MemoryMetrics | WorkersCollector, port: int | None, host: str = LOOPBACK) -> Iterator[int | None]:
    """Serve ``/metrics`` inside the block, which gets the port; None: do not. Raises the errors of `serve_prometheus`."""
    if port is None:
        yield None
        return
    server = serve_prometheus(metrics, port=port, host=host)
    log.info("metrics are served on port %d", server.port, extra={"fields": {"port": server.port}})
    try:
        yield server.port
    finally:
        server.close()


class OpenTelemetryMetrics:
    """Counts into instruments of OpenTelemetry; pass it to consumers in place of `MemoryMetrics`.

    ``meter`` is ``opentelemetry.metrics.get_meter("penstock")`` unless given. Raises `MissingDependency` without ``opentelemetry-api``.
    """

    def __init__(self, meter: Meter | None = None) -> None:
        try:
            from opentelemetry import metrics
        except ImportError as error:
            raise _missing("metrics for OpenTelemetry need its API", error, "opentelemetry") from error
        known = catalogue()
        self._observation = metrics.Observation
        self._meter = meter or metrics.get_meter("penstock")
        self._lock = threading.Lock()
        self._sources: list[Source] = []
        counters = [metric for metric in known if metric.kind is Kind.COUNTER and not metric.watched]
        histograms = [metric for metric in known if metric.kind is Kind.HISTOGRAM]
        self._counters = {metric: self._meter.create_counter(metric.name, metric.unit, metric.help) for metric in counters}
        self._histograms = {
            metric: self._meter.create_histogram(
                metric.name, metric.unit, metric.help, explicit_bucket_boundaries_advisory=list(metric.buckets)
            )
            for metric in histograms
        }
        for metric in known:
            if metric.kind is Kind.GAUGE:
                self._meter.create_observable_gauge(metric.name, [self._observer(metric)], metric.unit, metric.help)
            elif metric.watched:
                self._meter.create_observable_counter(metric.name, [self._observer(metric)], metric.unit, metric.help)

    def counter(self, metric: Metric, /, **labels: str) -> Counter:
        label_values(metric, labels, Kind.COUNTER)
        instrument = self._counters[metric]
        return _Adding(lambda amount: instrument.add(amount, labels))

    def histogram(self, metric: Metric, /, **labels: str) -> Histogram:
        label_values(metric, labels, Kind.HISTOGRAM)
        instrument = self._histograms[metric]
        return _Observing(lambda value: instrument.record(value, labels))

    def watch(self, source: Source, /) -> Callable[[], None]:
        with self._lock:
            self._sources = [*self._sources, source]
        return lambda: self._forget(source)

    def _forget(self, source: Source) -> None:
        with self._lock:
            self._sources = [one for one in self._sources if one is not source]

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], list[Observation]]:
        failures = _Failures()

        def observe(_: CallbackOptions) -> list[Observation]:
            with failures.noted() as note:
                samples = [one for one in samples_of(self._sources, note) if one.metric == metric]
            return [
                self._observation(one.value, dict(zip(metric.labels, one.labels, strict=True))) for one in merge_samples(samples)
            ]

        return observe


@dataclass(frozen=True, slots=True)
class _Adding:
    count: Callable[[float], None]

    def add(self, amount: float = 1) -> None:
        self.count(amount)


@dataclass(frozen=True, slots=True)
class _Observing:
    record: Callable[[float], None]

    def observe(self, value: float) -> None:
        self.record(value)

    def observe_all(self, values: Iterable[float]) -> None:
        for value in values:
            self.record(value)


def _missing(what: str, error: ImportError, extra: str) -> MissingDependency:
    return MissingDependency(what, operation="metrics", observed=str(error), hint=install_hint(extra))
