"""Metrics, independent of Prometheus and OpenTelemetry.

Gauges are read at each scrape (`Metrics.watch`), so an idle consumer does nothing. `penstock.infra.metrics` exports counts.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from .errors import InternalError, InvalidArgument
from .limits import plain


class Kind(StrEnum):
    """The kinds of metrics."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The name and meaning of what is counted."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    unit: str = ""
    """The unit as UCUM writes it: ``ms``, ``By``, ``{message}``."""
    buckets: tuple[float, ...] = ()
    """HISTOGRAM: upper bounds, inclusive, rising."""
    largest: bool = False
    """GAUGE: of several sources the largest counts, not their sum."""
    watched: bool = False
    """COUNTER: its source gives the current count at each scrape."""


def gauge(name: str, help: str, unit: str = "", *, labels: tuple[str, ...], largest: bool = False) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, help=help, labels=labels, unit=unit, largest=largest)


def counter(name: str, help: str, unit: str = "", *, labels: tuple[str, ...]) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=help, labels=labels, unit=unit)


def watched(name: str, help: str, unit: str = "", *, labels: tuple[str, ...]) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, help=help, labels=labels, unit=unit, watched=True)


def histogram(name: str, help: str, buckets: tuple[float, ...], *, labels: tuple[str, ...], unit: str = "ms") -> Metric:
    return Metric(name=name, kind=Kind.HISTOGRAM, help=help, labels=labels, unit=unit, buckets=buckets)


@dataclass(frozen=True, slots=True)
class Sample:
    """One number."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The counts of a histogram."""

    metric: Metric
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    """The count of each bucket alone; last, values above all buckets."""
    sum: float


Source: TypeAlias = Callable[[], Iterable[Sample]]
"""The current values; called in the exporter's threads."""


class Counter(Protocol):
    """Counts up; any thread may."""

    def add(self, amount: float = 1) -> None: ...


class Histogram(Protocol):
    """Takes values; any thread may."""

    def observe(self, value: float) -> None: ...

    def observe_all(self, values: Iterable[float]) -> None: ...


class Metrics(Protocol):
    """A place for counts. A caller keeps its counters; counting is then one addition."""

    def counter(self, metric: Metric, /, **labels: str) -> Counter: ...

    def histogram(self, metric: Metric, /, **labels: str) -> Histogram: ...

    def watch(self, source: Source, /) -> Callable[[], None]:
        """Ask ``source`` at each scrape for its gauges and ``watched`` counters, until the returned function is called."""
        ...


def check_metrics(metrics: object, operation: str) -> None:
    parts = [getattr(metrics, name, None) for name in ("counter", "histogram", "watch")]
    if isinstance(metrics, type) or not all(map(callable, parts)):
        raise InvalidArgument(
            "metrics cannot be counted there",
            operation=operation,
            expected="MemoryMetrics(), OpenTelemetryMetrics() or what has their methods",
            observed=plain(metrics),
        )


class MemoryMetrics:
    """Counts kept in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[tuple[Metric, tuple[str, ...]], _Counter] = {}
        self._histograms: dict[tuple[Metric, tuple[str, ...]], _Histogram] = {}
        self._sources: list[Source] = []

    def counter(self, metric: Metric, /, **labels: str) -> Counter:
        key = (metric, label_values(metric, labels, Kind.COUNTER))
        with self._lock:
            return self._counters.setdefault(key, _Counter())

    def histogram(self, metric: Metric, /, **labels: str) -> Histogram:
        key = (metric, label_values(metric, labels, Kind.HISTOGRAM))
        with self._lock:
            return self._histograms.setdefault(key, _Histogram(metric.buckets))

    def watch(self, source: Source, /) -> Callable[[], None]:
        with self._lock:
            self._sources = [*self._sources, source]
        return lambda: self._forget(source)

    def samples(self, *, failed: Callable[[Exception], None] | None = None) -> list[Sample]:
        """Counters and gauges. A source's error goes to ``failed`` and leaves that source out; without ``failed`` it is raised."""
        with self._lock:
            counted = [Sample(metric, labels, counter.value) for (metric, labels), counter in self._counters.items()]
            sources = self._sources
        # This is outside the lock: a source may take its time, and may count.
        return counted + merge_samples(samples_of(sources, failed))

    def distributions(self) -> list[Distribution]:
        with self._lock:
            return [histogram.distribution(metric, labels) for (metric, labels), histogram in self._histograms.items()]

    def value(self, metric: Metric, /, **labels: str) -> float | None:
        wanted = label_values(metric, labels, metric.kind)
        return next((one.value for one in self.samples() if one.metric == metric and one.labels == wanted), None)

    def _forget(self, source: Source) -> None:
        with self._lock:
            self._sources = [one for one in self._sources if one is not source]


class _Counter:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        with self._lock:
            self.value += amount


class _Histogram:
    def __init__(self, buckets: Sequence[float]) -> None:
        self._lock = threading.Lock()
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        place = bisect_left(self._buckets, value)
        with self._lock:
            self._sum += value
            self._counts[place] += 1

    def observe_all(self, values: Iterable[float]) -> None:
        values = sorted(values)  # then few buckets are looked for, and most often one has all
        found: list[tuple[int, int]] = []
        at = 0
        while at < len(values):
            place = bisect_left(self._buckets, values[at])
            limit = bisect_right(values, self._buckets[place]) if place < len(self._buckets) else len(values)
            found.append((place, limit - at))
            at = limit
        total = sum(values)
        with self._lock:
            self._sum += total
            for place, count in found:
                self._counts[place] += count

    def distribution(self, metric: Metric, labels: tuple[str, ...]) -> Distribution:
        with self._lock:
            return Distribution(metric, labels, tuple(self._counts), self._sum)


def samples_of(sources: Iterable[Source], failed: Callable[[Exception], None] | None = None) -> Iterator[Sample]:
    for source in sources:
        try:
            samples = list(source())
        except Exception as error:
            if failed is None:
                raise
            failed(error)
        else:
            yield from samples


def merge_samples(samples: Iterable[Sample]) -> list[Sample]:
    """One sample for each set of labels: the sum over the sources, or the largest."""
    found: dict[tuple[Metric, tuple[str, ...]], float] = {}
    for sample in samples:
        key = (sample.metric, sample.labels)
        if key not in found:
            found[key] = sample.value
        else:
            found[key] = max(found[key], sample.value) if sample.metric.largest else found[key] + sample.value
    return [Sample(metric, labels, value) for (metric, labels), value in found.items()]


def label_values(metric: Metric, labels: dict[str, str], kind: Kind) -> tuple[str, ...]:
    """Values in the metric's order. Raises `InternalError` for another kind or other labels."""
    if metric.kind is not kind or labels.keys() != set(metric.labels):
        raise InternalError(
            "a metric was counted as what it is not",
            object=metric.name,
            expected=f"{metric.kind} by {', '.join(metric.labels)}",
            observed=f"{kind} by {', '.join(labels)}",
        )
    return tuple(labels[name] for name in metric.labels)


def age_ms(since_ms: int | None, now_ms: int) -> int:
    return 0 if since_ms is None else max(0, now_ms - since_ms)
