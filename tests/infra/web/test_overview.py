"""The overview beyond the groups: what is watched besides, the last hour as charts, and what requests cost."""

from __future__ import annotations

import html
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penstock import Message, connect
from penstock.coordinator.operators.lake_view import LakeOverview
from penstock.coordinator.tables.open import table_place
from penstock.infra.cost import CellStorage
from penstock.infra.operating import timers
from penstock.infra.web.lakes.history import APART_S, HOUR_S, MetricsHistory, MetricsPoint, point_of
from penstock.infra.web.lakes.source import LakeSnapshot
from penstock.infra.web.server.jinja import live_document
from penstock.infra.web.views import lake_problems
from penstock.infra.web.views.charts import GAP_S, HEIGHT, THIN_S, WIDTH, charts, lines
from penstock.infra.web.views.daily_cost import cells_of, money
from penstock.infra.web.views.overview import PAGE, OverviewPage, overview_of
from penstock.infra.web.views.rows import group_rows
from tests.infra.web.conftest import Browser, Open
from tests.infra.web.test_changes import syncing
from tests.infra.web.test_transactions import left_open, paying
from tests.infra.web.test_workers import seen
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

__all__ = ["paying", "syncing"]

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kinds(browser: Browser) -> dict[str, Any]:
    return {one["kind"]: one for one in browser.api("/")["attention"]}


def test_a_sync_that_stands_still_needs_attention_first(console: Open, syncing: Path) -> None:
    browser = console()
    found = kinds(browser)["stopped_sync"]
    assert (found["urgency"], found["topic"], found["text"]) == ("act", "orders", "sync b: 1 table of it stands still")
    assert '<a href="/l/lake/changes">sync b: 1 table' in browser.page("/")


