"""The check of broadcasting members notices what is left out, doubled or out of order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes.consuming.broadcast import Member
from tests.processes.consuming.check import Found
from tests.processes.consuming.disturbed import FENCED, KILL, Disturbed
from tests.processes.consuming.nemesis import Tail
from tests.processes.consuming.orders import Orders
from tests.processes.consuming.places import Place
from tests.processes.consuming.records import Handled, What

NAME = "worker-0"


def lines(process: int, *texts: str) -> list[Handled]:
    """``at_s what offset`` each, in queue 0."""
    found = []
    for text in texts:
        at_s, what, offset = text.split()
        number = int(offset)
        handled = (float(at_s), float(at_s), "told", "orders", 0, number, 1, 0, "p-1", f"p/{number}/1", f"{NAME}.{process}")
        found.append(Handled(What(what), *handled))
    return found


def killed(at_s: float) -> list[Disturbed]:
    return [Disturbed(KILL, f"{NAME}.0", at_s, at_s)]


FIRST = lines(0, "1 start 0", "2 ok 0", "3 start 1", "4 fail 1")
SECOND = lines(1, "30 start 2", "31 ok 2")
AGAIN = lines(1, "30 start 1", "31 ok 1", *("32 start 2", "33 ok 2"))
HALF = [*FIRST, *lines(0, "5 start 2")]


def problems(*processes: tuple[list[Handled], list[Disturbed]], end: int = 3) -> list[str]:
    found = Found()
    member = Member(NAME, found)
    for records, troubles in processes:
        member.process(records, troubles)
    return [*found.problems, *member.losses({0: end})]


@pytest.mark.parametrize(
    "processes",
    [
        [(FIRST, []), (SECOND, [])],
        [(FIRST, killed(5)), (AGAIN, [])],
        [(HALF, killed(6)), (SECOND, [])],
        [(FIRST, [Disturbed(FENCED, f"{NAME}.0", 4, 20)]), (AGAIN, [])],
        [(FIRST, []), ([], []), (SECOND, [])],
        [(FIRST, killed(5)), ([], []), (AGAIN, [])],
    ],
)
def test_the_check_passes_what_is_right(processes: list[tuple[list[Handled], list[Disturbed]]]) -> None:
    assert problems(*processes) == []


@pytest.mark.parametrize(
    ("processes", "problem"),
    [
        ([(FIRST, [])], "came to 2 of queue 0, which ends at 3"),
        ([(FIRST, []), (AGAIN, [])], "had ended in order"),
        ([(FIRST, killed(5)), (SECOND, []), (AGAIN, [])], "had ended in order"),
        ([(FIRST, killed(15)), (AGAIN, [])], "had long been handled"),
        ([(FIRST[:2], killed(5)), (SECOND, [])], "1 to 1 were not handled"),
        ([(HALF, killed(6)), (lines(1, "30 start 3", "31 ok 3"), [])], "2 to 2 were not handled"),
        ([(lines(0, "1 start 0", "2 ok 0", "3 start 2", "4 ok 2"), [])], "was given to worker-0.0 where 1 was due"),
        ([([*FIRST, *FIRST[:2], *lines(0, "9 start 2", "9 ok 2")], [])], "where 2 was due"),
        ([(lines(0, "1 start 0", "2 start 1", "3 ok 0", "4 ok 1"), [])], "while 0/0 ran"),
        ([([*FIRST, *lines(0, "5 ok 2")], [])], "was not running"),
    ],
)
def test_the_check_notices(processes: list[tuple[list[Handled], list[Disturbed]]], problem: str) -> None:
    found = problems(*processes)
    assert any(problem in one for one in found), found


def test_what_is_followed_is_read_once_and_only_whole_lines(tmp_path: Path) -> None:
    journal = tmp_path / f"{NAME}.0.jsonl"
    place = Place(NAME, lambda _: [], tmp_path / "errors", Orders(tmp_path))
    texts = [json.dumps([one.what, *one[1:-1]]) + "\n" for one in [*FIRST, *SECOND]]
    tail = Tail(tmp_path)
    journal.write_text('["up",0.5,""]\n' + "".join(texts[:3]) + texts[3][:20])
    assert tail.through(place) == 1
    journal.write_text('["up",0.5,""]\n' + "".join(texts[:4]))
    assert tail.through(place) == 2
    (tmp_path / f"{NAME}.1.jsonl").write_text("".join(texts[4:]))
    assert tail.through(place) == 3
