"""Single faults: each is played where it was asked for, told by the command that plays it again, and counted in the table."""

from __future__ import annotations

import pytest

from tests.simulation.consumers.campaign import CAMPAIGN as CONSUMERS
from tests.simulation.faults import Fault
from tests.simulation.singles import Single, table
from tests.simulation.timers.campaign import CAMPAIGN

STORY = next(iter(CAMPAIGN.stories))


def test_a_fault_that_no_request_meets_is_wrong() -> None:
    run, _ = CAMPAIGN.single_fault(Single(STORY, "store", "", "m0", 10_000, Fault.LOST_ANSWER))
    assert run.wrong == ("no request met the fault",)
    assert run.again == (
        f"make replay SEED=0 ARGS=\"--world timers --story '{STORY}' --service store --process m0 --call 10000 --fault LOST_ANSWER\""
    )


@pytest.mark.simulation
@pytest.mark.thorough
def test_a_call_is_no_single_fault_where_none_may_come() -> None:
    singles = {(one.service, one.process, one.number) for one in CONSUMERS.singles_of("small")}
    _, world = CONSUMERS.judged("small", "alone", "", CONSUMERS.stories["small"].make)
    calls = {(name, one.process, one.process_number) for name in CONSUMERS.services for one in getattr(world, name).calls}
    assert singles < calls
    beside = min(one for one in calls - singles if one[1].startswith("m"))  # while somebody looked what is settled
    run, _ = CONSUMERS.single_fault(Single("small", beside[0], "", *beside[1:], Fault.CRASH_BEFORE))
    assert run.wrong == ("no request met the fault",)


def test_the_table_counts_what_ran_and_what_went_wrong() -> None:
    lost, crash = (Single(STORY, "store", "put: a run", "m0", 1, fault) for fault in (Fault.LOST_ANSWER, Fault.CRASH_BEFORE))
    read = Single(STORY, "store", "get: a run", "m0", 2, Fault.CRASH_BEFORE)
    head, _, got, put, both = table([(lost, True), (lost, False), (crash, False), (read, False)]).splitlines()
    columns = [column.strip() for column in head.split("|")]
    first, answer = columns.index("crash before"), columns.index("lost answer")
    rows = [[cell.strip() for cell in row.split("|")] for row in (got, put, both)]
    assert [row[1] for row in rows] == ["get: a run", "put: a run", "all"]
    assert [row[first] for row in rows] == ["1", "1", "2"]
    assert [row[answer] for row in rows] == ["", "2 (1 wrong)", "2 (1 wrong)"]
    assert [row[-3:-1] for row in rows] == [["1", "0"], ["3", "1"], ["4", "1"]]
