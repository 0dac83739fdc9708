"""What protects the console: who may call it, from where, and what no page ever holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.infra.web.lakes.lakes import LakeOptions
from penstock.infra.web.server.login import FAILURES_MAX
from penstock.infra.web.server.options import ConsoleOptions, ConsoleRole, TrustedHeader, is_loopback
from penstock.infra.web.server.passwords import line_of
from penstock.infra.web.server.security import SessionSigner, ViewerSession
from penstock.log.errors import InvalidArgument
from tests.infra.web.conftest import Browser, Open, fields
from tests.infra.web.shop import HOSTILE, still_parked

RELEASE = "/actions/release?group=billing"
SKIP = "/actions/skip?group=billing"
PASSWORD = "correct horse battery"
LAKE = LakeOptions(name="lake", url="memory://shop")


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    path = tmp_path / "passwords"
    lines = [
        line_of(name, role, PASSWORD, b"salt" * 4) for name, role in (("ann", ConsoleRole.OPERATOR), ("bob", ConsoleRole.VIEWER))
    ]
    path.write_text("# the console's\n" + "\n".join(lines) + "\n")
    return path


def log_in(browser: Browser, name: str, password: str = PASSWORD, *, status: int = 303) -> None:
    answer = browser.client.post("/login", data={"name": name, "password": password, "back": "/l/lake/"})
    assert answer.status_code == status, answer.text


def test_every_answer_says_what_browsers_may_do_with_it(console: Open) -> None:
    browser = console()
    for path in ("/l/lake/", "/l/lake/topics/none", "/nowhere", "/api/l/lake/groups", "/static/console.css", "/api/nowhere"):
        headers = browser.client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


@pytest.mark.parametrize("path", ["/", "/topics", "/topics/orders", "/groups", "/groups/billing", RELEASE, "/topics/none"])
def test_no_page_has_script_or_style_inside(console: Open, stuck: Path, path: str) -> None:
    page = console().client.get(f"/l/lake{path}").text
    assert page.count("<script") == 1
    assert '<script src="/static/console.js" defer></script>' in page
    assert "<style" not in page
    assert " style=" not in page
    assert HOSTILE not in page
    assert "<img" not in page


def test_cookies_are_for_this_console_and_not_for_scripts(console: Open) -> None:
    (cookie,) = console().client.get("/l/lake/").headers.get_list("set-cookie")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def test_over_tls_the_cookie_is_for_tls_alone(console: Open, tmp_path: Path) -> None:
    browser = console(base_url="https://localhost", tls_cert=tmp_path / "c", tls_key=tmp_path / "k")
    answer = browser.client.get("/l/lake/")
    assert answer.headers["set-cookie"].startswith("__Host-penstock_session=")
    assert "; Secure" in answer.headers["set-cookie"]
    assert "strict-transport-security" in answer.headers


def test_two_consoles_of_one_host_are_logged_in_to_beside_each_other(console: Open, passwords: Path) -> None:
    """Browsers send the cookies of one port to all ports of a host."""
    one = console(base_url="http://localhost:8085", password_file=passwords)
    other = console(base_url="http://localhost:8086", password_file=passwords, key=b"o" * 32)
    for browser, before in ((one, other), (other, one)):
        browser.client.cookies = before.client.cookies
        log_in(browser, "ann")
    one.client.cookies = other.client.cookies
    for browser in (one, other):
        assert "ann (operator)" in browser.page("/")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", ""])
def test_a_name_that_only_leads_here_is_refused(console: Open, host: str) -> None:
    """A page of another site could otherwise call the console of this machine by a name of its own (DNS rebinding)."""
    assert console().client.get("/l/lake/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8085", "127.0.0.1:1", "[::1]:8085", "console.example:443"])
def test_its_own_names_are_taken(console: Open, host: str) -> None:
    assert console(hosts=("console.example",)).client.get("/l/lake/", headers={"host": host}).status_code == 200


def test_a_form_without_its_token_is_refused_and_nothing_is_done(console: Open, stuck: Path) -> None:
    browser, other = console(), console()
    stated = browser.form(RELEASE)
    for token in ("", "0" * 64, other.form(RELEASE)["form_token"]):
        answer = browser.client.post(f"/l/lake{RELEASE}", data={**stated, "form_token": token})
        assert answer.status_code == 403
        assert "not from a page of this session" in answer.text
    assert len(still_parked(stuck)) == 2


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}],
)
def test_a_form_from_elsewhere_is_refused(console: Open, stuck: Path, headers: dict[str, str]) -> None:
    browser = console()
    answer = browser.client.post(f"/l/lake{RELEASE}", data=browser.form(RELEASE), headers=headers)
    assert answer.status_code == 403
    assert len(still_parked(stuck)) == 2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(console: Open, method: str) -> None:
    assert console().client.request(method, f"/l/lake{RELEASE}").status_code == 405


def test_read_only_holds_in_the_server(console: Open, stuck: Path) -> None:
    browser = console(read_only=True)
    assert "--read-only" in browser.page(RELEASE)
    assert "Release all" not in browser.page("/groups/billing")
    session = browser.client.get("/api/session").json()
    assert session["may_act"] is False
    stamp = browser.api(RELEASE)["stamp"]
    answer = browser.client.post(f"/l/lake{RELEASE}", data={"form_token": session["form_token"], "stamp": stamp})
    assert answer.status_code == 403
    headers = {"x-form-token": session["form_token"]}
    answer = browser.client.post(f"/api/l/lake{RELEASE}", json={"stamp": stamp}, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (403, "read_only")
    assert len(still_parked(stuck)) == 2


def test_without_a_log_in_nothing_is_shown(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords, host="0.0.0.0")
    for path in ("/", "/l/lake/", "/nowhere"):
        answer = browser.client.get(path)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/login")
    for path in ("/api/l/lake/groups", "/live/l/lake/", "/api/openapi.json", "/api/session"):
        assert browser.client.get(path).status_code == 401
    assert browser.client.get("/login").status_code == 200


def test_a_log_in_lasts_until_the_log_out_and_not_longer(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "ann", "wrong horse battery", status=403)
    log_in(browser, "nobody", status=403)
    log_in(browser, "ann")
    page = browser.page("/")
    assert "ann (operator)" in page
    stolen = dict(browser.client.cookies)
    assert browser.client.post("/logout", data=fields(page)).status_code == 303
    browser.client.cookies.update(stolen)
    browser.page("/", status=303)


def test_viewers_may_look_and_not_act(console: Open, passwords: Path, stuck: Path) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "bob")
    assert "only operators may do that" in browser.page(RELEASE, status=403)  # a preview may look through 100,000 messages
    browser.api(RELEASE, status=403)
    log_in(browser, "ann")
    stamp = browser.api(RELEASE)["stamp"]
    log_in(browser, "bob")
    token = browser.client.get("/api/session").json()["form_token"]
    answer = browser.client.post(f"/l/lake{RELEASE}", data={"form_token": token, "stamp": stamp})
    assert answer.status_code == 403
    assert "only operators may do that" in answer.text
    assert len(still_parked(stuck)) == 2


def test_no_followed_link_and_no_viewer_begins_a_check(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    path = "/l/lake/topics/orders/check"
    log_in(browser, "bob")
    assert "disabled" in browser.page("/topics/orders/check")
    assert "only operators" in browser.submit("/topics/orders/check", status=403)
    assert browser.client.post(path, data={"x": "y"}).status_code == 403, "not without the token of the page"
    log_in(browser, "ann")
    browser.submit("/topics/orders/check", status=303)
    token = browser.client.get("/api/session").json()["form_token"]
    answer = browser.client.post(f"/api{path}", json={}, headers={"x-form-token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/api{path}")


def test_who_is_taken_out_of_the_file_is_out_at_once(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    log_in(browser, "ann")
    browser.page("/")
    passwords.write_text(line_of("ann", ConsoleRole.VIEWER, PASSWORD, b"salt" * 4))  # not taken out, but no operator any more
    browser.page("/", status=303)


def test_guessing_is_slowed_down(console: Open, passwords: Path) -> None:
    browser = console(password_file=passwords)
    for _ in range(FAILURES_MAX):
        log_in(browser, "ann", "wrong horse battery", status=403)
    log_in(browser, "ann", status=429)
    log_in(browser, "bob", status=429)  # from the same address


def test_behind_a_proxy_who_guesses_locks_out_nobody_else(console: Open, passwords: Path) -> None:
    def log_in_from(browser: Browser, name: str, *, forwarded_for: str, status: int) -> None:
        browser.client.headers["x-forwarded-for"] = forwarded_for
        log_in(browser, name, "wrong horse battery", status=status)

    behind = console(password_file=passwords, proxies=("10.0.0.0/24",), address="10.0.0.1")
    for number in range(FAILURES_MAX):  # the first address is the caller's own word, the last one the proxy's
        log_in_from(behind, f"a{number}", forwarded_for=f"192.0.2.{number}, 198.51.100.7", status=403)
    log_in_from(behind, "b", forwarded_for="198.51.100.7", status=429)
    log_in_from(behind, "b", forwarded_for="198.51.100.8", status=403)
    past = console(password_file=passwords, proxies=("10.0.0.0/24",), address="198.51.100.9")
    for number in range(FAILURES_MAX):
        log_in_from(past, f"a{number}", forwarded_for=f"192.0.2.{number}", status=403)
    log_in_from(past, "b", forwarded_for="192.0.2.99", status=429)


@pytest.mark.parametrize("back", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"])
def test_a_log_in_leads_nowhere_else(console: Open, passwords: Path, back: str) -> None:
    browser = console(password_file=passwords)
    answer = browser.client.post("/login", data={"name": "ann", "password": PASSWORD, "back": back})
    assert answer.headers["location"] == "/"


def test_a_proxy_in_front_names_who_calls(console: Open) -> None:
    trusted = TrustedHeader(header="X-Forwarded-User", operators=frozenset({"ann"}))
    for name, role in (("ann", "operator"), ("bob", "viewer")):
        browser = console(trusted=trusted, headers={"x-forwarded-user": name})
        assert f"{name} ({role})" in browser.page("/")
    console(trusted=trusted).page("/", status=403)
    console(trusted=trusted, headers={"x-forwarded-user": "ann"}, address="10.0.0.9").page("/", status=403)
    past = {"x-forwarded-user": "ann", "x-forwarded-for": "127.0.0.1"}
    console(trusted=trusted, headers=past, address="10.0.0.9").page("/", status=403)
    twice = [("x-forwarded-user", "ann"), ("x-forwarded-user", "bob")]
    assert console(trusted=trusted).client.get("/l/lake/", headers=twice).status_code == 403


def test_a_console_that_others_reach_needs_a_log_in(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1", "console.example"):
        with pytest.raises(InvalidArgument, match="must know who they are"):
            ConsoleOptions(lakes=(LAKE,), host=host)
        assert ConsoleOptions(lakes=(LAKE,), host=host, password_file=tmp_path / "passwords").known_hosts is None
    for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"):
        assert is_loopback(host)
    with pytest.raises(InvalidArgument, match="go together"):
        ConsoleOptions(lakes=(LAKE,), tls_cert=tmp_path / "c")


@pytest.mark.parametrize(
    "line",
    [
        "ann",
        "ann:root:scrypt$2$8$1$AAAA$AAAA",
        "ann:viewer:plain",
        "ann:viewer:scrypt$3$8$1$AAAA$AAAA",
        "a b:viewer:scrypt$2$8$1$AAAA$AAAA",
    ],
)
def test_a_password_file_with_a_bad_line_is_refused_by_its_number(console: Open, tmp_path: Path, line: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"{line_of('bob', ConsoleRole.VIEWER, PASSWORD, b'salt' * 4)}\n{line}\n")
    with pytest.raises(InvalidArgument, match="line 2") as refused:
        console(password_file=path)
    assert "AAAA" not in str(refused.value)


def test_tokens_of_others_are_none() -> None:
    ours, others = SessionSigner(b"a" * 32), SessionSigner(b"b" * 32)
    session = ViewerSession(id="1", name="ann", proof="", until_s=100)
    assert ours.session(ours.cookie(session), now_s=99) == session
    assert ours.session(ours.cookie(session), now_s=100) is None
    for cookie in (others.cookie(session), "", ".", "a.b", ours.cookie(session)[:-1], f"{ours.cookie(session)}0", "\xff.\xff"):
        assert ours.session(cookie, now_s=0) is None
    assert not ours.is_form_token(session, others.form_token(session))
    assert not ours.is_form_token(session, "\xff")
