"""Delayed messages: how many wait, which is next, which are late, and the recall of one."""

from __future__ import annotations

import html
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock import Message, connect
from penstock.infra.operating.timers import LATE, late_by
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def waiting(folder: Path) -> Path:
    """Three messages of reminders: one in a minute, two in an hour."""
    with connect(folder, maintenance=False) as lake:
        lake.create_topic("reminders", message_type="DELAY", queues=1)
        with lake.producer("reminders", linger=timedelta(0)) as producer:
            for minutes in (60, 1, 61):
                producer.send(Message(HOSTILE.encode(), tag=f"in-{minutes}", delay=timedelta(minutes=minutes)))
    return folder


def test_topics_tell_what_waits_and_what_is_next(console: Open, waiting: Path) -> None:
    found = console().api("/timers")
    (row,) = found["topics"]
    assert (found["waiting"], row["topic"], row["waiting"]) == (3, "reminders", 3)
    assert row["next"]["value"]["late_s"] is None
    assert row["next"]["value"]["due"] > found["at"]


def test_a_topics_messages_are_listed_by_when_they_are_due(console: Open, waiting: Path) -> None:
    browser = console()
    listed = browser.api("/timers?topic=reminders&limit=2")["listed"]["value"]
    assert ([row["tag"] for row in listed["rows"]], listed["more"]) == (["in-1", "in-60"], True)
    page = browser.page("/timers?topic=reminders")
    assert HOSTILE not in page
    assert "Recall …" in page
    assert "penstock timer list reminders --limit 20" in html.unescape(page)
    assert "messages are not delayed" in browser.page("/timers?topic=orders")
    assert "there is no such topic" in browser.page("/timers?topic=none")


def test_a_lake_without_any_says_so(console: Open) -> None:
    assert "No topic has delayed messages" in console().page("/timers")


def test_a_message_is_late_a_minute_after_it_was_due() -> None:
    assert late_by(NOW, NOW + LATE - timedelta(seconds=1)) is None
    assert late_by(NOW, NOW + LATE) == LATE
    assert late_by(NOW + LATE, NOW) is None


def test_one_is_recalled_once_after_its_topic_was_typed(console: Open, waiting: Path) -> None:
    browser = console()
    row = browser.api("/timers?topic=reminders")["listed"]["value"]["rows"][1]
    path = f"/actions/recall?handle={row['recall_handle']}"
    shown = browser.api(path)
    assert shown["summary"].startswith(f"Message {row['message_id']}, due ")
    assert shown["samples"][0]["rows"][0][3] == "in-60"
    assert "was not typed" in browser.submit(path, status=400)
    assert f"Recalled {row['message_id']} of reminders" in browser.submit(path, typed="reminders")
    assert [one["tag"] for one in browser.api("/timers?topic=reminders")["listed"]["value"]["rows"]] == ["in-1", "in-61"]
    assert browser.api(path)["is_nothing"]
    assert "no recall handle" in browser.page("/actions/recall?handle=x", status=400)
