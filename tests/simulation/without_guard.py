"""A plugin of pytest: every test runs without one guard, which `$PENSTOCK_WITHOUT_GUARD` names as ``world:name``."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import AbstractContextManager

import pytest


def without(world: str, name: str) -> AbstractContextManager[None]:
    """The patch of a mutant."""
    if world == "log":
        from tests.simulation.mutants import MUTANTS

        return MUTANTS[name].patch()
    if world == "leases":
        from tests.simulation.lease_mutants import LEASE_MUTANTS

        return LEASE_MUTANTS[name].patch()
    if world == "consumers":
        from tests.simulation.consuming.mutants import MUTANTS as CONSUMERS_MUTANTS

        return CONSUMERS_MUTANTS[name].patch()
    if world == "receiving":
        from tests.simulation.receiving_mutants import RECEIVING_MUTANTS

        return RECEIVING_MUTANTS[name].patch()
    if world == "repeating":
        from tests.simulation.repeating_mutants import REPEATING_MUTANTS

        return REPEATING_MUTANTS[name].patch()
    if world == "gateways":
        from tests.simulation.gateways.mutants import MUTANTS as GATEWAYS_MUTANTS

        return GATEWAYS_MUTANTS[name].patch()
    if world == "timers":
        from tests.simulation.timers.mutants import MUTANTS as TIMERS_MUTANTS

        return TIMERS_MUTANTS[name].patch()
    from tests.simulation.test_dead_letters import MUTANTS as LETTERS_MUTANTS

    return LETTERS_MUTANTS[name][1]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    with without(*os.environ["PENSTOCK_WITHOUT_GUARD"].split(":")):
        return (yield)
