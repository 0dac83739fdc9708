"""A message sent by hand from the console: checked first, sent once, and audited without its body."""

from __future__ import annotations

import html
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock import connect
from penstock.infra.web.actions.registry import ACTIONS
from penstock.infra.web.actions.send import BODY_BYTES_MAX
from penstock.infra.web.server.action_routes import OWN_FIELDS
from penstock.infra.web.server.site import FORM_TOKEN
from tests.infra.web.conftest import Browser, Open, fields
from tests.infra.web.shop import HOSTILE
from tests.infra.web.test_actions import audited

FORM = "/actions/send/form?topic=orders"
PREVIEW, CONFIRM = "/l/lake/actions/send/preview", "/l/lake/actions/send"
GIVEN = {"topic": "orders", "body": "{\r\n}", "message_group": HOSTILE, "tag": "paid", "keys": "a\r\nb\r\n", "properties": "n=1"}
X = {"topic": "orders", "body": "x", "message_group": "ann"}


def previewed(browser: Browser, given: Mapping[str, str], *, status: int = 200) -> str:
    """The page of the preview, as the form leads to it."""
    answer = browser.client.post(PREVIEW, data={**browser.form(FORM), **given})
    assert answer.status_code == status, answer.text
    return answer.text


def sent(folder: Path, topic: str = "orders") -> list[bytes]:
    """The bodies of a topic that are none of the shop's."""
    with connect(folder, read_only=True) as lake:
        return [one.body for one in lake.reader(topic).messages() if one.body != b"body"]


def test_a_message_is_shown_first_then_sent_as_it_was_typed(console: Open, folder: Path) -> None:
    browser = console()
    assert "Topic orders takes FIFO messages" in browser.page(FORM)
    page = previewed(browser, GIVEN)
    assert sent(folder) == []
    text = html.unescape(page)
    assert "One message of 3 bytes is sent to orders. Every group that reads the topic gets it: billing." in text
    assert "penstock send orders '{\n}' --message-group" in text
    assert "<img" not in page
    assert "Sent " in browser.client.post(CONFIRM, data=fields(page)).text
    with connect(folder, read_only=True) as lake:
        (one,) = [one for one in lake.reader("orders").messages() if one.body == b"{\n}"]
    assert (one.message_group, one.tag, one.keys, one.properties) == (HOSTILE, "paid", ("a", "b"), {"n": "1"})
    began, ended = audited(folder)
    assert began["arguments"]["topic"] == "orders"
    assert began["arguments"]["body"].startswith("3 bytes, SHA-256 ")
    assert one.message_id in ended["outcome"]


def test_a_double_click_sends_once(console: Open, folder: Path) -> None:
    browser = console()
    seen = fields(previewed(browser, X))
    assert [browser.client.post(CONFIRM, data=seen).status_code for _ in range(2)] == [200, 409]
    assert sent(folder) == [b"x"]
    again = fields(previewed(browser, X))
    assert browser.client.post(CONFIRM, data=again).status_code == 200
    assert sent(folder) == [b"x", b"x"]


def test_of_two_clicks_at_the_same_moment_one_sends(console: Open, folder: Path) -> None:
    """Two consoles, as behind a balancer."""
    browsers = [console(), console()]
    seen = [fields(previewed(one, X)) for one in browsers]
    start = threading.Barrier(2)

    def click(browser: Browser, form: dict[str, str]) -> int:
        start.wait()
        return browser.client.post(CONFIRM, data=form).status_code

    with ThreadPoolExecutor(2) as threads:
        codes = sorted(threads.map(click, browsers, seen))
    assert codes[0] == 200
    assert codes[1] in (400, 409)
    assert sent(folder) == [b"x"]


def test_a_topic_made_anew_gets_nothing_that_was_meant_for_the_former(console: Open, folder: Path) -> None:
    browser = console()
    seen = fields(previewed(browser, X))
    with connect(folder) as lake:
        lake.delete_topic("orders")
        lake.create_topic("orders", message_type="FIFO", queues=2)
    answer = browser.client.post(CONFIRM, data=seen)
    assert answer.status_code == 409
    assert "has changed since it was shown" in answer.text
    assert sent(folder) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"message_group": ""}, "takes FIFO messages"),
        ({"properties": "n"}, "a line is no property"),
        ({"delay": "soon"}, "this is no duration"),
        ({"body": "x" * (BODY_BYTES_MAX + 1)}, "too long to be written by hand"),
        ({"topic": "penstock-audit"}, "which alone writes it"),
        ({"unknown": "x"}, "no such argument"),
    ],
)
def test_what_its_topic_does_not_take_is_told_on_the_form(console: Open, folder: Path, given: dict[str, str], said: str) -> None:
    with connect(folder) as lake:
        lake.create_topic("penstock-audit", queues=1)
    page = html.unescape(previewed(console(), {**GIVEN, **given}, status=400))
    assert said in page
    if "keys" not in given and "unknown" not in given:
        assert "a\nb\n</textarea>" in page  # nothing has to be typed again
    assert sent(folder) == []


