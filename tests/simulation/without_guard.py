"""A plugin of pytest: every test runs without one guard, which `$PENSTOCK_WITHOUT_GUARD` names as ``world:name``."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    from tests.simulation.mutants import MUTANTS

    with MUTANTS[os.environ["PENSTOCK_WITHOUT_GUARD"]].patch():
        return (yield)
