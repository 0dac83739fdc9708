"""A dead letter changed in the console and sent back: once, with its provenance, and itself as it was."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import Any

import pytest

from penstock import Message, MessageView, aio, connect
from penstock.consumers.dead_letters.redrive_cell import RedriveCell
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter
from tests.infra.web.conftest import Browser, Open, fields
from tests.infra.web.shop import HOSTILE
from tests.infra.web.test_actions import audited

EDIT, PREVIEW = "/l/lake/actions/edit", "/l/lake/actions/edit/preview"
BODIES = (b'{"to": "nobody"}', b"\xff\x00", b"</textarea><script>alert(1)</script>\r\n")


def bury(folder: Path) -> None:
    """Dead letters of the group billing, by their bodies."""

    async def run() -> None:
        async with aio.connect(folder) as lake:
            producer = await lake.producer("mails")
            for body in BODIES:
                await producer.send(Message(body, tag="paid", keys=["k"], properties={"tried": HOSTILE}))
            await producer.close()
            messages = [one async for one in (await lake.reader("mails")).messages(queue=0)]
            writer = DeadLetterWriter(lake, "billing", "mails", 0)
            await writer.write([DeadLetter(n, one, 3, "no such address") for n, one in enumerate(messages)])
            await writer.close()

    asyncio.run(run())


@pytest.fixture
def buried(folder: Path) -> Path:
    bury(folder)
    return folder


def filled(browser: Browser, offset: int = 0) -> dict[str, str]:
    """All fields of the form, as a browser would send them."""
    page = browser.page(f"/actions/edit/form?group=billing&offset={offset}")
    found = fields(page)
    found |= {
        name: html.unescape(text)
        for name, text in re.findall(r'<textarea [^>]*name="(\w+)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    }
    found |= {name: html.unescape(text) for name, text in re.findall(r'<input id="\S+" name="(\w+)" value="([^"]*)"', page)}
    return {name: text.replace("\r\n", "\n").replace("\n", "\r\n") for name, text in found.items()}


def previewed(browser: Browser, given: dict[str, str], *, status: int = 200) -> str:
    answer = browser.client.post(PREVIEW, data=given)
    assert answer.status_code == status, answer.text
    return answer.text


def back(folder: Path) -> list[MessageView]:
    """What was sent back."""
    with connect(folder, read_only=True) as lake:
        return [one for one in lake.reader("mails").messages() if "REDRIVE_OFFSET" in one.properties]


def test_a_letter_is_mended_and_goes_back_once(console: Open, buried: Path) -> None:
    browser = console()
    given = {**filled(browser), "body": '{"to": "ann"}', "tag": ""}
    page = previewed(browser, given)
    text = html.unescape(page)
    assert "goes back to mails with changes, for every group that reads the topic" in text
    assert "penstock dlq resend billing 0 --body" in text
    assert "--tag '' --key k" in text
    assert "<td>body</td>" in page
    assert back(buried) == []
    seen = fields(page)
    assert "from the dead letter at offset 0" in browser.client.post(EDIT, data=seen).text
    assert browser.client.post(EDIT, data=seen).status_code == 409  # a double click
    (one,) = back(buried)
    with connect(buried, read_only=True) as lake:
        letter = next(iter(lake.reader("%DLQ%billing").messages()))
    assert (one.body, one.tag, one.keys, one.message_id) == (b'{"to": "ann"}', None, ("k",), letter.message_id)
    assert one.properties == {"tried": HOSTILE, "REDRIVE_OFFSET": "0", "REDRIVE_EDITED_BY": "local"}
    assert (letter.body, letter.tag) == (BODIES[0], "paid")
    began, ended = audited(buried)
    assert began["arguments"]["body"].startswith("13 bytes, SHA-256")
    assert (began["arguments"]["offset"], ended["state"]) == ("0", "done")
    assert browser.api("/dead-letters/billing/letter?offset=0")["letter"]["value"]["row"]["redrive"] == "sent"


def test_bytes_stay_and_hostile_texts_are_only_text(console: Open, buried: Path) -> None:
    browser = console()
    given = filled(browser, 1)
    assert (given["keep_body"], "body" in given) == ("yes", False)
    browser.client.post(EDIT, data=fields(previewed(browser, {**given, "only_group": "yes"})))
    hostile = browser.page("/actions/edit/form?group=billing&offset=2")
    assert "<script>alert(1)" not in hostile
    assert "another end" not in hostile
    page = previewed(browser, filled(browser, 2))
    assert "<script>alert(1)" not in page
    browser.client.post(EDIT, data=fields(page))
    bytes_, text = back(buried)
    assert (bytes_.body, bytes_.properties["REDRIVE_GROUP"]) == (BODIES[1], "billing")
    assert text.body == BODIES[2].replace(b"\r\n", b"\n")


def test_of_two_operators_the_second_sends_nothing(console: Open, buried: Path) -> None:
    first, second = console(), console()
    pages = [previewed(one, {**filled(one), "body": body}) for one, body in ((first, "a"), (second, "b"))]
    assert first.client.post(EDIT, data=fields(pages[0])).status_code == 200
    answer = second.client.post(EDIT, data=fields(pages[1]))
    assert answer.status_code == 409
    assert "was sent back already" in answer.text
    assert [one.body for one in back(buried)] == [b"a"]


@pytest.mark.parametrize("what", ["mails", "%DLQ%billing"])
def test_a_topic_or_queue_made_anew_gets_nothing(console: Open, buried: Path, what: str) -> None:
    browser = console()
    page = previewed(browser, {**filled(browser), "body": "a"})
    with connect(buried) as lake:
        lake.delete_topic(what)
        if what == "mails":
            lake.create_topic(what, queues=1)
    answer = browser.client.post(EDIT, data=fields(page))
    assert answer.status_code == (409 if what == "mails" else 404)
    assert back(buried) == []


def test_a_letter_on_its_way_goes_with_the_changes(console: Open, buried: Path) -> None:
    """Another console was killed between the letter's place and its send."""

    async def begin() -> None:
        async with aio.connect(buried) as lake:
            cell = RedriveCell(lake, "billing", (await lake.topic("%DLQ%billing")).life)
            await cell.read()
            await cell.give([0], earliest=0)
            await cell.close()

    asyncio.run(begin())
    browser = console()
    answer = browser.client.post(EDIT, data=fields(previewed(browser, {**filled(browser), "body": "a"})))
    assert answer.status_code == 200
    assert [one.body for one in back(buried)] == [b"a"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"message_group": "g"}, "takes NORMAL messages now"),
        ({"body": "x" * 20_000}, "too long to be written by hand"),
        ({"tag": "x" * 20_000}, "at most"),
        ({"properties": "n"}, "a line is no property"),
        ({"only_group": "perhaps"}, "neither yes nor no"),
        ({"offset": "-1"}, "no whole number"),
    ],
)
def test_what_cannot_go_back_is_told_on_the_form(console: Open, buried: Path, given: dict[str, Any], said: str) -> None:
    browser = console()
    answer = browser.client.post(PREVIEW, data={**filled(browser), **given})
    assert answer.status_code == 400
    assert said in html.unescape(answer.text)


