"""What tests of change data share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.log.runtime.portal import Portal


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = Portal()
    yield portal
    portal.stop()
