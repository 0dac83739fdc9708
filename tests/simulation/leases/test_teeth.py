"""Leases: without any one guard a run goes wrong that goes right with it; and no single fault of any request does."""

from __future__ import annotations

import random

import pytest

from penstock.coordinator.cells.keys import QUEUES
from tests.simulation.faults import Call, Fault, ScriptedFaults, Where, single_faults
from tests.simulation.leases.campaign import CAMPAIGN
from tests.simulation.leases.scenarios import calm
from tests.simulation.stand_ins import calm as calm_of
from tests.simulation.stand_ins import played
from tests.thorough import thoroughly

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

SAMPLE = thoroughly(60, 12)
"""Of all single faults."""


@pytest.mark.parametrize("name", played("leases"))
def test_a_missing_guard_is_noticed(name: str) -> None:
    CAMPAIGN.check_noticed(name, others=60)


@pytest.mark.parametrize("name", calm_of("leases"))
def test_a_calm_run_does_not_need_it(name: str) -> None:
    CAMPAIGN.check_calm(name)


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """Every request of a run in which machines join, are deployed and leave."""
    fleet = calm(1)
    fleet.run()
    return [call for call in fleet.table.calls if call.process != "founder"]


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
    wrong = calm(1, plan=plan).run()
    assert plan.done, f"{where} met no request"
    return [f"{fault.value} at request {where.occurrence} of {where.process}: {one}" for one in wrong]
