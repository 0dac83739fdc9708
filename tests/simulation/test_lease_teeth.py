"""Leases: without any one guard a run goes wrong that goes right with it; and no single fault of any request does."""

from __future__ import annotations

import random
from functools import cache

import pytest

from penstock.coordinator.cells.keys import QUEUES
from tests.simulation.faults import Call, Fault, ScriptedFaults, Where, single_faults
from tests.simulation.lease_mutants import LEASE_MUTANTS
from tests.simulation.lease_scenarios import calm, skirmish
from tests.simulation.stand_ins import played
from tests.thorough import THOROUGH, thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

OTHERS = 60
"""So many further seeds are tried before a mutant counts as unnoticed."""
SAMPLE = thoroughly(60, 12)
"""Of all single faults."""


@pytest.mark.parametrize("name", played("leases", LEASE_MUTANTS))
def test_a_missing_guard_is_noticed(name: str) -> None:
    mutant = LEASE_MUTANTS[name]
    seeds = dict.fromkeys((*mutant.seeds, *range(OTHERS)))
    with mutant.patch():
        caught = next((seed for seed in seeds if skirmish(seed, far=mutant.far).wrong), None)
    assert caught is not None, f"it goes unnoticed that {mutant.guard}"
    assert not THOROUGH or not intact(caught, far=mutant.far), "it goes wrong with every guard in place"


@cache
def intact(seed: int, *, far: bool) -> list[str]:
    """What is wrong with the run that has every guard, which many mutants are compared with."""
    return skirmish(seed, far=far).wrong


@pytest.mark.parametrize("name", LEASE_MUTANTS)
def test_a_calm_run_does_not_need_it(name: str) -> None:
    with LEASE_MUTANTS[name].patch():
        assert not calm(1).wrong


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """Every request of a run in which machines join, are deployed and leave."""
    return [call for call in calm(1).table.calls if call.process != "founder"]


def test_no_single_fault_of_any_request_goes_wrong(calls: list[Call]) -> None:
    script = list(single_faults(calls))
    assert len({fault for _, fault in script}) == len(Fault)
    wrong: list[str] = []
    for where, fault in random.Random("a sample of single faults").sample(script, SAMPLE):
        wrong += _played(where, fault)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("fault", [Fault.LOST_REQUEST, Fault.LATE_APPLY])
def test_a_write_of_a_queue_s_cell_that_nobody_can_tell_of_leaves_no_queue_behind(fault: Fault, calls: list[Call]) -> None:
    """Its time-out is longer than the lease here, so the hold ends in doubt while its owner lives on: it must take the queue again."""
    first, last = (next(call.process for call in order if call.verb == "put") for order in (calls, calls[::-1]))
    wrong: list[str] = []
    for process in {first, last}:
        writes = sum(call.process == process and call.key.startswith(QUEUES) and call.verb == "put" for call in calls)
        for occurrence in range(1, min(writes, 10) + 1):
            where = Where(process=process, verb="put", key=lambda key: key.startswith(QUEUES), occurrence=occurrence)
            wrong += _played(where, fault)
    assert not wrong, "\n".join(wrong)


def _played(where: Where, fault: Fault) -> list[str]:
    plan = ScriptedFaults([(where, fault)])
    fleet = calm(1, plan=plan)
    assert plan.done, f"{where} met no request"
    return [f"{fault.value} at request {where.occurrence} of {where.process}: {one}" for one in fleet.wrong]
