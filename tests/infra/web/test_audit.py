"""The audit trail as a page: one row for each action, whatever else stands in its topic."""

from __future__ import annotations

import html
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Message, connect
from penstock.infra.operating.audit import record_of
from penstock.infra.web.views import audit
from penstock.log.paths import AUDIT_TOPIC
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE


def line(number: int, state: str = "began", **changed: object) -> bytes:
    """A line of an action."""
    found = {
        "id": f"id-{number}",
        "at": f"2026-01-31T12:00:{number % 60:02}+00:00",
        "who": "ann",
        "role": "operator",
        "address": "10.0.0.1",
        "action": "release",
        "arguments": {"group": f"group-{number}"},
        "state": state,
        "outcome": f"{state} {number}",
    }
    return json.dumps({**found, **changed}).encode()


def write(folder: Path, lines: list[bytes]) -> None:
    with connect(folder) as lake:
        lake.create_topic(AUDIT_TOPIC, queues=1)
        with lake.producer(AUDIT_TOPIC, linger=timedelta(0)) as producer:
            for body in lines:
                producer.send(Message(body))


def rows(console: Open, query: str = "") -> Any:
    """The part of the page that answers."""
    return console().api(f"/audit{query}")["found"]["value"]


def test_before_anybody_acted_the_page_says_so(console: Open) -> None:
    browser = console()
    assert "Nobody has acted yet" in browser.page("/audit")
    assert browser.api("/audit")["found"]["value"]["rows"] == []


def test_an_action_is_one_row_with_its_outcome(console: Open, folder: Path) -> None:
    write(folder, [line(1), line(2, who=HOSTILE), line(1, "done"), line(3), line(3, "failed", outcome=HOSTILE)])
    found = rows(console)
    assert [(one["last"]["id"], one["last"]["state"], one["offset"]) for one in found["rows"]] == [
        ("id-3", "failed", 4),
        ("id-1", "done", 2),
        ("id-2", "began", 1),
    ]
    assert found["rows"][1]["meant"] == "began 1"
    page = console().page("/audit")
    assert "<img" not in page
    assert HOSTILE in html.unescape(page)
    assert "no end is written" in page


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("?who=bob", ["id-2"]),
        ("?action=skip", ["id-1"]),
        ("?state=failed", ["id-2"]),
        ("?text=GROUP-1", ["id-1"]),
        ("?who=eve", []),
    ],
)
def test_actions_are_found_by_who_what_and_how_they_ended(console: Open, folder: Path, query: str, ids: list[str]) -> None:
    write(folder, [line(1, action="skip"), line(1, "done", action="skip"), line(2, who="bob"), line(2, "failed", who="bob")])
    assert [one["last"]["id"] for one in rows(console, query)["rows"]] == ids


def test_older_actions_are_on_older_pages_each_once(console: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that began on one page and ended on another."""
    monkeypatch.setattr(audit, "LOOKED", 7)
    monkeypatch.setattr(audit, "SHOWN", 3)
    lines = [
        body
        for number in range(0, 20, 2)
        for body in (line(number), line(number + 1), line(number, "done"), line(number + 1, "done"))
    ]
    write(folder, lines)
    found, before = [], 0
    while before is not None:
        page = rows(console, f"?before={before}")
        found += [(one["last"]["id"], one["last"]["state"]) for one in page["rows"]]
        before = page["older"]
    assert sorted(found) == sorted((f"id-{number}", "done") for number in range(20))


def test_what_no_console_wrote_is_counted_and_breaks_nothing(console: Open, folder: Path) -> None:
    strange = [b"", b"[", b"[" * 50_000, b"1", b"{}", b"\xff", line(1, at="yesterday"), line(1, at="2026-01-31T12:00:00")]
    strange += [line(1, who=3), line(1, arguments={"a": 1}), line(1, arguments=[]), line(1, "gone"), line(1, who="x" * 300_000)]
    assert [record_of(one) for one in strange[:-1]] == [None] * (len(strange) - 1)
    write(folder, [*strange, line(2)])
    found = rows(console)
    assert ([one["last"]["id"] for one in found["rows"]], found["strange"]) == (["id-2"], len(strange))
    assert f"{len(strange)} lines are of no console" in console().page("/audit")


def test_a_page_of_long_lines_stays_small(console: Open, folder: Path) -> None:
    long: dict[str, object] = {"who": '"' * 5000, "outcome": '"' * 5000, "arguments": {f"{n}": '"' * 5000 for n in range(20)}}
    write(folder, [line(number, "began", **long) for number in range(60)])
    assert len(console().page("/audit").encode()) < 100_000
