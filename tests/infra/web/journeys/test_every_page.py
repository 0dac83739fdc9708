"""Every page of the console in a browser: accessible in light and dark, no wider than a phone, silent, and usable by keyboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest

from penstock.infra.web.actions.all import ACTIONS
from penstock.infra.web.views.pages import PAGES
from tests.infra.web.journeys.chromium import LARGE, PHONE, Window
from tests.infra.web.journeys.conftest import Open

pytestmark = [pytest.mark.slow, pytest.mark.chromium]

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
KINDS = {page.name: re.compile(re.sub(r"\\\{\w+(:path)?\\\}", "[^/]+", re.escape(f"/l/lake{page.path}"))) for page in PAGES}
KINDS |= {name: re.compile(f"/l/lake/actions/{name}") for name in ACTIONS}
VISITS = 5
"""The pages of a kind that are visited for their links: not every topic has message groups."""
VIOLATIONS = """async () => (await axe.run()).violations.map(
  (one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html).join(" ; ")}`)"""


def one_of_each(window: Window) -> Iterator[str]:
    """Open a page of each kind, as links lead to them from the overview on: their names."""
    visits: Counter[str] = Counter()
    waiting, seen = ["/l/lake/"], {"/l/lake/"}
    while waiting and len(visits) < len(KINDS):
        path = waiting.pop(0)
        kind = next((name for name, pattern in KINDS.items() if pattern.fullmatch(path.partition("?")[0])), None)
        if kind is None or visits[kind] >= VISITS:
            continue
        visits[kind] += 1
        window.page.set_viewport_size(LARGE)  # type: ignore[arg-type] # a dict of its keys
        window.go(path.removeprefix("/l/lake"))
        links: list[str] = window.page.eval_on_selector_all("a[href^='/l/']", "all => all.map(one => one.getAttribute('href'))")
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


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
def test_every_page_is_accessible_and_fits_a_phone(look: Open, scheme: str) -> None:
    window = look(color_scheme=scheme)
    pages, odd = set[str](), dict[str, object]()
    for name in one_of_each(window):
        pages.add(name)
        if found := violations(window):
            odd[f"{name} ({scheme})"] = found
        window.shot(f"{name}-{scheme}")
        window.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        if (pixels := too_wide(window)) > 0:
            odd[f"{name} (phone)"] = f"{pixels} pixels too wide"
        window.shot(f"{name}-{scheme}-phone")
    assert not odd, "\n".join(f"{name}: {what}" for name, what in odd.items())
    assert pages >= {page.name for page in PAGES}
