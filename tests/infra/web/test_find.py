"""The search box in the head: names that the lake has, and where ids are looked for."""

from __future__ import annotations

import html
from pathlib import Path
from urllib.parse import quote

from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE


def test_names_are_found_by_a_part_the_exact_one_first(console: Open, stuck: Path) -> None:
    found = console().api("/find?q=ORD")
    assert [(one["kind"], one["name"], one["is_exact"]) for one in found["places"]] == [("topic", "orders", False)]
    (group,) = console().api("/find?q=billing")["places"]
    assert (group["kind"], group["page"], group["values"], group["is_exact"]) == (
        "consumer group",
        "group",
        {"group": "billing"},
        True,
    )


def test_ids_groups_and_keys_are_looked_for_where_somebody_follows_the_link(console: Open, stuck: Path) -> None:
    kinds = [one["kind"] for one in console().api("/find?q=" + "0" * 32)["searches"]]
    assert kinds[:2] == ["message id", "transaction"]
    assert "transaction" not in [one["kind"] for one in console().api("/find?q=k7")["searches"]]
    page = html.unescape(console().page("/find?q=k7"))
    assert "/l/lake/topics/orders/messages?key=k7" in page
    assert "/l/lake/topics/orders/messages?message_group=k7" in page
    assert "/l/lake/trace/k7" in page


def test_every_page_has_the_box_and_hostile_texts_stay_texts(console: Open, stuck: Path) -> None:
    browser = console()
    for path in ("/", "/topics", "/find"):
        assert '<form class="find" method="get" action="/l/lake/find"' in browser.page(path)
    page = browser.page(f"/find?q={quote(HOSTILE)}")
    assert "<img" not in page
    assert "No topic, consumer group or worker has this in its name." in page
    assert browser.api("/find?q=%20")["searches"] == []
