"""What all journeys share: a browser, a lively shop, and consoles above copies of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import penstock
from penstock.coordinator.access.grants import Grant, Verb
from penstock.log.runtime.portal import Portal
from tests.infra.web.journeys.chromium import Window, browser
from tests.infra.web.journeys.serving import served
from tests.thorough import THOROUGH
from tests.tree import ROOT

Open = Callable[..., Window]


def shop_module() -> Any:
    """The program of the demo, as a module."""
    name = "console_shop"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "console" / "shop.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the journeys of a module. It ends with them: while it runs, nothing else in this process can run an event loop."""
    with browser() as running:
        yield running


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's shop after its failures, with nobody at work any more."""
    folder = tmp_path_factory.mktemp("shop") / "lake"
    module = shop_module()
    with ExitStack() as stack:
        shop = module.Shop(stack.enter_context(penstock.connect(folder)), stack)
        shop.build()
        shop.work()
        shop.fill(60)
        shop.undecided()
        module.wait_until(shop.has_failed, "what fails in the shop")
        shop.ended.set()
    grant_something(folder)
    return folder


def grant_something(folder: Path) -> None:
    """Let a role of gateways' clients have rights, so that there are some to revoke."""

    async def grant() -> None:
        async with penstock.aio.connect(folder) as lake:
            await lake.coordination.access.acting("ann").grant("role:clerks", [Grant(Verb.SEND, "orders")])

    portal = Portal()  # the browser has the event loop of this thread
    portal.run(grant)
    portal.stop()


@pytest.fixture
def lake(filled: Path, tmp_path: Path) -> Path:
    """A copy of the shop, for a journey that acts."""
    return Path(shutil.copytree(filled, tmp_path / "lake"))


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The folder of pictures: that of PENSTOCK_SCREENSHOTS, or a temporary one. None: a quick run takes none."""
    named = os.environ.get("PENSTOCK_SCREENSHOTS")
    if not named and not THOROUGH:
        return None
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def window(chromium: Browser, shots: Path | None) -> Iterator[Open]:
    """Open a window at a console of a lake: ``window(lake)``, with options of the console, and ``of_browser`` for the window's own."""
    with ExitStack() as ends:

        def open_it(folder: Path, *, of_browser: dict[str, Any] | None = None, **options: Any) -> Window:
            url = ends.enter_context(served(folder, **options))
            opened = Window(chromium, url, shots, **(of_browser or {}))
            ends.callback(opened.close)
            return opened

        yield open_it


@pytest.fixture(scope="session")
def shared(filled: Path) -> Iterator[str]:
    """One console above the shop, for journeys that only look."""
    with served(filled) as url:
        yield url


@pytest.fixture
def look(chromium: Browser, shots: Path | None, shared: str) -> Iterator[Open]:
    """Open a window at the console that only looks."""
    with ExitStack() as ends:

        def open_it(**of_browser: Any) -> Window:
            opened = Window(chromium, shared, shots, **of_browser)
            ends.callback(opened.close)
            return opened

        yield open_it