def test_what_was_typed_can_be_changed_after_the_preview(console: Open) -> None:
    browser = console()
    seen = fields(previewed(browser, {**GIVEN, "body": "\n\nx"}))
    answer = browser.client.post(PREVIEW, data={**seen, "again": "1"})
    assert answer.status_code == 200
    assert ">\n\n\nx</textarea>" in answer.text


def test_forged_and_large_forms_are_refused(console: Open, folder: Path) -> None:
    browser = console()
    token = browser.form(FORM)
    stranger = console()
    for path in (PREVIEW, CONFIRM, f"/api{PREVIEW}", f"/api{CONFIRM}"):
        assert browser.client.post(path, data=GIVEN).status_code == 403
        assert browser.client.post(path, data={**GIVEN, **token}, headers={"origin": "http://evil.example"}).status_code == 403
        assert browser.client.post(path, data={**GIVEN, **token, "body": "x" * 70_000}).status_code == 400
        many = {f"f{n}": "x" for n in range(200)}
        assert browser.client.post(path, data={**GIVEN, **token, **many}).status_code == 400
    seen = fields(previewed(browser, GIVEN))
    assert stranger.client.post(CONFIRM, data=seen).status_code == 403
    assert browser.client.post(CONFIRM, data={**seen, "body": "another"}).status_code == 409
    assert browser.client.post(f"{CONFIRM}?topic=mails", data=seen).status_code == 400  # given twice
    assert sent(folder) == []


def test_nothing_is_sent_by_a_link_or_by_a_console_that_only_looks(console: Open, folder: Path) -> None:
    browser = console()
    for path in ("", "/form", "/preview"):
        browser.client.get(f"{CONFIRM}{path}?topic=orders&body=x&message_group=ann&stamp=1")
    looks = console(read_only=True)
    assert "started with --read-only" in looks.page(FORM)
    answer = looks.client.post(CONFIRM, data={**GIVEN, "form_token": fields(looks.page("/topics")).get("form_token", "")})
    assert answer.status_code == 403
    token = looks.client.get("/api/session").json()["form_token"]
    answer = looks.client.post(CONFIRM, data={**GIVEN, "form_token": token, "stamp": "0"})
    assert answer.status_code == 403
    assert "started with --read-only" in answer.text
    assert sent(folder) == []


def test_programs_send_by_the_same_two_steps(console: Open, folder: Path) -> None:
    browser = console()
    token = {"x-form-token": browser.client.get("/api/session").json()["form_token"]}
    asked = {"topic": "orders", "body": "a\r\nb", "message_group": "ann"}
    stamp = browser.client.post(f"/api{PREVIEW}", json=asked, headers=token).json()["stamp"]
    answer = browser.client.post(f"/api{CONFIRM}", json={**asked, "stamp": stamp}, headers=token)
    assert (answer.status_code, answer.json()["counts"]) == (200, [{"name": "messages", "value": 1}])
    assert sent(folder) == [b"a\r\nb"]


@pytest.mark.parametrize(
    ("options", "given", "said"),
    [
        ({"message_type": "DELAY"}, {"body": "x", "delay": "2h"}, "it waits until it is due"),
        ({"schema": "id bigint not null"}, {"body": '{"id": 7}'}, "queue 0, offset 0"),
    ],
)
def test_delayed_messages_and_rows_are_sent_too(
    console: Open, folder: Path, options: dict[str, str], given: dict[str, str], said: str
) -> None:
    with connect(folder) as lake:
        lake.create_topic("special", queues=1, **options)  # type: ignore[arg-type] # by name
    browser = console()
    for _ in range(2):
        form = browser.form("/actions/send/form?topic=special")
        seen = fields(browser.client.post(PREVIEW, data={**form, **given}).text)
        page = browser.client.post(CONFIRM, data=seen).text
        assert said.replace("offset 0", "offset") in page
        assert browser.client.post(CONFIRM, data=seen).status_code == 409


def test_a_row_that_does_not_fit_is_told_before_anything_is_sent(console: Open, folder: Path) -> None:
    with connect(folder) as lake:
        lake.create_topic("typed", queues=1, schema="id bigint not null")
    browser = console()
    form = browser.form("/actions/send/form?topic=typed")
    answer = browser.client.post(PREVIEW, data={**form, "body": '{"id": "seven"}'})
    assert answer.status_code == 400
    assert "bigint" in answer.text


def test_no_argument_has_the_name_of_a_form_s_own_field() -> None:
    for action in ACTIONS.values():
        assert not {*OWN_FIELDS, FORM_TOKEN} & set(action.arguments.__dataclass_fields__)
        assert action.unlogged <= set(action.arguments.__dataclass_fields__)
