"""Single faults: each is played where it was asked for, told by the command that plays it again, and counted in the table."""

from __future__ import annotations

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
