"""Messages, a message, a message group: found by whatever people know of them, within bounds, and harmless whatever they hold."""

from __future__ import annotations

import asyncio
import html
import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from penstock import aio, connect
from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.infra.operating.bodies import BodyKind, body_of, laid_out
from penstock.infra.web.views import lines as json_lines
from penstock.infra.web.views import scan
from penstock.log import Message, Runtime
from penstock.log.message.routing import queue_of
from penstock.log.paths import TopicPaths
from penstock.log.repair import repair
from penstock.log.stores import LocalStore
from tests.cells import change_cell, parked
from tests.infra.web.conftest import Browser, Open
from tests.infra.web.shop import HOSTILE, publish, secret_of
from tests.lakes import TIMEOUT_S
from tests.waiting import wait_until

EVIL = b"<script>alert(1)</script>\x1b[31m\xe2\x80\xae"


@pytest.fixture
def filled(folder: Path) -> Path:
    """The shop, with a topic of three queues and 240 messages, and one of typed rows."""
    with connect(folder) as lake:
        lake.create_topic("visits", queues=3)
        with lake.producer("visits", linger=timedelta(milliseconds=5)) as producer:
            sent = [
                producer.send(
                    Message(b'{"n": %d}' % n, tag="odd" if n % 2 else "even", keys=[f"k{n % 40}"], properties={"n": str(n)}),
                    queue=n % 3,
                )
                for n in range(240)
            ]
            for one in sent:
                one.result(timeout=TIMEOUT_S)
        lake.create_topic("payments", queues=1, schema="id BIGINT NOT NULL, who STRING, amount DECIMAL(10,2)")
        with lake.producer("payments", linger=timedelta(0)) as producer:
            for n in range(3):
                row = {"id": n, "who": HOSTILE, "amount": Decimal("1.50")}
                producer.send(Message.of(row)).result(timeout=TIMEOUT_S)
    return folder


@pytest.fixture
def browser(console: Open, filled: Path) -> Browser:
    return console()


def numbers(found: dict[str, Any]) -> list[int]:
    return [json.loads(row["body"]["text"])["n"] for row in found["rows"]]


def found(browser: Browser, query: str = "") -> dict[str, Any]:
    shown: dict[str, Any] = browser.api(f"/topics/visits/messages{query}")["found"]
    assert shown["fault"] is None, shown
    value: dict[str, Any] = shown["value"]
    return value


def test_the_newest_come_first_and_links_lead_through_all(browser: Browser) -> None:
    page = found(browser)
    assert len(page["rows"]) == 50
    assert page["newer_messages"] == 0
    rows = page["rows"]
    while page["older"] is not None:
        page = found(browser, f"?before={page['older']}")
        rows += page["rows"]
    order = [(one["stored"], one["queue"], one["offset"]) for one in rows]
    assert order == sorted(order, reverse=True)
    assert sorted(json.loads(one["body"]["text"])["n"] for one in rows) == list(range(240))
    back = found(browser, f"?after={page['newer']}")
    assert [one["message_id"] for one in back["rows"]] == [
        one["message_id"] for one in rows[-len(page["rows"]) - 50 : -len(page["rows"])]
    ]


def test_many_queues_are_one_sequence_and_very_many_are_told(console: Open, folder: Path) -> None:
    with connect(folder) as lake:
        for topic, queues in (("wide", 40), ("vast", 70)):
            lake.create_topic(topic, queues=queues)
            with lake.producer(topic, linger=timedelta(milliseconds=2)) as producer:
                sent = [producer.send(Message(b"%d" % n), queue=n % 3 or n % queues) for n in range(400)]
                for one in sent:
                    one.result(timeout=TIMEOUT_S)
    browser = console()
    page = browser.api("/topics/wide/messages")["found"]["value"]
    rows = page["rows"]
    while page["older"] is not None:
        page = browser.api(f"/topics/wide/messages?before={page['older']}")["found"]["value"]
        assert page["rows"]
        rows += page["rows"]
    assert len(rows) == len({one["message_id"] for one in rows}) == 400
    stored = [one["stored"] for one in rows]
    assert stored == sorted(stored, reverse=True)
    assert "Of the 64 fullest queues of 70" in browser.page("/topics/vast/messages")


def test_a_place_is_an_offset_of_a_queue_or_a_time(browser: Browser) -> None:
    assert numbers(found(browser, "?queue=1&start=70"))[-1] == 70 * 3 + 1
    assert numbers(found(browser, "?start=earliest"))[-1] == 0
    soon = quote((datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert numbers(found(browser, f"?start={soon}")) == []
    assert len(numbers(found(browser, "?start=-1h"))) == 50


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("?key=k7", {7, 47, 87, 127, 167, 207}),
        ("?key=k7&tag=even", set()),
        ("?key=k7&queue=2", {47, 167}),
        ("?key=none", set()),
        (f"?where={quote('n > 234')}", {235, 236, 237, 238, 239}),
        (f"?where={quote('body.n BETWEEN 3 AND 5 AND body.other IS NULL')}", {3, 4, 5}),
        (f"?tag={quote('odd || none')}&where={quote('n < 6')}", {1, 3, 5}),
    ],
)
def test_conditions_find_what_people_know(browser: Browser, query: str, wanted: set[int]) -> None:
    page = found(browser, query)
    assert set(numbers(page)) == wanted
    assert page["looked"] <= 240
    assert page["older"] is None


@pytest.fixture
def scattered(folder: Path) -> Path:
    """The shop, with a topic whose table has ten files of each of its four queues. Message group ``first`` lies in the oldest ones."""
    with connect(folder) as lake:
        lake.create_topic("visits", message_type="FIFO", queues=4)
        lake.create_group("guides")
        lake.reset_offsets("guides", "visits", "earliest")
        with lake.producer("visits", linger=timedelta(0)) as producer:
            for n in range(10):
                group = "first" if n == 0 else f"g{n}"
                for queue in (queue_of("first", 4), *(one for one in range(4) if one != queue_of("first", 4))):
                    message = Message(b'{"n": %d}' % n, keys=[f"k{n}-{queue}"], message_group=group)
                    producer.send(message, queue=queue if n else queue_of("first", 4)).result(timeout=TIMEOUT_S)
                publish(folder, "visits")
    return folder


def test_what_has_a_key_is_found_in_every_queue_and_old_file(console: Open, scattered: Path) -> None:
    browser = console()
    for queue in range(4):
        page = found(browser, f"?key=k1-{queue}")
        assert (numbers(page), page["older"]) == ([1], None)
    shown = browser.api("/topics/visits/message-groups/~first")["ordered"]["value"]
    assert ([json.loads(row["message"]["body"]["text"])["n"] for row in shown["rows"]], shown["older"]) == ([0] * 4, None)


def test_a_message_group_that_is_blocked_is_shown_from_there_on(console: Open, scattered: Path) -> None:
    queue, lane = queue_of("first", 4), group_hash("first", asyncio.run(secret_of(scattered, "guides")))
    marker, listed = parked(1), OffsetSet.of([(0, 2)])
    change_cell(
        lambda: aio.connect(scattered),
        queue,
        lambda cell: replace(cell.with_listed(listed), markers={lane: marker}),
        group="guides",
        topic="visits",
    )
    shown = console().api("/topics/visits/message-groups/~first")["ordered"]["value"]
    assert shown["held_by"] == ["guides"]
    assert [(row["message"]["offset"], row["fates"]) for row in shown["rows"]] == [
        (1, ["parked"]),
        (2, ["behind"]),
        (3, ["behind"]),
    ]
    assert shown["older"] is not None
    page = console().page("/topics/visits/message-groups/~first")
    assert "From the message on that holds it up in guides." in page
    earlier = console().api(f"/topics/visits/message-groups/~first?before={shown['older']}")["ordered"]["value"]
    assert [row["message"]["offset"] for row in earlier["rows"]] == [0]


def test_a_message_group_is_shown_with_what_it_has_in_its_former_queues_and_from_a_block_there_on(
    console: Open, scattered: Path
) -> None:
    with connect(scattered) as lake, lake.producer("visits", linger=timedelta(0)) as producer:
        for queues in (8, 16):
            lake.alter_topic("visits", queues=queues)
            producer.send(Message(b'{"n": %d}' % queues, message_group="first")).result(timeout=TIMEOUT_S)
    former, home = queue_of("first", 4), queue_of("first", 16)
    shown = console().api("/topics/visits/message-groups/~first")["ordered"]["value"]
    assert [json.loads(row["message"]["body"]["text"])["n"] for row in shown["rows"]] == [0] * 4 + [8, 16]
    assert {stand["queue"] for stand in shown["stands"]} >= {former, queue_of("first", 8), home}
    lane = group_hash("first", asyncio.run(secret_of(scattered, "guides")))
    change_cell(
        lambda: aio.connect(scattered),
        former,
        lambda cell: replace(cell.with_listed(OffsetSet.of([(0, 2)])), markers={lane: parked(1)}),
        group="guides",
        topic="visits",
    )
    shown = console().api("/topics/visits/message-groups/~first")["ordered"]["value"]
    assert shown["held_by"] == ["guides"]
    assert [(row["message"]["queue"], row["message"]["offset"]) for row in shown["rows"]][:1] == [(former, 1)]
    assert [json.loads(row["message"]["body"]["text"])["n"] for row in shown["rows"]] == [0] * 3 + [8, 16]
    assert [row["fates"] for row in shown["rows"]] == [["parked"], ["behind"], ["behind"], *[["waits for a former queue"]] * 2]


def test_a_look_is_bounded_and_says_where_to_go_on(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LOOKED_MAX", 100)
    monkeypatch.setattr(scan, "_FIRST_ROWS", 30)
    looks, seen, page = 0, list[int](), found(browser, f"?where={quote('n < 3')}")
    while True:
        looks, seen = looks + 1, seen + numbers(page)
        assert page["looked"] <= 150
        if page["older"] is None:
            break
        page = found(browser, f"?where={quote('n < 3')}&before={page['older']}")
    assert (sorted(seen), looks >= 2) == ([0, 1, 2], True)
    text = browser.page(f"/topics/visits/messages?where={quote('n > 500')}")
    assert "Looked through" in text
    assert "Go on from here, older" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?start=5", "an offset has a meaning in one queue only"),
        ("?queue=9", "the topic has no such queue"),
        ("?queue=1&start=999", "no such offset"),
        ("?start=yesterday", "is no position"),
        (f"?where={quote('n >')}", "the expression cannot be read"),
    ],
)
def test_what_is_asked_wrongly_is_said_beside_the_form(browser: Browser, query: str, said: str) -> None:
    page = html.unescape(browser.page(f"/topics/visits/messages{query}"))
    assert said in page
    assert '<form class="inline conditions"' in page


def test_fields_of_the_form_show_what_may_be_typed(browser: Browser) -> None:
    page = html.unescape(browser.page("/topics/visits/messages"))
    assert """placeholder="price > 10 AND region = 'north'\"""" in page
    assert 'placeholder="-10m"' in page


def test_a_link_that_is_none_is_refused(browser: Browser) -> None:
    for query in ("before=x", "after=0.1-", "after=0.1--1.2", "before=0.99999999999999999999", "after=" + "-".join(["0.1"] * 65)):
        assert "a place in a topic" in browser.page(f"/topics/visits/messages?{query}", status=400)
    assert numbers(found(browser, "?after=7.1")) == []


def test_arrivals_are_counted_without_moving_what_is_read(browser: Browser, filled: Path) -> None:
    page = found(browser)
    text = browser.page("/topics/visits/messages")
    assert f'data-live-url="/live/l/lake/topics/visits/messages/arrivals?after={page["newer"]}"' in text
    with connect(filled) as lake, lake.producer("visits", linger=timedelta(0)) as producer:
        for n in (240, 241):
            producer.send(Message(b'{"n": %d}' % n), queue=0).result(timeout=TIMEOUT_S)
    assert browser.api(f"/topics/visits/messages/arrivals?after={page['newer']}")["messages"] == 2
    assert numbers(found(browser, f"?after={page['newer']}")) == [241, 240]
    with browser.client.stream("GET", f"/live/l/lake/topics/visits/messages/arrivals?after={page['newer']}") as answer:
        browser.site.ending.set()
        assert '"newer": "2"' in "".join(answer.iter_text())


def test_typed_rows_are_columns(browser: Browser) -> None:
    page = browser.api("/topics/payments/messages")["found"]["value"]
    assert page["fields"] == ["id", "who", "amount"]
    assert page["rows"][0]["fields"] == ["2", HOSTILE, "1.50"]
    text = browser.page("/topics/payments/messages?where=value.id%20%3D%201")
    assert '<th scope="col" class="far">amount</th>' in text
    assert "<img" not in text


def test_a_topic_shows_how_its_schema_became_what_it_is(browser: Browser, filled: Path) -> None:
    with connect(filled) as lake:
        lake.evolve_topic("payments", "id BIGINT NOT NULL, who STRING, amount DECIMAL(10,2), at TIMESTAMP")
    stored = browser.api("/topics/payments")["stored"]["value"]
    assert [(one["version"], bool(one["changes"])) for one in stored["schema_history"]] == [(2, True), (1, False)]
    page = browser.page("/topics/payments")
    assert "Versions of the schema" in page
    assert 'href="/l/lake/topics/payments/messages"' in page


def test_bodies_are_folded_laid_out_and_harmless(browser: Browser, filled: Path) -> None:
    with connect(filled) as lake, lake.producer("mails", linger=timedelta(0)) as producer:
        for body in (EVIL, b"\x00\xff" * 3000, b'{"a":[1,{"b":"\\u003cx"}],"n":1e400}', None, b"", b"[" * 5000):
            producer.send(Message(body)).result(timeout=TIMEOUT_S)
    rows = browser.api("/topics/mails/messages")["found"]["value"]["rows"]
    assert [row["body"]["kind"] for row in reversed(rows)] == ["text", "bytes", "JSON", "no body", "empty", "text"]
    page = browser.page("/topics/mails/messages")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;␛[31m[U+202E]" in page
    assert html.escape('{\n  "a": [\n    1,\n    {\n      "b": "\\u003cx"\n    }\n  ],\n  "n": 1e400\n}') in page.replace(
        "&#34;", "&quot;"
    )


def test_a_message_is_one_line_whose_labels_narrow_the_list(browser: Browser) -> None:
    page = html.unescape(browser.page("/topics/visits/messages?tag=odd&where=n%20%3E%2020"))
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)[1:]
    assert len(rows) == 50
    assert all(row.count("<time") == 1 for row in rows)
    assert '/topics/visits/messages?tag=odd&where=n%20%3E%2020&key=k39"' in rows[0]
    assert '/topics/visits/messages?tag=odd&where=n%20%3E%2020"' in rows[0]
    (message_id,) = re.findall(r'<code class="id"><bdi>([^<]*)</bdi>', rows[0])
    assert f"/trace/{message_id}?topic=visits" in rows[0]
    assert "rows=" not in rows[0]
    assert "rows=7" in browser.page("/topics/visits/messages?rows=7")


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"text": "<&>" * 5_000, "list": [[[{"a": n}]] for n in range(500)]}).encode(),
        "\U000e0100".encode() * 5_000,
        b'"' * 5_000,
        b"\x00" * 5_000,
        b"x\n" * 5_000,
    ],
    ids=["JSON", "unseen", "quotes", "bytes", "lines"],
)
def test_a_page_of_large_messages_is_small_and_says_what_is_cut(browser: Browser, filled: Path, body: bytes) -> None:
    with connect(filled) as lake, lake.producer("mails") as producer:
        for n in range(50):
            producer.send(Message(body, tag="t" * 60, keys=["<key>" * 8], properties={f"name {n}": "<&>" * 60 for n in range(40)}))
    page = browser.page("/topics/mails/messages")
    assert page.count(", cut: ") == 50
    assert page.count("more</dd>") == 50
    assert len(page.encode()) <= 170_000, "every message is as large and hostile as can be"


def test_a_page_of_ordinary_messages_keeps_its_budget(browser: Browser, filled: Path) -> None:
    lines = [{"article": f"A-{n:05}", "name": "a thing of some kind", "price": n, "pieces": 2} for n in range(20)]
    with connect(filled) as lake, lake.producer("mails") as producer:
        for n in range(50):
            order = {"order": f"order-{n}", "customer": {"id": n, "name": "Ann Onymous"}, "lines": lines}
            producer.send(Message(json.dumps(order).encode(), tag="created", keys=[f"order-{n}"], properties={"shop": "north"}))
    assert len(browser.page("/topics/mails/messages").encode()) <= 100_000


def test_one_body_and_a_selection_are_files(browser: Browser, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(filled) as lake, lake.producer("mails", linger=timedelta(0)) as producer:
        producer.send(Message(EVIL)).result(timeout=TIMEOUT_S)
    answer = browser.client.get("/files/l/lake/topics/mails/queues/0/messages/0/body")
    assert (answer.status_code, answer.content) == (200, EVIL)
    assert answer.headers["content-disposition"] == 'attachment; filename="mails-0-0.bin"'
    assert (answer.headers["content-type"], answer.headers["x-content-type-options"]) == ("application/octet-stream", "nosniff")
    row = browser.client.get("/files/l/lake/topics/payments/queues/0/messages/1/body").json()
    assert (row["id"], row["amount"]) == (1, "1.50")
    assert browser.client.get("/files/l/lake/topics/none/messages.jsonl").status_code == 404

    def lines(query: str) -> list[dict[str, Any]]:
        text = browser.client.get(f"/files/l/lake/topics/visits/messages.jsonl{query}").text
        return [json.loads(line) for line in text.splitlines()]

    assert sorted(json.loads(one["body"])["n"] for one in lines("")) == list(range(240))
    assert [json.loads(one["body"])["n"] for one in lines("?key=k7&queue=2")] == [47, 167]
    assert [one["properties"]["n"] for one in lines(f"?where={quote('n > 237')}&start=-1h")] == ["238", "239"]
    monkeypatch.setattr(json_lines, "LINES_MAX", 7)
    for query in ("", "?key=k7", "?tag=odd"):
        every, after = list[str](), ""
        for _ in range(60):
            *messages, last = lines(f"{query or '?'}{after}")
            if "not_complete" not in last:
                every += [one["properties"]["n"] for one in (*messages, last)]
                break
            every += [one["properties"]["n"] for one in messages]
            after = f"&after={last['after']}"
        wanted = {"": 240, "?key=k7": 6, "?tag=odd": 120}[query]
        assert len(every) == len(set(every)) == wanted


def test_a_message_shows_its_life(console: Open, stuck: Path) -> None:
    browser = console()
    message_id = browser.api("/topics/orders/messages?queue=0&start=1")["found"]["value"]["rows"][-1]["message_id"]
    life = browser.api(f"/trace/{message_id}?topic=orders")["life"]["value"]
    assert [one["what"].partition(":")[0] for one in life["events"]] == ["sent", "stored"]
    (place,) = life["places"]
    assert (place["queue"], place["offset"], place["message_group"]) == (0, 1, HOSTILE)
    assert [(one["group"], one["fate"], one["attempts"]) for one in place["groups"]] == [("billing", "parked", 17)]
    page = browser.page(f"/trace/{message_id}")
    assert "parked until an operator releases or skips it" in page
    assert '<ol class="life">' in page
    assert "Release" in page
    assert "There is no message of this id" in browser.page("/trace/none?topic=orders")
    assert "there is no such topic" in browser.page("/trace/none?topic=none", status=404)


def test_a_lake_of_many_topics_asks_which_one(console: Open, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.infra.web.views.message.TOPICS_MAX", 1)
    browser = console()
    assert browser.api("/trace/none")["life"] is None
    assert '<option value="orders">' in browser.page("/trace/none")
    assert "penstock trace none" in browser.page("/trace/none")  # no page starts a search of so many topics


def test_a_message_group_shows_why_it_waits(console: Open, stuck: Path) -> None:
    browser = console()
    path = f"/topics/orders/message-groups/~{quote(HOSTILE, safe='')}"
    shown = browser.api(path)
    assert shown["message_group"] == HOSTILE
    ordered = shown["ordered"]["value"]
    assert [(row["message"]["offset"], row["fates"]) for row in ordered["rows"]] == [(1, ["parked"]), (3, ["behind"])]
    stand = next(one for one in ordered["stands"] if one["queue"] == 0)
    assert (stand["group"], stand["stands_at"], stand["attempts"]) == ("billing", 1, 17)
    page = browser.page(path)
    assert "<img" not in page
    assert "parked until" in page


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a?b#c&d=~", HOSTILE, "über ☃", "x" * 63])
def test_message_groups_of_any_name_have_a_page(console: Open, folder: Path, name: str) -> None:
    with connect(folder) as lake, lake.producer("orders", linger=timedelta(0)) as producer:
        producer.send(Message(b"1", message_group=name)).result(timeout=TIMEOUT_S)
    browser = console()
    listed = browser.api("/topics/orders/messages")["found"]["value"]["rows"]
    assert name in [row["message_group"] for row in listed]
    link = f"/topics/orders/message-groups/~{quote(name, safe='')}"
    assert f'href="/l/lake{link}"' in browser.page("/topics/orders/messages")
    rows = browser.api(link)["ordered"]["value"]["rows"]
    assert {row["message"]["message_group"] for row in rows} == {name}


def test_json_keeps_what_was_written() -> None:
    assert laid_out('{"a":1.10,"a":{},"b":[ ],"c":"{,}:\\""}') == ('{\n  "a": 1.10,\n  "a": {},\n  "b": [],\n  "c": "{,}:\\""\n}')
    deep = "[" * 3000 + "]" * 3000
    assert len(laid_out(deep)) <= 8 * len(deep) + 1000
    assert body_of(b'{"n": 1' + b"0" * 6000 + b"}", most=10_000).kind is BodyKind.JSON
    cut = body_of(b'{"a": "' + "ü".encode() * 100 + b'"}', most=20)
    assert (cut.kind, cut.is_whole, cut.size_bytes) == (BodyKind.TEXT, False, 209)


def test_a_damaged_log_is_told_with_what_to_do(console: Open, folder: Path) -> None:
    damaged = folder / "topics" / "orders" / "log" / f"{2:020}.parquet"
    damaged.write_bytes(b"damaged")
    browser = console()
    for path in ("/topics/orders/messages", "/topics/orders/message-groups/~ann"):
        assert "penstock repair" in browser.page(path, status=500)
    assert "Could not be read" in browser.page("/trace/none")
    asyncio.run(repair(LocalStore(folder), TopicPaths.of("orders"), Runtime()))
    value = browser.api("/topics/orders/messages")["found"]["value"]
    assert (len(value["rows"]) < 5, value["left_out"] > 0) == (True, True)
    assert "cannot be read any more, and are left out" in browser.page("/topics/orders/messages")
    readable = "/l/lake/topics/orders/message-groups/~ann"
    wait_until(lambda: browser.client.get(readable).status_code == 200, "the log's next look")
