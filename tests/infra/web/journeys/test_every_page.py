"""Every page of the console in a browser: accessible in light and dark, no wider than a phone, silent, and usable by keyboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from penstock.infra.web.actions.registry import ACTIONS
from penstock.infra.web.server.options import ConsoleRole
from penstock.infra.web.server.passwords import line_of
from penstock.infra.web.views.pages import PAGES
from tests.infra.web.journeys.chromium import LARGE, PHONE, Window
from tests.infra.web.journeys.conftest import Open
from tests.thorough import thoroughly

pytestmark = [pytest.mark.slow, pytest.mark.chromium]

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
KINDS = {page.name: re.compile(re.sub(r"\\\{\w+(:path)?\\\}", "[^/]+", re.escape(f"/l/lake{page.path}"))) for page in PAGES}
KINDS |= {name: re.compile(f"/l/lake/actions/{name}") for name in ACTIONS}
KINDS |= {f"{name}-form": re.compile(f"/l/lake/actions/{name}/form") for name, action in ACTIONS.items() if action.form is not None}
BY_FORM = (
    "/l/lake/actions/reset?group=warehouse&topic=orders&to=earliest",
    "/l/lake/actions/send?topic=clicks&body=hello",
    "/l/lake/actions/create_topic?topic=new",
    "/l/lake/actions/alter_topic?topic=clicks&retention=1h",
    "/l/lake/actions/create_group?group=new",
    "/l/lake/actions/alter_group?group=warehouse&max_attempts=3",
    "/l/lake/actions/edit?group=mailer&offset=0&body=mended",
    "/l/lake/actions/grant?who=role%3Aclerks&send=orders",
    "/l/lake/actions/revoke?who=role%3Aclerks&send=orders",
    "/l/lake/actions/revoke/form?who=role%3Aclerks",
)
"""What forms lead to, and no links."""
LINK = re.compile(r"""<a [^>]*href="(/l/[^"]*)""")
VISITS = 5
"""The pages of a kind that are visited for their links: not every topic has message groups."""
VIOLATIONS = """async () => (await axe.run()).violations.map(
  (one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html).join(" ; ")}`)"""


def one_of_each(window: Window) -> Iterator[str]:
    """Open a page of each kind, as links lead to them from the overview on: their names."""
    visits: Counter[str] = Counter()
    waiting = ["/l/lake/", *BY_FORM]
    seen = set(waiting)
    while waiting and len(visits) < len(KINDS):
        path = waiting.pop(0)
        kind = next((name for name, pattern in KINDS.items() if pattern.fullmatch(path.partition("?")[0])), None)
        if kind is None or visits[kind] >= VISITS:
            continue
        visits[kind] += 1
        if visits[kind] == 1:
            window.page.set_viewport_size(LARGE)  # type: ignore[arg-type] # a dict of its keys
            window.go(path.removeprefix("/l/lake"))
            html = window.page.content()
        else:  # for its links alone
            html = window.context.request.get(path).text()
        links = [unescape(one) for one in LINK.findall(html)]
        fresh = [one for one in dict.fromkeys(links) if one not in seen]
        waiting += fresh
        seen.update(fresh)
        if visits[kind] == 1:
            yield kind


def violations(window: Window) -> list[str]:
    """The rules of axe-core that the page breaks."""
    window.page.evaluate(AXE)
    found: list[str] = window.page.evaluate(VIOLATIONS)
    return found


def too_wide(window: Window) -> Any:
    """How many pixels the page is wider than the window."""
    return window.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


RULED = thoroughly((LARGE, PHONE), (LARGE,))
"""The sizes at which the rules are looked at: a phone shows the same elements."""


def oddities(window: Window, name: str) -> dict[str, object]:
    """What is wrong with the page, on a large screen and on a phone. Pictures of both are kept."""
    odd: dict[str, object] = {}
    for size, place in ((LARGE, name), (PHONE, f"{name}-phone")):
        window.page.set_viewport_size(size)  # type: ignore[arg-type] # a dict of its keys
        if size in RULED and (found := violations(window)):
            odd[place] = found
        if (pixels := too_wide(window)) > 0:
            odd[f"{place} (width)"] = f"{pixels} pixels too wide"
        window.shot(place)
    return odd


def told(odd: dict[str, object]) -> str:
    """All of it, for a test's message."""
    return "\n".join(f"{name}: {what}" for name, what in odd.items())


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
def test_every_page_is_accessible_and_fits_a_phone(look: Open, scheme: str) -> None:
    window = look(color_scheme=scheme)
    pages, odd = set[str](), dict[str, object]()
    for name in one_of_each(window):
        pages.add(name)
        odd |= oddities(window, f"{name}-{scheme}")
    assert not odd, told(odd)
    assert pages >= KINDS.keys()


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_no_page_of_a_lake_is_accessible_too(window: Open, lake: Path, tmp_path: Path, scheme: str) -> None:
    """Errors, parts that fail, what was done, the log-in and the list of lakes."""
    seen, odd = window(lake, of_browser={"color_scheme": scheme}), dict[str, object]()
    for name, path, status in (
        ("no-page", "/nowhere", 404),
        ("no-topic", "/topics/none", 404),
        ("bad-condition", "/topics/orders/messages?where=total%20%3E", 200),
        ("not-confirmed", "/actions/skip?group=warehouse", 200),
        ("nothing-found", "/topics/orders/messages?key=none", 200),
    ):
        seen.go(path, status=status)
        odd |= oddities(seen, f"{name}-{scheme}")
    seen.go("/actions/release?group=warehouse")
    with seen.leaving():
        seen.page.get_by_role("button", name="Release parked message groups").click()
    expect(seen.page.get_by_role("status").first).to_contain_text("3 message groups released")
    odd |= oddities(seen, f"done-{scheme}")
    passwords = tmp_path / "passwords"
    passwords.write_text(line_of("ann", ConsoleRole.VIEWER, "correct horse battery", b"salt" * 4))
    guarded = window(lake, of_browser={"color_scheme": scheme}, password_file=passwords)
    guarded.page.goto("/login")
    guarded.page.get_by_label("Name").fill("ann")
    guarded.page.get_by_label("Password").fill("wrong horse battery")
    with guarded.leaving():
        guarded.page.get_by_role("button", name="Log in").click()
    expect(guarded.page.get_by_role("alert")).to_be_visible()
    guarded.faults.clear()  # a browser tells of the status 403 in its console
    odd |= oddities(guarded, f"log-in-{scheme}")
    several = window(lake, of_browser={"color_scheme": scheme}, names=("lake", "copy"))
    several.page.goto("/")
    expect(several.page.get_by_role("link", name="copy")).to_be_visible()
    odd |= oddities(several, f"lakes-{scheme}")
    assert not odd, told(odd)
