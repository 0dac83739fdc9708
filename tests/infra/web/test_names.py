"""Pages, files and actions of groups whose names a URL cannot hold as they are."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path

import pytest

from penstock import aio, connect
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter
from tests.infra.web.conftest import Open
from tests.infra.web.shop import HOSTILE

PARTS = {
    "connect-cluster/αβ group#1": "connect-cluster!2f!ce!b1!ce!b2!20group!231",
    "..": "!2e.",
    "a/letter": "a!2fletter",
    "a%2Fb?c=d": "a!252Fb!3fc!3dd",
    HOSTILE: "".join(char if char.isalnum() else f"!{ord(char):02x}" for char in HOSTILE),
}


@pytest.fixture(params=PARTS)
def group(folder: Path, request: pytest.FixtureRequest) -> str:
    """A group that has begun orders, with a dead letter."""
    name = str(request.param)
    with connect(folder) as lake:
        lake.create_group(name)
        lake.reset_offsets(name, "orders", "earliest")

    async def bury() -> None:
        async with aio.connect(folder) as lake:
            messages = [one async for one in (await lake.reader("orders")).messages(queue=0)]
            writer = DeadLetterWriter(lake, name, "orders", 0)
            await writer.write([DeadLetter(0, messages[0], 17, "no")])
            await writer.close()

    asyncio.run(bury())
    return name


def linked_all(page: str, address: str) -> set[str]:
    """The addresses in a page that begin so."""
    return {html.unescape(one) for one in re.findall(r'href="([^"]*)"', page) if html.unescape(one).startswith(address)}


def linked(page: str, address: str) -> str:
    """The one address in a page that begins so."""
    (found,) = linked_all(page, address)
    return found.removeprefix("/l/lake")


def test_its_pages_are_found_by_the_console_s_own_links(console: Open, group: str) -> None:
    browser = console()
    part = PARTS[group].replace("!", "%21")
    own = linked(browser.page("/groups"), f"/l/lake/groups/{part}")
    assert own == f"/groups/{part}"
    page = browser.page(own)
    assert html.escape(group, quote=False) in page.replace("&#39;", "'").replace("&#34;", '"')
    assert browser.api(f"/groups/{PARTS[group]}")["group"] == group
    letters = linked(browser.page("/dead-letters"), f"/l/lake/dead-letters/{part}")
    letter = linked(browser.page(letters), f"/l/lake/dead-letters/{part}/letter")
    assert browser.api(letter)["letter"]["value"]["row"]["offset"] == 0
    assert f"%DLQ%{PARTS[group]}" in browser.page(letter)
    file = browser.client.get(f"/files/l/lake/dead-letters/{part}/export")
    assert file.status_code == 200
    assert re.fullmatch(r'attachment; filename="dead-letters-of-[A-Za-z0-9._-]+"', file.headers["content-disposition"])
    assert len(file.text.splitlines()) == 1


def test_its_letter_goes_back_by_a_form(console: Open, group: str) -> None:
    browser = console()
    page = browser.page(f"/dead-letters/{PARTS[group]}/letter?offset=0")
    alone, to_all = sorted(linked_all(page, "/l/lake/actions/redrive"), key=lambda one: "only_group" not in one)
    assert "alone gets them" in html.unescape(browser.page(alone.removeprefix("/l/lake")))
    done = browser.submit(to_all.removeprefix("/l/lake"))
    assert linked(done, "/l/lake/dead-letters/").endswith(PARTS[group].replace("!", "%21"))
    assert browser.api(f"/dead-letters/{PARTS[group]}/letter?offset=0")["letter"]["value"]["row"]["redrive"] == "sent"


@pytest.mark.parametrize("path", ["/groups/a b", "/groups/a!2Fb", "/groups/!61", "/groups/!ff", "/dead-letters/!0a"])
def test_a_name_that_is_written_otherwise_is_refused_with_the_way_to_write_it(console: Open, path: str) -> None:
    assert "'!' and two hexadecimal digits" in html.unescape(console().page(path, status=400))
