"""What the pages show of a lake, as HTML and as JSON, also where a part of it is damaged or gone."""

from __future__ import annotations

import asyncio
import html
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import aio, connect
from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.infra.web.lakes.lakes import LakeOptions
from penstock.infra.web.server.urls import page_url
from penstock.infra.web.views import attention
from penstock.infra.web.views.page import PageDefinition
from penstock.infra.web.views.pages import PAGES
from penstock.infra.web.views.rows import GroupRow
from penstock.log import Message
from tests.cells import blocked, change_cell, failed, told_why
from tests.infra.web.conftest import REFRESH, Browser, Open
from tests.infra.web.shop import HOSTILE, fill, park, publish, secret_of, write_cell
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until


def path_of(page: PageDefinition[Any]) -> str:
    """A page's path, of things that the lake has."""
    names = {"topic": "orders", "group": "billing", "message_group": "ann", "message_id": "0" * 24}
    return page.path.replace(":path", "").format(**names)


def test_the_overview_names_first_what_needs_somebody(console: Open, stuck: Path) -> None:
    browser = console()
    found = browser.api("/")
    assert (found["topics"], found["groups"], found["parked"]) == (2, 1, 2)
    assert [one["kind"] for one in found["attention"]] == ["parked", "unattended"] or [
        one["kind"] for one in found["attention"]
    ] == ["unattended", "parked"]
    (row,) = found["furthest_behind"]
    assert (row["group"], row["topic"], row["consumers"], row["queues"]) == ("billing", "orders", 0, 2)
    assert "2 message groups are parked until you release or skip" in browser.page("/")