def test_a_cleared_field_stays_clear_when_something_else_was_wrong(console: Open, buried: Path) -> None:
    browser = console()
    page = previewed(browser, {**filled(browser), "tag": "", "properties": "n"}, status=400)
    assert 'name="tag" value=""' in page


def test_what_is_not_there_is_no_letter(console: Open, buried: Path) -> None:
    browser = console()
    for path in ("group=billing&offset=99", "group=none&offset=0"):
        browser.page(f"/actions/edit/form?{path}", status=404)
        browser.page(f"/actions/edit?{path}", status=404)


def test_a_row_is_mended_by_the_names_that_its_letter_has(console: Open, folder: Path) -> None:
    async def bury_row() -> None:
        async with aio.connect(folder) as lake:
            producer = await lake.producer("rows")
            await producer.send(Message.of({"id": 1, "who": "nobody"}))
            await producer.close()
            (row,) = [one async for one in (await lake.reader("rows")).messages()]
            writer = DeadLetterWriter(lake, "billing", "rows", 0)
            await writer.write([DeadLetter(0, row, 3, "nobody")])
            await writer.close()

    with connect(folder) as lake:
        lake.create_topic("rows", queues=1, schema="id bigint not null, who string")
    asyncio.run(bury_row())
    browser = console()
    given = filled(browser)
    assert "another schema" in html.unescape(previewed(browser, {**given, "body": '{"id": "x"}'}, status=400))
    page = previewed(browser, {**given, "body": given["body"].replace("nobody", "ann")})
    assert browser.client.post(EDIT, data=fields(page)).status_code == 200
    with connect(folder, read_only=True) as lake:
        *_, back_again = lake.reader("rows").messages()
    assert back_again.value == {"id": 1, "who": "ann"}
