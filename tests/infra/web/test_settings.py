"""Topics and consumer groups made and altered from the console."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from penstock import connect
from tests.infra.web.conftest import Browser, Open, fields
from tests.infra.web.shop import HOSTILE


def asked(browser: Browser, action: str, given: Mapping[str, str], *, status: int = 200) -> str:
    """The preview's page, by the action's form."""
    known = {name: given[name] for name in ("topic", "group") if name in given and action.startswith("alter")}
    query = "&".join(f"{name}={value}" for name, value in known.items())
    form = browser.form(f"/actions/{action}/form?{query}") if status == 200 else browser.form("/actions/create_topic/form")
    answer = browser.client.post(f"/l/lake/actions/{action}/preview", data={**form, **given})
    assert answer.status_code == status, answer.text
    return answer.text


def confirmed(browser: Browser, action: str, page: str, *, status: int = 200, typed: str = "") -> str:
    answer = browser.client.post(f"/l/lake/actions/{action}", data={**fields(page), "typed": typed})
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def test_a_topic_is_made_as_its_preview_says(console: Open, folder: Path) -> None:
    browser = console()
    given = {
        "topic": "refunds",
        "message_type": "FIFO",
        "queues": "4",
        "routing": "murmur2",
        "schema": "id bigint not null, who string",
        "message_group": "who",
        "keys": "id, who",
        "retention": "2h",
        "max_body_bytes": "1MiB",
        "iceberg": "no",
    }
    page = asked(browser, "create_topic", given)
    assert "Topic refunds is made: FIFO, 4 queues." in html.unescape(page)
    assert "penstock topic create refunds --type FIFO --routing murmur2 --schema 'id bigint not null, who string'" in html.unescape(
        page
    )
    with connect(folder, read_only=True) as lake:
        assert "refunds" not in lake.topics()
    assert "Topic refunds is made" in confirmed(browser, "create_topic", page)
    with connect(folder, read_only=True) as lake:
        made = lake.topics()["refunds"].settings
    assert (str(made.message_type), made.queues, str(made.routing)) == ("FIFO", 4, "murmur2")
    assert (made.message_group, made.keys, made.retention) == ("who", ("id", "who"), timedelta(hours=2))
    assert made.limits.max_body_bytes == 2**20
    assert "has changed since" in confirmed(browser, "create_topic", page, status=409)


def test_of_two_operators_who_make_one_topic_the_second_is_told(console: Open) -> None:
    first, second = console(), console()
    pages = [asked(one, "create_topic", {"topic": "refunds", "queues": queues}) for one, queues in ((first, "1"), (second, "2"))]
    confirmed(first, "create_topic", pages[0])
    assert "There is a topic refunds already" in confirmed(second, "create_topic", pages[1], status=409)


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("create_topic", {"topic": HOSTILE}, "topic"),
        ("create_topic", {"topic": "../../etc"}, "topic"),
        ("create_topic", {"topic": "%TIMER%orders"}, "timer log"),
        ("create_topic", {"topic": "penstock-audit"}, "the first action makes the audit topic"),
        ("create_topic", {"topic": "new", "queues": "0"}, "queues must be a positive whole number"),
        ("create_topic", {"topic": "new", "queues": "many"}, "no whole number"),
        ("create_topic", {"topic": "new", "message_type": "LIFO"}, "no such message type"),
        ("create_topic", {"topic": "new", "retention": "soon"}, "is no duration"),
        ("create_topic", {"topic": "new", "iceberg": "maybe"}, "neither yes nor no"),
        ("alter_topic", {"topic": "orders", "queues": "3"}, "a topic grows to a multiple of its queues"),
        ("alter_topic", {"topic": "orders", "max_headers": "0"}, "max headers"),
        ("alter_topic", {"topic": "orders", "message_type": "NORMAL"}, "no such argument"),
        ("create_group", {"group": "a\nb"}, "bad consumer group name"),
        ("create_group", {"group": "new", "delivery_order": "SIDEWAYS"}, "delivery_order"),
        ("create_group", {"group": "new", "delivery_order": "CONCURRENT", "dead_letter_policy": "park"}, "only an ORDERLY group"),
        ("alter_group", {"group": "billing", "max_attempts": "0"}, "no number of attempts"),
        ("alter_group", {"group": "billing", "filters": "orders"}, "is no filter"),
        ("alter_group", {"group": "billing", "retry": "rocketmq", "retry_interval": "5s"}, "has its own intervals"),
    ],
)
def test_what_cannot_be_is_told_on_the_form(console: Open, action: str, given: dict[str, str], said: str) -> None:
    assert said in html.unescape(asked(console(), action, given, status=400))


def test_a_schema_names_no_file_of_the_server(console: Open, tmp_path: Path) -> None:
    secret = tmp_path / "secret.sql"
    secret.write_text("mystery bigint")
    for schema in (f"@{secret}", str(secret)):
        page = asked(console(), "create_topic", {"topic": "new", "schema": schema}, status=400)
        assert "mystery" not in page


def test_a_topic_that_would_keep_less_asks_for_its_name(console: Open, folder: Path) -> None:
    browser = console()
    given = {"topic": "orders", "retention": "1h", "queues": "4"}
    page = asked(browser, "alter_topic", given)
    assert "retention: 3d -> 1h" in html.unescape(page)
    assert "queues: 2 -> 4" in html.unescape(page)
    assert "Messages beyond what is kept then are dropped for good." in html.unescape(page)
    assert "was not typed" in confirmed(browser, "alter_topic", page, status=400)
    confirmed(browser, "alter_topic", page, typed="orders")
    with connect(folder, read_only=True) as lake:
        assert lake.topics()["orders"].settings.retention == timedelta(hours=1)
        assert lake.describe_topic("orders").settings.queues == 4
    assert "There is nothing to do" in asked(browser, "alter_topic", given)


@pytest.mark.parametrize("anew", [False, True])
def test_a_topic_that_another_changed_or_made_anew_is_not_altered(console: Open, folder: Path, anew: bool) -> None:
    browser = console()
    page = asked(browser, "alter_topic", {"topic": "orders", "max_body_bytes": "1MiB"})
    with connect(folder) as lake:
        if anew:
            lake.delete_topic("orders")
            lake.create_topic("orders", message_type="FIFO", queues=2)
        else:
            lake.alter_topic("orders", retention=timedelta(days=9))
    confirmed(browser, "alter_topic", page, status=409)
    with connect(folder, read_only=True) as lake:
        assert lake.topics()["orders"].settings.limits.max_body_bytes == 4 * 2**20


def test_a_group_is_made_and_altered(console: Open, folder: Path) -> None:
    browser = console()
    page = asked(browser, "create_group", {"group": HOSTILE, "retry": "exponential", "retry_interval": "2s", "max_attempts": "3"})
    assert "ORDERLY for good" in html.unescape(page)
    assert "<img" not in page
    confirmed(browser, "create_group", page)
    page = asked(
        browser, "alter_group", {"group": "billing", "max_attempts": "unlimited", "filters": "orders=paid\nmails=SQL92: n > 1"}
    )
    assert "--filter orders=paid --filter 'mails=SQL92: n > 1'" in html.unescape(page)
    confirmed(browser, "alter_group", page)
    with connect(folder, read_only=True) as lake:
        made, altered = lake.groups()[HOSTILE], lake.groups()["billing"]
    assert (made.max_attempts, str(made.retry.schedule), made.retry.interval) == (3, "exponential", timedelta(seconds=2))
    assert (altered.max_attempts, dict(altered.filters)) == (None, {"orders": "paid", "mails": "SQL92: n > 1"})
    assert (altered.dead_letter_policy.value, altered.delivery_order.value) == ("park", "ORDERLY")


@pytest.mark.parametrize("anew", [False, True])
def test_a_group_that_another_changed_or_made_anew_is_not_altered(console: Open, folder: Path, anew: bool) -> None:
    browser = console()
    page = asked(browser, "alter_group", {"group": "billing", "max_attempts": "5"})
    with connect(folder) as lake:
        if anew:
            lake.delete_group("billing")
            lake.create_group("billing", dead_letter_policy="park")
        else:
            lake.alter_group("billing", dead_letter_policy="continue")
    confirmed(browser, "alter_group", page, status=409)
    with connect(folder, read_only=True) as lake:
        assert lake.groups()["billing"].max_attempts == 17