def test_old_open_transactions_need_attention(console: Open, paying: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_open(paying, "paid")
    assert "old_transactions" not in kinds(console())
    monkeypatch.setattr(lake_problems, "OLD", timedelta())
    found = kinds(console())["old_transactions"]
    assert (found["text"], found["count"]) == ("1 transaction is open of producer group pay", 1)


def test_late_timers_need_attention(console: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.aio.maintenance.is_young", lambda *_: False)  # or the sender lets the message go
    with connect(folder, maintenance=False) as lake:
        lake.create_topic("reminders", message_type="DELAY", queues=1)
        with lake.producer("reminders", linger=timedelta(0)) as producer:
            producer.send(Message(b"due", delay=timedelta()))
    assert "late_timers" not in kinds(console())
    monkeypatch.setattr(timers, "LATE", timedelta())
    browser = console()
    assert kinds(browser)["late_timers"]["topic"] == "reminders"
    assert "/l/lake/timers?topic=reminders" in html.unescape(browser.page("/"))


def test_how_many_topics_are_watched_for_late_timers_is_told(console: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(folder, maintenance=False) as lake:
        for name in ("reminders", "invoices"):
            lake.create_topic(name, message_type="DELAY", queues=1)
            with lake.producer(name, linger=timedelta(0)) as producer:
                producer.send(Message(b"later", delay=timedelta(hours=1)))
    browser = console()
    found = browser.api("/")
    assert (found["timer_topics"], found["timer_topics_watched"]) == (2, 2)
    assert "are looked for in" not in browser.page("/")
    monkeypatch.setattr(lake_problems, "TOPICS_NEAR", 1)
    browser = console()
    found = browser.api("/")
    assert (found["timer_topics"], found["timer_topics_watched"]) == (2, 1)
    assert "Late delayed messages are looked for in the 1 of 2 topics with the most" in browser.page("/")


def test_charts_move_with_the_page(console: Open, folder: Path) -> None:
    browser = console()
    first = live_document(PAGE.live(overview_of_points([point(0, lag=3)])))
    assert (first["last:lag"], first["most:lag"]) == ("3", "3")
    assert first["lines:lag"] == {"lines": ["237.0,3.0 237.0,3.0"]}  # a dot
    later = live_document(PAGE.live(overview_of_points([point(0, lag=3), point(60, lag=9)])))
    assert (later["last:lag"], later["most:lag"], len(later["lines:lag"]["lines"][0].split())) == ("9", "9", 2)
    page = browser.page("/")
    for key in first:
        assert f'data-live="{key}"' in page


def test_an_hour_of_points_is_drawn_by_few_of_them() -> None:
    """All who watch get them again and again."""
    points = [point(at_s, lag=1000 if at_s == 1205 else 1) for at_s in range(0, int(HOUR_S), int(APART_S))]
    (line,) = next(one for one in charts(points) if one.name == "lag").lines
    assert len(line.split()) <= HOUR_S / THIN_S + 2
    assert ",3.0" in line  # the peak stays
    assert line.endswith("237.0,45.0")


def test_rows_of_a_look_are_made_once_for_all_pages() -> None:
    looked = LakeSnapshot(at=NOW, topics=("orders",), seen=seen(("a/1", 3)))
    assert group_rows(looked) is group_rows(looked)
    other = LakeSnapshot(at=NOW, topics=("orders",), seen=seen(("a/1", 4)))
    assert group_rows(other) is not group_rows(looked)


def test_the_busiest_topics_are_told_with_their_rates(console: Open, folder: Path) -> None:
    browser = console()
    (first,) = browser.api("/")["busiest"]
    assert (first["topic"], first["messages"], first["groups"], first["lag"]) == ("orders", 5, 1, 5)

    def flows() -> bool:
        with connect(folder) as lake, lake.producer("orders", linger=timedelta(0)) as producer:
            producer.send(Message(b"more", message_group="ann")).result(timeout=TIMEOUT_S)
        (row,) = browser.api("/")["busiest"]
        return (row["stored_per_second"] or 0) > 0

    wait_until(flows, "a rate")
    assert 'data-live="stored:orders"' in browser.page("/")


def test_the_last_hour_and_the_cost_are_told_once_something_flows(console: Open, folder: Path) -> None:
    browser = console()
    first = browser.api("/")
    assert {one["name"] for one in first["charts"]} == {"lag", "oldest message", "stored", "settled", "parked", "delayed"}
    assert (first["money"], first["charts"][0]["last"]) == (None, 5)
    assert "follows from two looks" in browser.page("/")
    wait_until(lambda: browser.api("/")["money"] is not None, "a second look")
    found = browser.api("/")["money"]
    assert found["topics"] == 1
    assert found["usd_a_day"] == pytest.approx(sum(one["usd_a_day"] for one in found["kinds"]), abs=0.01)
    page = browser.page("/")
    assert "USD a day for requests" in page
    assert '<svg viewBox="0 0 240 48" role="img"' in page


def overview_of_points(points: list[MetricsPoint]) -> OverviewPage:
    looked = LakeSnapshot(at=NOW, topics=("orders",), seen=seen(("a/1", 3)))
    return overview_of(looked, lake_problems.LakeProblems(), charts(points), None)


def point(at_s: float, **values: int) -> MetricsPoint:
    sums = {"lag": 0, "parked": 0, "timers": 0, "oldest_ms": 0, "stored": 0, "settled": 0, "dead_letters": 0}
    return MetricsPoint(at=NOW + timedelta(seconds=at_s), at_s=at_s, **(sums | values))


def test_points_are_kept_for_an_hour_and_apart() -> None:
    history = MetricsHistory()
    for at_s in range(2 * int(HOUR_S)):
        history.add(point(at_s))
    times = [one.at_s for one in history.points]
    assert times[-1] - times[0] <= HOUR_S
    assert min(after - before for before, after in pairwise(times)) >= APART_S


def test_a_look_is_summed() -> None:
    found = point_of(NOW, seen(("a/1", 3), ("a/1", 4)))
    assert (found.lag, found.stored, found.settled) == (2, 2, 0)


def test_rates_follow_from_two_points_near_to_each_other() -> None:
    points = [point(0, stored=10), point(10, stored=30), point(20, stored=5), point(20 + GAP_S, stored=50)]
    stored = next(one for one in charts(points) if one.name == "stored")
    assert [one.value for one in stored.values] == [2.0]
    assert next(one for one in charts([]) if one.name == "lag").lines == ()


def test_a_chart_says_its_axes_or_when_it_begins() -> None:
    alone = {one.name: one.axes for one in charts([point(0, lag=3)])}
    assert alone["lag"] == "upwards from 0, across from 1 h ago to now"
    assert alone["stored"] == "nothing yet: a rate follows from two looks, at most 5 min apart"
    later = {one.name: one.axes for one in charts([point(0), point(10, stored=5)])}
    assert later["stored"] == later["lag"]
    assert {one.axes for one in charts([]) if one.name == "lag"} == {"nothing yet: it begins with the first look"}


def test_whole_figures_are_shown_as_such() -> None:
    parked = next(one for one in charts([point(0, parked=3)]) if one.name == "parked")
    assert (str(parked.last), str(parked.most), str(parked.values[0].value)) == ("3", "3", "3")


def test_lines_end_where_nobody_looked() -> None:
    first, second = lines([(0, 1), (60, 2), (60 + GAP_S, 0)], 2)
    assert len(first.split()) == 2
    (last,) = set(second.split())
    assert last == f"{WIDTH - 3:.1f},{HEIGHT - 3:.1f}"
    assert first.split()[1].endswith(",3.0")


def test_the_cost_follows_from_what_flows() -> None:
    before = replace(seen(("a/1", 3)), ended_s=0.0)
    now = replace(seen(("a/1", 3)), ended_s=10.0)
    looked = LakeSnapshot(at=NOW, topics=("orders",), seen=now, before=before)
    idle = money(looked, CellStorage.STORE)
    assert idle is not None
    busy_group = replace(
        now.groups[0],
        queues=tuple(replace(one, progress=replace(one.progress, next_offset=10_001)) for one in now.groups[0].queues),
    )
    busy = money(replace(looked, seen=replace(now, groups=(busy_group,))), CellStorage.DYNAMODB)
    assert busy is not None
    assert (busy.messages_per_second, busy.topics) == (1000.0, 1)
    assert busy.usd_a_day > idle.usd_a_day
    assert money(replace(looked, before=None), CellStorage.STORE) is None
    assert money(replace(looked, seen=LakeOverview(ended_s=10.0, took_s=0.0)), CellStorage.STORE) is None
    places = [table_place(url, "s3://lake") for url in ("dynamodb://cells", "sqlite:///x", "postgresql://host/db", None)]
    assert list(map(cells_of, places)) == [CellStorage.DYNAMODB, CellStorage.SQLITE, CellStorage.POSTGRESQL, CellStorage.STORE]
