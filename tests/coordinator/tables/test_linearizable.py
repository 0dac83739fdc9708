"""The judge is judged: histories that one cell could have answered, and those that it could not."""

from __future__ import annotations

import random
import time

import pytest

from tests.coordinator.tables.linearizable import Call, Outcome, is_linearizable

DONE, REFUSED, NOT_DONE, UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.NOT_DONE, Outcome.UNKNOWN


def read(start: int, end: int, value: bytes | None) -> Call:
    return Call(start, end, value)


def write(start: int, end: int, expected: bytes | None, value: bytes | None, outcome: Outcome = DONE) -> Call:
    return Call(start, end, value, expected, outcome)


POSSIBLE = {
    "nothing": [],
    "one after another": [write(0, 1, None, b"a"), read(2, 3, b"a"), write(4, 5, b"a", b"b"), read(6, 7, b"b")],
    "a read beside a write sees either": [write(0, 9, None, b"a"), read(1, 2, None), read(3, 4, b"a")],
    "not done without reason": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b", NOT_DONE), read(4, 5, b"a")],
    "a loser": [write(0, 9, None, b"a"), write(0, 9, None, b"b", REFUSED), read(10, 11, b"a")],
    "unknown, and it was": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b", UNKNOWN), read(4, 5, b"a"), read(6, 7, b"b")],
    "unknown, and it was not": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b", UNKNOWN), write(4, 5, b"a", b"c")],
    "deleted and made again": [write(0, 1, None, b"a"), write(2, 3, b"a", None), read(4, 5, None), write(6, 7, None, b"b")],
}
IMPOSSIBLE = {
    "two winners": [write(0, 9, None, b"a"), write(0, 9, None, b"b")],
    "a stale read": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b"), read(4, 5, b"a")],
    "a lost write": [write(0, 1, None, b"a"), read(2, 3, None)],
    "back and forth": [write(0, 9, None, b"a"), read(1, 2, b"a"), read(3, 4, None)],
    "refused without reason": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b", REFUSED)],
    "from nowhere": [read(0, 1, b"a")],
    "not done, yet it was": [write(0, 1, None, b"a"), write(2, 9, b"a", b"b", NOT_DONE), read(3, 4, b"b")],
    "refused, yet it was": [write(0, 1, None, b"a"), write(2, 9, b"a", b"b", REFUSED), read(3, 4, b"b")],
    "unknown, seen before it was sent": [write(0, 1, None, b"a"), read(2, 3, b"b"), write(4, 5, b"a", b"b", UNKNOWN)],
    "unknown, and undone": [write(0, 1, None, b"a"), write(2, 3, b"a", b"b", UNKNOWN), read(4, 5, b"b"), read(6, 7, b"a")],
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_a_cell_could_have_answered_so(name: str) -> None:
    assert is_linearizable(POSSIBLE[name])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_no_cell_could_have_answered_so(name: str) -> None:
    assert not is_linearizable(IMPOSSIBLE[name])


def generated(calls: int, clients: int, seed: int) -> list[Call]:
    """What ``clients`` saw of a real cell, each call taking effect somewhere between its start and its end."""
    chance = random.Random(seed)
    free_at = [0] * clients
    planned = []
    for number in range(calls):
        client = min(range(clients), key=free_at.__getitem__)
        start = free_at[client] + chance.randrange(1, 5)
        end = start + chance.randrange(2, 30)
        free_at[client] = end
        planned.append((chance.randrange(start + 1, end), number, start, end))
    held: bytes | None = None
    seen: bytes | None = None
    history = []
    for _, number, start, end in sorted(planned):
        if chance.random() < 0.4:
            seen = held
            history.append(read(start, end, held))
            continue
        expected = seen if chance.random() < 0.3 else held
        value = b"%d" % number
        done = held == expected
        outcome = (DONE if done else REFUSED) if chance.random() < 0.98 else UNKNOWN
        history.append(write(start, end, expected, value, outcome))
        held = value if done else held
    return history


def test_long_histories_are_judged_in_time() -> None:
    started_s = time.process_time()
    for seed in range(5):
        assert is_linearizable(generated(600, 8, seed))
    assert time.process_time() - started_s < 20


def test_one_wrong_answer_in_a_long_history_is_found() -> None:
    history = generated(300, 4, seed=1)
    reads = [number for number, call in enumerate(history) if call.outcome is None]
    assert len(reads) > 20
    for number in reads[10:]:
        wrong = list(history)
        wrong[number] = read(history[number].start, history[number].end, b"never written")
        assert not is_linearizable(wrong)
