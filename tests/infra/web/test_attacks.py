"""What hostile callers try: the console goes on, tells them nothing, and lets nobody stand in the way of others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message

from penstock.infra.web.actions.registry import ACTIONS
from penstock.infra.web.server.events import stream
from penstock.infra.web.server.login import FAILURES_MAX, UNDER_WAY_MAX, TooManyLogins, Viewer
from penstock.infra.web.server.options import ConsoleRole
from penstock.infra.web.server.passwords import PasswordHash, line_of
from penstock.infra.web.server.site import ConsoleSite
from penstock.log.errors import BackPressureError
from penstock.log.filter.sql_evaluate import SqlFilter
from penstock.log.schema.topic_schema import TopicSchema
from tests.infra.web.conftest import Open, fields
from tests.infra.web.test_security import PASSWORD, log_in


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    path.write_text(line_of("ann", ConsoleRole.OPERATOR, PASSWORD, b"salt" * 4))
    return path


def viewer(site: ConsoleSite, name: str) -> Viewer:
    """Somebody with a session of their own."""
    return Viewer(name=name, role=ConsoleRole.VIEWER, session=site.login.session_of(name, proof=""))


@pytest.mark.parametrize("path", ["nothing", "%00", "..%2Ftexts.py", "", "x" * 5000, "../texts.py"])
def test_what_is_no_file_of_the_console_is_no_page(
    console: Open, passwords: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Nobody has to log in for this, so nobody may fill the log by it."""
    browser = console(password_file=passwords)
    assert browser.client.get(f"/static/{path}").status_code in (303, 404)
    assert browser.client.post("/static/console.js").status_code == 404
    assert browser.client.get("/static/console.js").status_code == 200
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("content", [b'{"name": "ann", "password": "\\ud800"}', b'{"name": "\\ud800", "password": ""}'])
def test_a_log_in_by_what_is_no_text_is_refused(console: Open, passwords: Path, content: bytes) -> None:
    browser = console(password_file=passwords)
    answer = browser.client.post("/login", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_a_broken_password_file_is_told_to_the_log_alone(console: Open, passwords: Path, caplog: pytest.LogCaptureFixture) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "ann")
    passwords.write_text("broken")
    for answer in (
        browser.client.get("/l/lake/"),
        browser.client.post("/login", data={"name": "ann", "password": PASSWORD}),
    ):
        assert answer.status_code == 503
        assert str(passwords.parent) not in answer.text
    assert len([one for one in caplog.records if str(passwords) in one.getMessage()]) == 1
    passwords.write_text(line_of("ann", ConsoleRole.OPERATOR, PASSWORD, b"salt" * 4))
    browser.page("/")


def test_guesses_from_elsewhere_do_not_lock_out_who_belongs_here(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "ann")
    assert browser.client.post("/logout", data=fields(browser.page("/"))).status_code == 303
    mark = dict(browser.client.cookies)
    browser.client.cookies.clear()
    for _ in range(FAILURES_MAX):
        log_in(browser, "ann", "wrong horse battery", status=403)
    log_in(browser, "ann", status=429)
    log_in(browser, "bob", status=429)
    browser.client.cookies.update(mark)
    log_in(browser, "bob", status=429)  # whose mark it is not
    log_in(browser, "ann")
    for _ in range(FAILURES_MAX):
        log_in(browser, "ann", "wrong horse battery", status=403)
    log_in(browser, "ann", status=429)  # a stolen mark guesses no faster


