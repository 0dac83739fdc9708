"""A lake in memory for tests of consumers by the public API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock


@pytest.fixture
def lake() -> Iterator[penstock.Lake]:
    with penstock.connect("memory://") as opened:
        yield opened
