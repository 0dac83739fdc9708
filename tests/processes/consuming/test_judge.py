"""The judge of a run reads it part by part from disk: what is wrong must be found as if it were in memory at once, and progress said."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processes.check import Row, Verdict, Whole
from tests.processes.check import check_part as check_log
from tests.processes.consuming import parts as parts_module
from tests.processes.consuming.check import Found, History, Rules, check_part, finish
from tests.processes.consuming.fates import Fate, Fates
from tests.processes.consuming.judge import handled_of, spread_records
from tests.processes.consuming.parts import Parts
from tests.processes.consuming.progress import Progress, Steps, clock
from tests.processes.consuming.records import Handled, Noted, What, read_records
from tests.processes.worker import message_group_of

NO_FATES = Fates(flaky=0, poison=0, rejected=0, slow=0)
ROWS = [Row(0, number, f"p/{number}/{number % 7}", f"p-{number % 7}") for number in range(70)]


def handled(row: Row, what: What, at_s: float, *, process: str = "worker-a.0", epoch: int = 1, attempt: int = 1) -> Handled:
    return Handled(what, at_s, at_s, "ordered", "orders", 0, row.offset, attempt, epoch, row.group, row.body, process)


STRAIGHT = [line for row in ROWS for line in (handled(row, What.START, 2 * row.offset), handled(row, What.OK, 2 * row.offset + 1))]
AFTER = 1_000.0


def problems_of(folder: Path, records: list[Handled], rows: list[Row] = ROWS, *, drained: bool = True) -> list[str]:
    """As the judge finds them, of records in one file for each process."""
    for one in records:
        with (folder / f"{one.process}.jsonl").open("a") as file:
            file.write(json.dumps([one.what, *one[1:-1]]) + "\n")
    parts = Parts(folder / "parts", len(rows))
    spread = spread_records(sorted(folder.glob("*.jsonl")), parts, Steps(lambda line: None, time.monotonic))
    assert spread.handled == len(records)
    for row in rows:
        parts.add("rows", row.body, (row.queue, row.offset, row.body, row.group))
    found = Found()
    for part in range(parts.count):
        mine = [Row(*values) for values in parts.take("rows", part)]
        history = History(
            rows=mine,
            handled=handled_of(parts, "ordered", part),
            groups={"ordered": Rules(True)},
            fates=NO_FATES,
            drained=drained,
        )
        check_part(history, found)
    finish(0, found)
    return found.problems


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "MESSAGES_MAX", 10)
    monkeypatch.setattr(parts_module, "_BUFFERED", 3)


def test_a_run_without_fault_passes_whatever_part_its_messages_are_in(tmp_path: Path) -> None:
    assert problems_of(tmp_path, STRAIGHT) == []


LOST = STRAIGHT[:80] + STRAIGHT[82:]
SWAPPED = [replaced for one in STRAIGHT for replaced in [one._replace(at_s=one.at_s + 15) if one.offset == 33 else one]]
AGAIN = [
    handled(ROWS[33], What.START, AFTER, process="worker-b.0", epoch=2),
    handled(ROWS[33], What.OK, AFTER, process="worker-b.0", epoch=2),
]
TWICE = [handled(ROWS[33], What.START, 67.5), handled(ROWS[33], What.OK, 67.6)]
FORGED = [handled(replace(ROWS[33], body="p/34/6"), What.START, AFTER, attempt=9)]
ELSEWHERE = [handled(replace(ROWS[33], group="p-1"), What.START, AFTER, attempt=9)]
TWO_OWNERS = [one._replace(process="worker-b.0") if one.message_group == "p-3" else one for one in STRAIGHT]


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (LOST, "never succeeded"),
        (SWAPPED, "was done"),
        ([*STRAIGHT, *AGAIN], "had succeeded"),
        ([*STRAIGHT, *TWICE], "was delivered after"),
        ([*STRAIGHT, *FORGED], "was given p/34/6"),
        ([*STRAIGHT, *ELSEWHERE], "was given"),
        (TWO_OWNERS, "in epoch 1 is worker-a.0's and worker-b.0's"),
    ],
)
def test_a_record_that_is_lost_doubled_moved_or_forged_is_noticed(tmp_path: Path, records: list[Handled], problem: str) -> None:
    problems = problems_of(tmp_path, records)
    assert any(problem in one for one in problems), problems


def test_owners_are_told_apart_over_all_parts(tmp_path: Path) -> None:
    """Each part alone sees one process: only what is kept over all of them tells."""
    here, there = STRAIGHT[0], STRAIGHT[2]
    found = Found()
    for one in (here, there._replace(process="worker-b.0")):
        row = Row(one.queue, one.offset, one.body, one.message_group)
        check_part(History(rows=[row], handled=[one], groups={"ordered": Rules(True)}, fates=NO_FATES, drained=False), found)
    assert found.problems == ["ordered: queue 0 in epoch 1 is worker-a.0's and worker-b.0's"]


def test_of_a_run_that_was_cut_off_nothing_is_lost_yet_but_wrong_order_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "cut").mkdir()
    assert problems_of(tmp_path / "cut", STRAIGHT[:80], drained=False) == []
    (tmp_path / "swapped").mkdir()
    assert any("was done" in one for one in problems_of(tmp_path / "swapped", SWAPPED, drained=False))


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([*ROWS[:40], *ROWS[41:]], "offsets of queue 0 are not dense"),
        ([*ROWS[:40], *ROWS[41:]], "sequences of p have gaps"),
        ([*ROWS, replace(ROWS[40], offset=70)], "sequence p/40 is in the log twice"),
        ([*ROWS, replace(ROWS[40], offset=70)], "p/40/5 is in the log 2 times"),
        ([*ROWS[:40], replace(ROWS[40], group="p-1"), *ROWS[41:]], "is in message group p-1"),
        ([*ROWS[:40], replace(ROWS[40], body="p/42/5"), *ROWS[41:]], "sequence p/42 is in the log twice"),
    ],
)
def test_a_row_that_is_lost_doubled_or_moved_is_noticed(tmp_path: Path, rows: list[Row], problem: str) -> None:
    parts, whole, verdict = Parts(tmp_path / "parts", len(rows)), Whole({"p"}), Verdict()
    for row in rows:
        whole.add(row)
        parts.add("rows", row.body, (row.queue, row.offset, row.body, row.group))
    for part in range(parts.count):
        check_log([Row(*values) for values in parts.take("rows", part)], [], {"p"}, [1], verdict)
    problems = [*whole.problems(), *verdict.problems]
    assert any(problem in one for one in problems), problems


def test_parts_keep_a_message_group_together_and_give_all_back_in_order(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts", 40)
    assert parts.count == 4
    for row in ROWS:
        parts.add("rows", row.body, (row.offset, row.body))
    taken = [list(parts.take("rows", part)) for part in range(parts.count)]
    assert sorted(value for part in taken for value in part) == [(row.offset, row.body) for row in ROWS]
    groups = [{message_group_of(body) for _, body in part} for part in taken]
    assert sum(map(len, groups)) == 7
    assert all(part == sorted(part) for part in taken)
    assert not list((tmp_path / "parts").iterdir())


def test_the_half_line_of_a_process_that_was_killed_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "worker-a.0.jsonl").write_text('["up",1.5,""]\n["start",2.')
    assert list(read_records(tmp_path / "worker-a.0.jsonl")) == [Noted(What.UP, 1.5, "", "worker-a.0")]


def test_progress_says_rate_and_time_left_now_and_then() -> None:
    said: list[str] = []
    progress = Progress(said.append, 10_000, 0.0)
    progress.look(0.0, 100, 0, {})
    progress.look(1.0, 200, 100, {})
    progress.look(20.0, 3_000, 2_000, Counter(kill=3, stop=1))
    assert len(said) == 2
    assert (
        said[1] == "  0:00:20: 2,000 of 10,000 messages through, 3,000 stored, 100/s; 3 kills, 1 stops, 4 deeds; about 0:01:20 left"
    )
    limited = Progress(said.append, 10_000, 0.0, 60.0)
    limited.look(20.0, 3_000, 2_000, {})
    assert said[-1].endswith("about 0:00:40 left")
    assert clock(3_661) == "1:01:01"


def test_the_judge_says_now_and_then_how_far_it_is() -> None:
    said: list[str] = []
    now_s = 0.0
    steps = Steps(said.append, lambda: now_s)
    read = steps.of(4, "records are read")
    for _ in range(4):
        now_s += 6.0
        read(1, "5 lines")
    checked = steps.of(10, "parts are checked")
    now_s += 10.0
    checked(2)
    now_s += 1.0
    checked(2)
    assert said == [
        "  3 of 4 records are read, 5 lines; about 0:00:06 left of this",
        "  2 of 10 parts are checked; about 0:00:40 left of this",
    ]


def test_what_is_drawn_here_is_no_poison() -> None:
    assert {NO_FATES.of(row.body) for row in ROWS} == {Fate.FINE}