def test_a_crowd_at_the_log_in_does_not_wait_for_ever(console: Open, passwords: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check takes a tenth of a second of the processor, so thousands of them would keep everybody out for minutes."""
    browser = console(password_file=passwords)
    log_in(browser, "ann")
    login, mark = browser.site.login, next(value for name, value in browser.client.cookies.items() if name.endswith("_mark"))
    monkeypatch.setattr(PasswordHash, "matches", lambda self, password: False)

    async def crowd() -> list[Viewer | BaseException | None]:
        strangers = (login.log_in(f"name{n}", "guess", f"10.0.0.{n}") for n in range(UNDER_WAY_MAX + 3))
        return await asyncio.gather(*strangers, login.log_in("ann", "guess", "10.0.0.1", mark), return_exceptions=True)

    *strangers, known = asyncio.run(crowd())
    assert [type(one) for one in strangers] == [type(None)] * UNDER_WAY_MAX + [TooManyLogins] * 3
    assert known is None  # looked at, and no user's password
    monkeypatch.setattr("penstock.infra.web.server.login.UNDER_WAY_MAX", 0)
    browser.client.cookies.clear()
    answer = browser.client.post("/login", data={"name": "ann", "password": PASSWORD})
    assert answer.status_code == 503
    assert "try again in a few seconds" in answer.text


def test_the_sessions_of_others_stay_ended(console: Open, passwords: Path) -> None:
    login = console(password_file=passwords).site.login
    user = login._users(login._file)["ann"]  # type: ignore[arg-type] # it has one
    over = login.session_of("ann", proof=user.proof)
    login.log_out(over)
    for _ in range(20_000):
        login.log_out(login.session_of("bob", proof=""))
    cookie = login.signer.cookie(over)
    assert login.viewer(cookie, console().client.headers, "") is None  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["[::1]evil.example", "localhost:80@evil.example", "localhost:x", "127.0.0.1:80:80"])
def test_what_only_begins_like_a_known_host_is_none(console: Open, host: str) -> None:
    assert console().client.get("/l/lake/", headers={"host": host}).status_code == 421


def test_who_is_out_watches_no_longer(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "ann")
    cookies = "; ".join(f"{name}={value}" for name, value in browser.client.cookies.items())
    scope: dict[str, object] = {"type": "http", "method": "GET", "path": "/live", "client": ("", 0)}
    scope |= {"headers": [(b"cookie", cookies.encode())], "viewer": viewer(browser.site, "ann")}
    looks = 0

    async def values() -> Mapping[str, object]:
        nonlocal looks
        looks += 1
        if looks == 2:
            await asyncio.to_thread(passwords.write_text, line_of("bob", ConsoleRole.VIEWER, PASSWORD, b"salt" * 4))
        assert looks < 4
        return {"looks": looks}

    async def events() -> list[str]:
        answer = stream(browser.site, Request(scope), values, every=lambda: timedelta(milliseconds=1))
        assert isinstance(answer, StreamingResponse)
        body: AsyncIterator[str] = answer.body_iterator  # type: ignore[assignment]
        return [one async for one in body]

    assert len(asyncio.run(events())) == 1 + 2
    assert browser.site.streams == {}


def test_a_head_of_a_stream_holds_nothing(console: Open) -> None:
    browser = console()
    answer = browser.client.head("/live/l/lake/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert browser.site.streams == {}


def test_a_burst_of_streams_is_bounded(console: Open, passwords: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = console(password_file=passwords).site
    site.ending.set()
    monkeypatch.setattr("penstock.infra.web.server.events.STREAMS_MAX", 3)

    async def values() -> Mapping[str, object]:
        return {}

    async def nothing_more() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def sent(_: Message) -> None:
        pass

    async def ask(name: str) -> None:
        scope = {"type": "http", "method": "GET", "path": "/live", "headers": [], "viewer": viewer(site, name)}
        await stream(site, Request(scope), values, every=lambda: timedelta(seconds=1))(scope, nothing_more, sent)

    async def burst(*names: str) -> list[bool]:
        """Whether each may watch."""
        answers = await asyncio.gather(*map(ask, names), return_exceptions=True)
        assert {type(one) for one in answers} <= {type(None), BackPressureError}
        return [one is None for one in answers]

    assert asyncio.run(burst("ann", "ann", "bob", "cid", "ann")) == [True] * 3 + [False] * 2
    monkeypatch.setattr("penstock.infra.web.server.events.STREAMS_OF_ONE_MAX", 2)
    assert asyncio.run(burst("ann", "ann", "ann", "bob", "cid")) == [True, True, False, True, False]
    assert site.streams == {}


@pytest.mark.parametrize(
    ("mode", "dest", "status"),
    [("no-cors", "image", 403), ("navigate", "iframe", 403), ("cors", "empty", 403), ("navigate", "document", 200)],
)
def test_pages_of_other_sites_load_nothing_of_the_console(console: Open, mode: str, dest: str, status: int) -> None:
    """A picture on any page could otherwise ask for costly pages, again and again."""
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    assert console().client.get("/l/lake/topics/orders/check", headers=told).status_code == status


def test_a_long_condition_does_not_keep_others_waiting(console: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of terms on messages of 4 MiB take many seconds."""
    judged = []

    def apply(self: SqlFilter, batch: pa.RecordBatch, schema: TopicSchema | None = None) -> pa.RecordBatch:
        judged.append(threading.current_thread())
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return batch

    monkeypatch.setattr(SqlFilter, "apply", apply)
    found = console().api("/topics/orders/messages?where=a%20%3D%201")["found"]
    assert len(found["value"]["rows"]) == 5
    lines = console().client.get("/files/l/lake/topics/orders/messages.jsonl?where=a%20%3D%201")
    assert len(lines.text.splitlines()) == 5
    assert len(judged) > 1


WAYS = ("/l/lake/actions/{}", "/l/lake/actions/{}/preview", "/api/l/lake/actions/{}", "/api/l/lake/actions/{}/preview")


@pytest.mark.parametrize("action", ACTIONS)
def test_no_way_to_an_action_takes_a_form_of_elsewhere(console: Open, passwords: Path, action: str) -> None:
    """Neither from another site or session, nor by who only looks, nor at a console that only looks."""
    browser, looks, guarded = console(), console(read_only=True), console(password_file=passwords)
    foreign = console().client.get("/api/session").json()["form_token"]
    passwords.write_text(line_of("eve", ConsoleRole.VIEWER, PASSWORD, b"salt" * 4))
    log_in(guarded, "eve")
    tokens = [one.client.get("/api/session").json()["form_token"] for one in (browser, looks, guarded)]
    for way in WAYS:
        path = way.format(action)
        assert browser.client.post(path, data={"stamp": "0"}).status_code == 403
        assert browser.client.post(path, data={"stamp": "0", "form_token": foreign}).status_code == 403
        said = {"origin": "http://evil.example"}
        assert browser.client.post(path, data={"form_token": tokens[0]}, headers=said).status_code == 403
        assert guarded.client.post(path, data={"form_token": tokens[2], "stamp": "0"}).status_code == 403
        if "preview" not in path:
            assert looks.client.post(path, data={"form_token": tokens[1], "stamp": "0"}).status_code == 403
        assert browser.client.put(path).status_code == 405
        big = {"form_token": tokens[0], "a": "x" * 70_000}
        assert browser.client.post(path, data=big).status_code == 400
    if ACTIONS[action].form is not None:
        assert guarded.client.get(f"/l/lake/actions/{action}/form").status_code == 403


def test_links_to_actions_write_nothing(console: Open, folder: Path) -> None:
    def kept() -> set[Path]:
        """The objects of the lake, apart from what looking makes."""
        return {one for one in folder.rglob("*") if one.is_file() and ".probe" not in one.parts}

    browser = console()
    browser.page("/")
    before = kept()
    asked = {
        "send": "topic=mails&body=x",
        "create_topic": "topic=new",
        "alter_topic": "topic=mails&retention=1h",
        "create_group": "group=new",
        "alter_group": "group=billing&max_attempts=3",
        "grant": "who=role%3Anew&send=mails",
    }
    for action, query in asked.items():
        for end in ("", "/form"):
            answer = browser.client.get(f"/l/lake/actions/{action}{end}?{query}&stamp=0&typed=x")
            assert answer.status_code in (200, 400), answer.text
            assert browser.client.get(f"/l/lake/actions/{action}{end}?{query}").status_code == 200
        assert browser.client.get(f"/l/lake/actions/{action}/preview?{query}").status_code in (404, 405)
    assert kept() == before


def test_strange_arguments_of_forms_get_an_answer(console: Open) -> None:
    browser = console()
    token = browser.client.get("/api/session").json()["form_token"]
    strange = ("", "\x00", "\ud7ff\u202e", "<script>alert(1)</script>", "9" * 18, "-1", "%s" * 50, "../" * 50, "\r\n\r\n")
    for name, action in ACTIONS.items():
        for text in strange:
            given = dict.fromkeys(action.arguments.__dataclass_fields__, text)
            for way in WAYS:
                answer = browser.client.post(way.format(name), data={**given, "form_token": token, "stamp": "0"})
                assert answer.status_code in (200, 400, 404, 409), (name, text, answer.text)
                assert "<script>alert(1)" not in answer.text or answer.headers["content-type"] == "application/json"
