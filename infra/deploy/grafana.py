"""The Grafana dashboard, made from the catalogue of metrics: one panel for each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...consumers.statistics import (
    CATALOGUE,
    CELL_BYTES,
    FETCHING_PAUSED,
    LAG_LATENCY,
    QUEUEING_LATENCY,
)
from ...coordinator.operators import metrics as groups
from ...coordinator.timers import metrics as timers
from ...coordinator.transactions import metrics as transactions
from ...gateway import metrics as gateways
from ...gateway.kafka import metrics as kafka
from ...gateway.rocketmq import metrics as rocketmq
from ...log.metrics import Kind, Metric
from ...log.produce import metrics as producers
from .. import pool_metrics as pools

_LARGEST_OF_QUEUES = {LAG_LATENCY, QUEUEING_LATENCY, CELL_BYTES, FETCHING_PAUSED}
"""Gauges of which a topic has its worst queue's value. Others are summed."""
_UNITS = {"ms": "ms", "s": "s", "By": "bytes"}
_COLUMNS, _WIDTH, _HEIGHT, _PANEL_WIDTH, _PANEL_HEIGHT = 3, 24, 1, 8, 7
_QUANTILES = ("0.5", "0.99")
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict[str, object]:
    return {
        "uid": "penstock",
        "title": "Penstock",
        "tags": ["penstock"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_source(), _variable("topic"), _variable("consumer_group")]},
        "panels": list(_panels()),
    }


def sections() -> dict[str, tuple[Metric, ...]]:
    """The rows of the dashboard: all metrics of the catalogue, each once."""
    others = {
        "Delayed messages": timers.CATALOGUE,
        "Transactions": transactions.CATALOGUE,
        "Producers": producers.CATALOGUE,
        "Looks at all groups": tuple(one for one in groups.CATALOGUE if "consumer_group" not in one.labels),
    }
    named = {one for metrics in others.values() for one in metrics}
    consumers = [one for one in CATALOGUE if one not in named]
    of_groups = tuple(one for one in consumers if one in groups.CATALOGUE or (one.kind is Kind.GAUGE and "queue" in one.labels))
    return {
        "Consumer groups": of_groups,
        "Consumers": tuple(one for one in consumers if one not in of_groups),
        **others,
        "Gateways": (*rocketmq.CATALOGUE, *kafka.CATALOGUE, *gateways.CATALOGUE),
        "Pools of workers": pools.CATALOGUE,
    }


def expressions(metric: Metric) -> list[tuple[str, str]]:
    """The queries of a metric's panel, each with its legend. Processes with the same count are counted once (docs/operations.md)."""
    kept = tuple(label for label in metric.labels if label != "queue")
    legend = " ".join(f"{{{{{label}}}}}" for label in kept) or metric.name
    if metric.kind is Kind.HISTOGRAM:
        buckets = f"sum by ({', '.join((*kept, 'le'))}) (rate({_chosen(metric, '_bucket')}[$__rate_interval]))"
        return [(f"histogram_quantile({one}, {buckets})", f"{legend} {one}") for one in _QUANTILES]
    if metric.kind is Kind.COUNTER:
        over = "max" if metric in groups.CATALOGUE else "sum"
        return [(f"{over}{_by(kept)} (rate({_chosen(metric)}[$__rate_interval]))", legend)]
    if "queue" in metric.labels and metric not in _LARGEST_OF_QUEUES:
        return [(f"sum{_by(kept)} (max{_by(metric.labels)} ({_chosen(metric)}))", legend)]
    over = "max" if metric.largest or metric in _LARGEST_OF_QUEUES or metric in groups.CATALOGUE else "sum"
    return [(f"{over}{_by(kept)} ({_chosen(metric)})", legend)]


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _chosen(metric: Metric, ending: str = "") -> str:
    chosen = ", ".join(f'{label}=~"${label}"' for label in ("topic", "consumer_group") if label in metric.labels)
    return f"{metric.name}{ending}{{{chosen}}}" if chosen else f"{metric.name}{ending}"


def _panels() -> Iterator[dict[str, object]]:
    number, top = 0, 0
    for title, metrics in sections().items():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": _place(0, top, _WIDTH, _HEIGHT),
            "panels": [],
        }
        top += _HEIGHT
        for place, metric in enumerate(metrics):
            number += 1
            row, column = divmod(place, _COLUMNS)
            yield _panel(
                number,
                metric,
                _place(
                    column * _PANEL_WIDTH,
                    top + row * _PANEL_HEIGHT,
                    _PANEL_WIDTH,
                    _PANEL_HEIGHT,
                ),
            )
        top += -(-len(metrics) // _COLUMNS) * _PANEL_HEIGHT


def _panel(number: int, metric: Metric, place: dict[str, int]) -> dict[str, object]:
    unit = _UNITS.get(metric.unit, "short")
    per_second = {"bytes": "Bps", "short": "cps"}.get(unit, unit) if metric.kind is Kind.COUNTER else unit
    return {
        "id": number,
        "type": "timeseries",
        "title": metric.name,
        "description": metric.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": per_second, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for place, (expression, legend) in enumerate(expressions(metric))
        ],
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _source() -> dict[str, object]:
    return {
        "name": "source",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(label: str) -> dict[str, object]:
    query = f"label_values(penstock_topic_queues, {label})"
    return {
        "name": label,
        "label": label.replace("_", " "),
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }
