"""Transactions: the open ones by age, what each would send, and an operator's decision."""

from __future__ import annotations

import html
from pathlib import Path

import pytest

from penstock import Message, TransactionResolution, connect
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE
from tests.infra.web.test_actions import audited


def left_open(folder: Path, *topics: str, group: str = "pay") -> str:
    """A transaction whose sender left without a decision."""
    with connect(folder, maintenance=False) as lake:
        transaction = lake.transaction(producer_group=group, checker=lambda _: TransactionResolution.UNKNOWN)
        for topic in topics:
            transaction.send(topic, Message(HOSTILE.encode(), tag="card"), Message(b"\xff\x00"))
        assert transaction.id is not None
        return transaction.id


@pytest.fixture
def paying(folder: Path) -> Path:
    with connect(folder) as lake:
        for topic in ("paid", "booked"):
            lake.create_topic(topic, message_type="TRANSACTION", queues=1)
    return folder


def visible(folder: Path, topic: str = "paid") -> int:
    with connect(folder, read_only=True) as lake:
        return sum(1 for _ in lake.reader(topic).messages())


def test_open_ones_are_listed_oldest_first(console: Open, paying: Path) -> None:
    first, second = left_open(paying, "paid", "booked"), left_open(paying, "paid", group="ship")
    browser = console()
    listed = browser.api("/transactions")["listed"]["value"]
    assert [row["transaction"] for row in listed["rows"]] == [first, second]
    assert (listed["open"], listed["groups_total"], listed["rows"][0]["messages"]) == (2, 2, 4)
    of_one = browser.api("/transactions?producer_group=ship")["listed"]["value"]
    assert [row["transaction"] for row in of_one["rows"]] == [second]
    assert "no transaction of this producer group is known" in browser.page("/transactions?producer_group=none")


def test_a_lake_without_any_says_so(console: Open) -> None:
    assert "No transaction is open" in console().page("/transactions")


def test_one_shows_what_it_would_send_and_nothing_acts(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid")
    browser = console()
    opened = browser.api(f"/transactions?transaction={transaction}")["opened"]["value"]
    assert [one["body"]["size_bytes"] for one in opened["half_messages"]] == [len(HOSTILE), 2]
    page = browser.page(f"/transactions?transaction={transaction}")
    assert HOSTILE not in page
    assert HOSTILE in html.unescape(page)
    assert f"penstock tx describe {transaction} --messages" in html.unescape(page)
    assert "fault" in browser.page("/transactions?transaction=none")


def test_a_commit_is_shown_first_and_asks_for_the_producer_group(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid", "booked")
    browser, path = console(), f"/actions/commit?transaction={transaction}"
    shown = browser.api(path)
    assert shown["summary"] == "Would commit 4 messages of producer group pay to paid, booked."
    assert len(shown["samples"][1]["rows"]) == 4
    assert "was not typed" in browser.submit(path, status=400)
    assert visible(paying) == 0
    assert "Committed 4 messages of producer group pay" in browser.submit(path, typed="pay")
    assert (visible(paying), visible(paying, "booked")) == (2, 2)
    assert audited(paying)[-1]["action"] == "commit"
    assert browser.api(path)["is_nothing"]
    assert browser.api("/transactions")["listed"]["value"]["rows"] == []


def test_a_rollback_makes_nothing_visible(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid")
    browser, path = console(), f"/actions/rollback?transaction={transaction}"
    assert browser.api(path)["samples"][1]["title"].startswith("What nobody will ever see")
    assert "Rolled back 2 messages" in browser.submit(path, typed="pay")
    assert visible(paying) == 0
    assert "transaction" in browser.page(f"/actions/commit?transaction={transaction}", status=400)


def test_of_two_operators_the_second_decides_nothing(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid")
    path = f"/actions/rollback?transaction={transaction}"
    first, second = console(), console()
    seen = second.form(path)
    first.submit(path, typed="pay")
    assert second.client.post(f"/l/lake{path}", data={**seen, "typed": "pay"}).status_code == 409


def test_messages_to_a_deleted_topic_are_told_before(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid", "booked")
    with connect(paying) as lake:
        lake.delete_topic("booked")
    shown = console().api(f"/actions/commit?transaction={transaction}")
    assert "Deleted, and 2 messages with it: booked." in shown["summary"]


def test_viewers_may_look_only(console: Open, paying: Path) -> None:
    transaction = left_open(paying, "paid")
    browser = console(read_only=True)
    assert "Commit …" not in browser.page(f"/transactions?transaction={transaction}")
    assert "started with --read-only" in browser.page(f"/actions/commit?transaction={transaction}")