def test_what_failed_and_waits_for_another_try_is_told_with_its_next_one(console: Open, folder: Path) -> None:
    due_ms = round((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1000)
    change_cell(lambda: aio.connect(folder), 0, lambda cell: failed(cell, 0, due_ms=due_ms))
    lane = group_hash("cid", asyncio.run(secret_of(folder, "billing")))
    cell = change_cell(lambda: aio.connect(folder), 1, lambda cell: blocked(cell, lane, 0, due_ms=due_ms))
    told_why(lambda: aio.connect(folder), cell, 1, 0, f"ValueError: {HOSTILE}")
    browser = console()
    told = {one["kind"]: (one["urgency"], one["text"]) for one in browser.api("/")["attention"]}
    assert told["retrying"] == ("look", "1 message failed and waits for its next try")
    assert told["blocked"] == ("look", "1 message group waits for a retry")
    held = browser.api("/groups/billing")["held"]["value"]
    assert held["total"] == 2
    assert [(one["queue"], one["offset"], one["message_group"], one["blocks"], one["attempts"]) for one in held["rows"]] == [
        (0, 0, "ann", False, 1),
        (1, 0, "cid", True, 1),
    ]
    assert [one["failure"] and one["failure"]["text"] for one in held["rows"]] == [None, f"ValueError: {HOSTILE}"]
    why = html.escape(f"ValueError: {HOSTILE}")[:40]
    for path in ("/groups/billing", "/topics/orders/message-groups/~cid"):
        assert why in browser.page(path).replace("&#34;", "&quot;").replace("&#39;", "&#x27;"), path
    assert datetime.fromisoformat(held["rows"][0]["due"]) == datetime.fromtimestamp(due_ms / 1000, UTC)
    page = browser.page("/groups/billing")
    assert "Waiting for another try" in page
    assert ", and holds its message group up" in page
    assert "1 of 17" in page


@pytest.mark.parametrize(("settled_per_second", "lag", "said"), [(20.0, 11, False), (0.01, 1000, True), (None, 1000, False)])
def test_the_age_of_what_is_parked_makes_nobody_late(settled_per_second: float | None, lag: int, said: bool) -> None:
    row = GroupRow(
        group="g",
        topic="t",
        lag=lag,
        lag_time=timedelta(hours=1),
        settled_per_second=settled_per_second,
        in_flight=0,
        waiting=0,
        blocked=0,
        parked=3,
        consumers=1,
        queues=1,
        queues_owned=1,
        dead_letters=0,
    )
    assert ("behind" in {kind for _, kind, _, _ in attention.troubles(row)}) == said


def test_topics_show_their_size_and_readers(console: Open) -> None:
    browser = console()
    rows = {row["topic"]: row for row in browser.api("/topics")["rows"]}
    assert rows.keys() == {"orders", "mails"}
    assert rows["orders"]["facts"]["value"]["messages"] == 5
    assert (rows["orders"]["groups"], rows["orders"]["lag"]) == (1, 5)
    assert [row["topic"] for row in browser.api("/topics?filter=MAI")["rows"]] == ["mails"]
    assert browser.api("/topics?page=99")["span"] == {"page": 1, "pages": 1, "first": 1, "last": 2, "total": 2}


def test_a_topic_shows_each_group_beside_what_is_kept(console: Open) -> None:
    found = console().api("/topics/orders")
    assert [(one["queue"], one["messages"]) for one in found["stored"]["value"]["queues"]] == [(0, 4), (1, 1)]
    (position,) = found["positions"]["value"]
    assert (position["group"], position["kept"], position["done"], position["lag"]) == ("billing", 5, 0, 5)
    assert 0 < position["left_s"] <= found["stored"]["value"]["settings"]["retention_s"]


def test_what_waits_for_a_retry_is_not_done(console: Open, folder: Path) -> None:
    change_cell(lambda: aio.connect(folder), 0, lambda cell: failed(cell, 0))
    change_cell(lambda: aio.connect(folder), 1, lambda cell: cell.with_listed(OffsetSet.of([(0, 1)])))
    (position,) = console().api("/topics/orders")["positions"]["value"]
    assert (position["kept"], position["done"], position["lag"]) == (5, 1, 4)


def test_a_topic_shows_its_size_and_what_came_when(console: Open, folder: Path) -> None:
    publish(folder, "orders")
    with connect(folder) as lake, lake.producer("orders", linger=timedelta(0)) as producer:
        for _ in range(3):
            producer.send(Message(b"later", message_group="ann")).result(timeout=TIMEOUT_S)
    browser = console()
    stored = browser.api("/topics/orders")["stored"]["value"]
    files = [one.stat().st_size for one in (folder / "topics" / "orders").rglob("queue=*/*.parquet")]
    assert stored["table_bytes"] == sum(files) > 0
    assert sum(one["table_bytes"] for one in stored["queues"]) == sum(files)
    assert sum(stored["over_time"]["counts"]) == 8
    assert 'aria-label="messages stored over time' in browser.page("/topics/orders")


def test_cells_are_read_once_where_nothing_is_parked(console: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(*_: object) -> None:
        pytest.fail("which message groups are parked was asked, though none is")

    monkeypatch.setattr(aio.Lake, "parked", asked)
    page = console().page("/groups/billing")
    assert "Nothing is parked." in page


def test_a_group_shows_what_holds_it_up_and_what_to_do(console: Open, stuck: Path) -> None:
    browser = console()
    found = browser.api("/groups/billing")
    assert [one["message_group"] for one in found["parked"]["value"]["rows"]] == [HOSTILE, "cid"]
    assert [one["parked"] for one in found["standing"]["value"]["queues"]] == [1, 1]
    page = browser.page("/groups/billing")
    assert html.escape(HOSTILE, quote=False).partition("&#39;")[0][:20] in page
    assert f"penstock group describe billing --lake file://{stuck}" in html.unescape(page)
    assert "Release all" in page


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_every_page_has_what_people_find_their_way_by(console: Open, stuck: Path, page: str) -> None:
    (one,) = [known for known in PAGES if known.name == page]
    text = console().page(path_of(one))
    assert text.count("<h1>") == 1
    assert all(
        part in text
        for part in ('<html lang="en">', "<main ", 'class="skip"', 'aria-label="Way here"', "<code data-copy>penstock ")
    )
    assert text.count("<table>") == text.count("<caption>") == text.count('class="table" role="group"')


def test_programs_find_every_page_described(console: Open) -> None:
    browser = console()
    document = browser.client.get("/api/openapi.json").json()
    for page in PAGES:
        described = document["paths"][f"/api/l/{{lake}}{page.path}".replace(":path", "")]["get"]
        assert described["operationId"] == page.name
        name = described["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        answer = browser.client.get(f"/api/l/lake{path_of(page)}")
        assert answer.status_code == (404 if page.name == "letter" else 200)  # there is none
        schema = document["components"]["schemas"][name if answer.status_code == 200 else "ErrorResponse"]
        assert set(schema["properties"]) == set(answer.json())


@pytest.mark.parametrize(
    ("page", "path", "status", "kind"),
    [
        ("messages", "/topics/orders/messages?where=price%20%3E", 400, "invalid_argument"),
        ("messages", "/topics/orders/messages?tag=%7C%7C", 400, "invalid_argument"),
        ("messages", "/topics/orders/messages?queue=9", 400, "invalid_argument"),
        ("messages", "/topics/orders/messages?queue=0&start=99", 400, "offset_out_of_range"),
        ("letter", "/dead-letters/none/letter?offset=1", 404, "topic_not_found"),
        ("timers", "/timers?topic=none", 404, "topic_not_found"),
        ("transactions", "/transactions?transaction=none", 400, "invalid_argument"),
    ],
)
def test_programs_get_an_error_for_what_cannot_be_asked_and_people_their_page(
    console: Open, page: str, path: str, status: int, kind: str
) -> None:
    browser = console()
    answer = browser.api(path, status=status)
    assert (answer["error"], answer["kind"]) == (kind, kind)
    assert answer["message"] in html.unescape(browser.page(path))
    described = browser.client.get("/api/openapi.json").json()
    (get,) = [one["get"] for one in described["paths"].values() if one.get("get", {}).get("operationId") == page]
    told = get["responses"][str(status)]["content"]["application/json"]["schema"]
    assert told == {"$ref": "#/components/schemas/ErrorResponse"}
    assert set(described["components"]["schemas"]["ErrorResponse"]["properties"]) == set(answer)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/topics/none", 404, "there is no such topic"),
        ("/topics/a%2Fb", 404, "There is no such page"),
        ("/topics/a%00b", 400, "bad topic name"),
        ("/topics/%DLQ%25", 400, "bad topic name"),
        ("/groups/none", 404, "there is no such consumer group"),
        ("/topics?page=0", 400, "a whole number, 1 to"),
        ("/topics?page=99999999999999999999999", 400, "a whole number, 1 to"),
        ("/topics?page=x", 400, "a whole number, 1 to"),
        ("/topics?page=1&page=2", 400, "given twice"),
        ("/topics?nothing=1", 400, "no such parameter"),
        (f"/topics?filter={'x' * 5000}", 400, "at most 4096 characters"),
        ("/actions/none?group=billing", 400, "there is no such action"),
        ("/actions/release", 400, "an argument is missing"),
        ("/actions/release?group=billing&queue=-1", 400, "no whole number"),
        ("/actions/release?group=billing&queue=99", 400, "queue"),
        ("/actions/reset?group=billing&topic=orders&to=yesterday", 400, "is no position"),
        ("/actions/reset?group=billing&topic=orders&to=77", 400, "offset"),
    ],
)
def test_what_is_asked_wrongly_is_said_and_never_a_traceback(console: Open, path: str, status: int, said: str) -> None:
    page = html.unescape(console().page(path, status=status))
    assert said in page
    assert "Traceback" not in page


def test_a_body_is_a_file_and_never_a_page(console: Open, folder: Path) -> None:
    hostile = b"<script>alert(1)</script>" + bytes(range(256)) * 4096
    with connect(folder) as lake, lake.producer("mails", linger=timedelta(0)) as producer:
        producer.send(Message(hostile))
    browser = console()
    answer = browser.client.get(page_url("lake", "body", {"topic": "mails", "queue": 0, "offset": 0}))
    assert answer.content == hostile
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == 'attachment; filename="mails-0-0.bin"'
    for offset, status in (("1", 404), ("x", 400), ("9" * 30, 400)):
        url = page_url("lake", "body", {"topic": "mails", "queue": 0, "offset": offset})
        assert browser.client.get(url).status_code == status


def test_a_lake_that_is_not_served_is_named(console: Open) -> None:
    answer = console().client.get("/l/other/")
    assert answer.status_code == 404
    assert "serves no such lake" in answer.text


def test_several_lakes_are_listed(console: Open, folder: Path, tmp_path: Path) -> None:
    lakes = (
        LakeOptions(name="shop", url=str(folder), refresh=REFRESH),
        LakeOptions(name="other", url=str(tmp_path / "other"), refresh=REFRESH),
    )
    browser = console(lakes=lakes)
    page = browser.client.get("/").text
    assert '<a href="/l/shop/">' in page
    assert browser.client.get("/api/l/shop/").json()["topics"] == 2
    assert browser.client.get("/api/l/other/").json()["topics"] == 0


def test_the_only_lake_is_where_one_begins(console: Open) -> None:
    assert console().client.get("/").headers["location"] == "/l/lake/"


def test_a_damaged_topic_is_told_and_the_rest_works(console: Open, stuck: Path) -> None:
    (stuck / "topics" / "mails" / "topic.json").write_bytes(b"\xff not what was written")
    browser = console()
    rows = {row["topic"]: row for row in browser.api("/topics")["rows"]}
    assert rows["mails"]["facts"]["fault"]["kind"] in ("data_damaged", "foreign_object")
    assert rows["orders"]["facts"]["value"]["messages"] == 5
    browser.page("/topics")
    browser.page("/groups/billing")


def test_a_group_shows_its_other_topics_where_one_cannot_be_read(console: Open, stuck: Path) -> None:
    with connect(stuck) as lake:
        lake.reset_offsets("billing", "mails", "earliest")
        with lake.producer("mails", linger=timedelta(0)) as producer:
            producer.send(Message(b"hello")).result(timeout=TIMEOUT_S)
    browser = console()
    assert browser.api("/groups/billing")["left_out"] is None
    (stuck / "topics" / "mails" / "topic.json").write_bytes(b"damaged")
    shown = console().api("/groups/billing")
    assert "topics/mails/topic.json" in {fact["value"] for fact in shown["left_out"]["facts"]}
    standing = shown["standing"]["value"]
    assert (standing["topics"], standing["lag"], standing["settings"]["dead_letter_policy"]) == (["orders"], 4, "park")
    assert {one["message_group"] for one in shown["parked"]["value"]["rows"]} == {HOSTILE, "cid"}
    page = console().page("/groups/billing")
    assert "Not all topics of the group can be read" in page
    assert "Release all" in page


def test_a_damaged_cell_is_what_needs_attention_first(console: Open, stuck: Path) -> None:
    write_cell(stuck, b"\xff not what was written")
    browser = console()
    assert browser.api("/")["attention"][0]["kind"] == "unread"
    browser.page("/topics/orders")


def test_a_lake_that_vanishes_and_comes_back_is_shown_again(console: Open, stuck: Path) -> None:
    browser = console()
    assert browser.api("/")["topics"] == 2
    shutil.rmtree(stuck)
    wait_until(lambda: browser.api("/")["topics"] == 0, "the lake gone")
    (gone,) = browser.api("/")["attention"]
    assert (gone["kind"], gone["urgency"]) == ("gone", "act")
    assert "had topics, and has none any more" in browser.page("/")
    browser.page("/topics/orders", status=404)
    fill(stuck)
    park(stuck)
    wait_until(lambda: browser.api("/")["parked"] == 2, "the lake back")
    assert browser.api("/topics/orders")["stored"]["value"]["messages"] == 5


def live_values(browser: Browser, path: str) -> str:
    """The first event of a page's values."""
    with browser.client.stream("GET", f"/live/l/lake{path}") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        browser.site.ending.set()
        return "".join(answer.iter_text())


def test_live_values_are_those_of_the_page(console: Open, stuck: Path) -> None:
    browser = console()
    page = browser.page("/groups/billing")
    assert '<span data-live="parked">2</span>' in page
    events = live_values(browser, "/groups/billing")
    assert "event: values\n" in events
    assert '"parked": "2"' in events
    assert browser.site.streams == {}
