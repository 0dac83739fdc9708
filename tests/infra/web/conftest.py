"""A console in this process, called as a browser would."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from penstock.infra.web.lakes.lakes import LakeOptions, ServedLakes
from penstock.infra.web.server.app import app_of, site_of
from penstock.infra.web.server.options import ConsoleOptions
from penstock.infra.web.server.site import ConsoleSite
from penstock.log.runtime.runtime import Runtime
from tests.infra.web.shop import fill, park

KEY = b"k" * 32
REFRESH = timedelta(milliseconds=100)


@dataclass
class Browser:
    """A browser at a console. It keeps cookies, and follows no redirects."""

    client: TestClient
    site: ConsoleSite

    def page(self, path: str, *, status: int = 200) -> str:
        """The HTML of a page below the lake."""
        answer = self.client.get(f"/l/lake{path}")
        assert answer.status_code == status, answer.text
        return answer.text

    def api(self, path: str, *, status: int = 200) -> Any:
        """The JSON of a page below the lake."""
        answer = self.client.get(f"/api/l/lake{path}")
        assert answer.status_code == status, answer.text
        return answer.json()

    def form(self, path: str) -> dict[str, str]:
        """The hidden fields of the last form of a page."""
        return fields(self.page(path))

    def submit(self, path: str, *, status: int = 200, **given: str) -> str:
        """Confirm an action as its page is, with these fields too."""
        answer = self.client.post(f"/l/lake{path}", data={**self.form(path), **given})
        assert answer.status_code == status, answer.text
        return answer.text


def fields(page: str) -> dict[str, str]:
    """The hidden fields of a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
    return {name: unescape(value) for name, value in found}


Open = Callable[..., Browser]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled lake, to be copied: to fill one takes 70 ms of the processor and dozens of flushes."""
    folder = tmp_path_factory.mktemp("filled") / "lake"
    fill(folder)
    return folder


@pytest.fixture
def folder(untouched: Path, tmp_path: Path) -> Path:
    """A filled lake in a folder."""
    return shutil.copytree(untouched, tmp_path / "lake")


@pytest.fixture
def stuck(folder: Path) -> Path:
    """The same, with two message groups parked."""
    park(folder)
    return folder


@pytest.fixture
def console(folder: Path) -> Iterator[Open]:
    """Open a browser at a console of the lake, with these options."""
    with ExitStack() as ends:

        def open_it(
            *,
            base_url: str = "http://localhost",
            address: str = "127.0.0.1",
            headers: dict[str, str] | None = None,
            key: bytes = KEY,
            **options: Any,
        ) -> Browser:
            lakes = options.pop("lakes", (LakeOptions(name="lake", url=str(folder), refresh=REFRESH),))
            stated = ConsoleOptions(lakes=lakes, **options)
            runtime = Runtime()
            site = site_of(stated, ServedLakes.of(lakes, runtime, read_only=stated.read_only), runtime, key=key)
            client = TestClient(app_of(site), base_url=base_url, client=(address, 50000), follow_redirects=False, headers=headers)
            return Browser(ends.enter_context(client), site)

        yield open_it
