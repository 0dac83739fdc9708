"""A store that refuses a part of a lake, or stands still: pages say so, and the rest of them works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from starlette.testclient import TestClient

from penstock import Message, aio, connect
from penstock.infra.web.lakes.lakes import LakeOptions, ServedLakes
from penstock.infra.web.lakes.source import LakeSource
from penstock.infra.web.server.app import app_of, site_of
from penstock.infra.web.server.options import ConsoleOptions
from penstock.log import Runtime
from penstock.log.errors import PermissionDenied
from penstock.log.stores import LocalStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.infra.web.conftest import KEY, REFRESH, Browser
from tests.lakes import TIMEOUT_S

T = TypeVar("T")


@dataclass
class Mood:
    """What the store does to calls."""

    refused: str | None = None
    """It refuses what has this in its key."""
    still: bool = False
    """It answers nothing, until it goes on."""
    went_on: asyncio.Event = field(default_factory=asyncio.Event)


class Moody(StoreWrapper):
    """A store with a mood."""

    def __init__(self, folder: Path, mood: Mood) -> None:
        super().__init__(LocalStore(folder))
        self._mood = mood

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self._mood.refused is not None and self._mood.refused in call.key:
            raise PermissionDenied("access denied", operation=call.verb, object=call.key)
        if self._mood.still:
            await self._mood.went_on.wait()
        return await run()


@pytest.fixture
def mood() -> Mood:
    return Mood()


@pytest.fixture
def browser(stuck: Path, mood: Mood) -> Iterator[Browser]:
    """A browser at a console whose store has this mood."""
    with connect(stuck) as lake, lake.producer("mails", linger=timedelta(0)) as producer:
        producer.send(Message(b"hello")).result(timeout=TIMEOUT_S)
    runtime = Runtime()

    def open_it() -> aio.Lake:
        return aio.connect(store=Moody(stuck, mood), runtime=runtime, maintenance=False)

    options = ConsoleOptions(lakes=(LakeOptions(name="lake", url=str(stuck), refresh=REFRESH),))
    site = site_of(options, ServedLakes([LakeSource("lake", open_it, runtime, REFRESH)]), runtime, key=KEY)
    with TestClient(app_of(site), base_url="http://localhost", client=("127.0.0.1", 50000), follow_redirects=False) as client:
        yield Browser(client, site)


def test_what_may_not_be_read_is_told_and_the_rest_works(browser: Browser, mood: Mood) -> None:
    mood.refused = "topics/orders/"
    unread = next(one for one in browser.api("/")["attention"] if one["kind"] == "unread")
    assert unread["text"] == "topic orders cannot be read: access denied"
    rows = {row["topic"]: row["facts"] for row in browser.api("/topics")["rows"]}
    assert (rows["orders"]["fault"]["kind"], rows["mails"]["fault"]) == ("permission_denied", None)
    assert "access denied" in browser.page("/topics/orders")
    assert "access denied" in browser.page("/topics/orders/messages", status=403)
    assert "access denied" in browser.page("/actions/release?group=billing", status=403)
    assert len(browser.api("/topics/mails/messages")["found"]["value"]["rows"]) == 1
    for path in ("/groups", "/workers", "/timers", "/transactions", "/changes", "/upkeep", "/dead-letters"):
        browser.page(path)
    mood.refused = None
    assert len(browser.api("/topics/orders/messages")["found"]["value"]["rows"]) == 5


def test_a_store_that_stands_still_holds_nobody_for_ever(browser: Browser, mood: Mood, monkeypatch: pytest.MonkeyPatch) -> None:
    assert browser.api("/")["topics"] == 2
    monkeypatch.setattr("penstock.infra.web.server.pages.PATIENCE_S", 0.2)
    mood.still = True
    for path in ("/topics/orders", "/groups/billing", "/upkeep"):
        answer = browser.client.get(f"/l/lake{path}")
        assert "the store did not answer in time" in answer.text
        assert "penstock doctor" in answer.text
    assert browser.client.get("/static/console.css").status_code == 200
    mood.still = False
    browser.client.portal.call(mood.went_on.set)  # type: ignore[union-attr] # it is open
    assert browser.api("/topics/orders")["stored"]["value"]["messages"] == 5
