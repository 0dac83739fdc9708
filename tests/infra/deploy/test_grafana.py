"""The dashboard has every metric of the catalogue, once, and asks for it so that no process counts twice."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from penstock.consumers.statistics import (
    GROUP_DEAD_LETTERS,
    LAG_LATENCY,
    LAG_MESSAGES,
    MESSAGES_OUT,
    OPEN_TRANSACTIONS,
    PROCESS_TIME,
    TIMING_MESSAGES,
)
from penstock.infra.deploy.generated_files import KINDS
from penstock.infra.deploy.grafana import expressions, sections
from penstock.infra.metrics import catalogue
from penstock.log.metrics import Kind, Metric

METRICS = {metric.name: metric for metric in catalogue()}
BUCKETS = (
    "sum by (topic, consumer_group, invocation_status, le) "
    '(rate(rocketmq_process_time_bucket{topic=~"$topic", consumer_group=~"$consumer_group"}[$__rate_interval]))'
)
CHOSEN = '{topic=~"$topic", consumer_group=~"$consumer_group"}'


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(KINDS["grafana"].files()["penstock.json"])["panels"]
    return found


def test_every_metric_of_the_catalogue_has_one_panel() -> None:
    shown = [panel for panel in panels() if panel["type"] == "timeseries"]
    assert sorted(panel["title"] for panel in shown) == sorted(METRICS)
    for panel in shown:
        metric = METRICS[panel["title"]]
        assert panel["description"] == metric.help
        for target in panel["targets"]:
            (asked,) = re.findall(r"(?:rocketmq|penstock|kafka)_[a-z_]+", target["expr"])
            assert asked == (f"{metric.name}_bucket" if metric.kind is Kind.HISTOGRAM else metric.name)
            labels = {label for found in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in found.split(", ")}
            assert labels - {"le"} <= set(metric.labels)
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
            assert target["expr"].count("(") == target["expr"].count(")")


def test_sections_have_titles_and_panels_do_not_overlap() -> None:
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows == list(sections())
    assert all(sections().values())
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels()
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.parametrize(
    ("metric", "expression"),
    [
        (
            LAG_MESSAGES,
            f"sum by (topic, consumer_group) (max by (topic, consumer_group, queue) ({LAG_MESSAGES.name}{CHOSEN}))",
        ),
        (LAG_LATENCY, f"max by (topic, consumer_group) ({LAG_LATENCY.name}{CHOSEN})"),
        (TIMING_MESSAGES, f'max by (topic) ({TIMING_MESSAGES.name}{{topic=~"$topic"}})'),
        (MESSAGES_OUT, f"sum by (topic, consumer_group) (rate({MESSAGES_OUT.name}{CHOSEN}[$__rate_interval]))"),
        (GROUP_DEAD_LETTERS, f"max by (topic, consumer_group) (rate({GROUP_DEAD_LETTERS.name}{CHOSEN}[$__rate_interval]))"),
        (OPEN_TRANSACTIONS, f"sum by (producer_group) ({OPEN_TRANSACTIONS.name})"),
        (
            PROCESS_TIME,
            f"histogram_quantile(0.5, {BUCKETS})",
        ),
    ],
)
def test_processes_that_tell_the_same_count_once(metric: Metric, expression: str) -> None:
    assert expressions(metric)[0][0] == expression
