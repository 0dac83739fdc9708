"""A few seconds of the chaos run on each real store; `make chaos` and `make soak` run it for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.chaos import place, run
from tests.processes.check import Row, check

SEED = 20


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["local", pytest.param("versitygw", marks=[pytest.mark.s3, pytest.mark.versitygw, pytest.mark.thorough])]
)
def test_processes_killed_and_paused_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    print(f"replay: python -m tests.processes.chaos --minutes 0.1 --seed {SEED} --store {kind}")
    with place(kind, tmp_path) as (url, options):
        verdict, done = run(url, options, tmp_path, seed=SEED, seconds=3, deeds=6)
    print(verdict, done)
    assert verdict.problems == []
    assert verdict.acknowledged > 100
    assert done.total() >= 6


GOOD = [Row(0, 0, "p/0/1", "p-1"), Row(0, 1, "p/1/1", "p-1")]
JOURNAL = [["S", "p/0/1"], ["S", "p/1/1"], ["A", "p/0/1", "0", "0"], ["A", "p/1/1", "0", "1"]]


@pytest.mark.parametrize(
    ("rows", "journal", "problem"),
    [
        (GOOD[:1], JOURNAL, "was acknowledged at"),
        ([GOOD[0], Row(0, 1, "p/0/1", "p-1")], JOURNAL, "is in the log 2 times"),
        ([Row(0, 0, "p/1/1", "p-1"), Row(0, 1, "p/0/1", "p-1")], JOURNAL, "comes behind 1 of its group"),
        ([GOOD[0], Row(0, 2, "p/1/1", "p-1")], JOURNAL, "not dense"),
        (GOOD, [*JOURNAL[:3], ["N", "p/1/1"]], "was not written, and is at"),
        (GOOD, JOURNAL[:1] + JOURNAL[2:3], "was never sent"),
        ([Row(0, 0, "n/1/1", "n-1")], [["S", "n/1/1"]], "sequences of n have gaps"),
    ],
)
def test_the_check_notices(rows: list[Row], journal: list[list[str]], problem: str) -> None:
    verdict = check(rows, journal, ["n"], 1)
    assert verdict.problems
    assert any(problem in one for one in verdict.problems), verdict.problems


def test_the_check_passes_what_is_right() -> None:
    assert check(GOOD, JOURNAL, [], 1).problems == []
    assert check(GOOD[:1], JOURNAL[:3], [], 1).unknown_out == 1
