"""What follows a worker's end, as a table."""

from __future__ import annotations

import pytest

from penstock.infra.pool.replacement import (
    STARTS_MAX,
    Finished,
    PlaceHistory,
    PoolFailed,
    Replaced,
    Verdict,
    WorkerEnd,
    after_end,
    end_shown,
)

NEW = PlaceHistory()


def judge(end: WorkerEnd, history: PlaceHistory = NEW, *, served: bool = True, spread: float = 0.0) -> Verdict:
    return after_end(history, end, served=served, spread=spread)[1]


@pytest.mark.parametrize(
    ("end", "served", "verdict"),
    [
        (WorkerEnd(code=0, ready=True, lived_s=9, finished=True), True, Finished()),
        (WorkerEnd(code=0, ready=True, lived_s=9), True, Replaced(0.5)),  # a handler that calls os._exit(0)
        (WorkerEnd(code=1, ready=True, lived_s=9, finished=True), True, Replaced(0.5)),
        (WorkerEnd(code=-9, ready=True, lived_s=9), True, Replaced(0.5)),
        (WorkerEnd(code=2, ready=True, lived_s=9), True, Replaced(0.5)),
        (WorkerEnd(code=2, ready=False, lived_s=1), False, PoolFailed(2, 1)),
        (WorkerEnd(code=2, ready=False, lived_s=1), True, Replaced(0.5)),
        (WorkerEnd(code=3, ready=False, lived_s=1), False, Replaced(0.5)),
        (WorkerEnd(code=-9, ready=False, lived_s=1), False, Replaced(0.5)),
    ],
)
def test_one_end(end: WorkerEnd, served: bool, verdict: Verdict) -> None:
    assert judge(end, served=served) == verdict


@pytest.mark.parametrize(("code", "ends_with"), [(3, 3), (2, 2), (-9, 1)])
def test_a_worker_that_dies_at_its_start_again_and_again_ends_the_pool(code: int, ends_with: int) -> None:
    history, verdicts = NEW, []
    for _ in range(STARTS_MAX):
        history, verdict = after_end(history, WorkerEnd(code=code, ready=False, lived_s=1), served=True, spread=0)
        verdicts.append(verdict)
    assert verdicts == [Replaced(0.5), Replaced(1), Replaced(2), Replaced(4), PoolFailed(ends_with, STARTS_MAX)]


def test_one_that_works_again_has_not_failed_to_start() -> None:
    history = PlaceHistory(failed_starts=STARTS_MAX - 1, quick_ends=STARTS_MAX - 1)
    history, verdict = after_end(history, WorkerEnd(code=-9, ready=True, lived_s=5), served=True, spread=0)
    assert (history.failed_starts, verdict) == (0, Replaced(8))
    assert judge(WorkerEnd(code=3, ready=False, lived_s=1), history) == Replaced(16)


def test_the_pause_grows_to_half_a_minute_and_begins_anew_after_long_work() -> None:
    history, pauses = NEW, []
    for _ in range(9):
        history, verdict = after_end(history, WorkerEnd(code=-9, ready=True, lived_s=5), served=True, spread=0)
        assert isinstance(verdict, Replaced)
        pauses.append(verdict.after_s)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert judge(WorkerEnd(code=-9, ready=True, lived_s=60), history) == Replaced(0.5)


def test_the_pause_is_spread_over_its_second_half() -> None:
    assert judge(WorkerEnd(code=-9, ready=True, lived_s=5), spread=1.0) == Replaced(0.25)


@pytest.mark.parametrize(
    ("code", "shown"), [(3, "ended with exit code 3"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99")]
)
def test_an_end_for_people(code: int, shown: str) -> None:
    assert end_shown(code) == shown
