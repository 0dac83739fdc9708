"""The browser of the journeys: Chromium as it is installed on this machine, without a window."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.infra.web.journeys.found import CHROMIUM

LARGE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
PATIENCE_MS = 60_000


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser. As root it runs without its sandbox, which needs another user."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield running
        finally:
            running.close()


class Window:
    """One window on a console, which notes everything that a careful site never causes."""

    def __init__(self, browser: Browser, url: str, shots: Path | None, **options: Any) -> None:
        settings = {"viewport": LARGE, "timezone_id": "Europe/Vienna", "locale": "en-GB", **options}
        self.context = browser.new_context(base_url=url, **settings)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.faults: list[str] = []
        self._shots = shots
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def go(self, path: str, *, status: int = 200) -> None:
        """Open a page of the lake."""
        answer = self.page.goto(f"/l/lake{path}")
        assert answer is not None
        assert answer.status == status, self.page.content()
        if status >= 400:  # of which a browser tells in its console
            self.faults = [one for one in self.faults if f"status of {status}" not in one]

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """A click or a key that leads to another page. It ends once that page is loaded: a click alone does not wait for it."""
        with self.page.expect_navigation():
            yield

    def shot(self, name: str) -> None:
        """Keep a picture of the whole page, if pictures are kept."""
        if self._shots is not None:
            self.page.screenshot(path=self._shots / f"{name}.png", full_page=True)

    @property
    def text(self) -> str:
        """The text of the page's content."""
        return self.page.locator("main").inner_text()

    def close(self) -> None:
        """Close it. Raises `AssertionError` if anything was noted."""
        self.context.close()
        assert not self.faults
