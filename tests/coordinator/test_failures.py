"""The last failures of a queue: never told of another attempt, bounded, and none of another generation."""

from __future__ import annotations

import pytest

from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.registry.failures import (
    BYTES_MAX,
    FAILURES_MAX,
    TEXT_CHARS_MAX,
    NotedFailure,
    QueueFailures,
    deaths_in,
    failed_in,
    first_line,
)


def failure(offset: int, attempt: int = 1, *, text: str = "ValueError: no", time_ms: int = 0) -> NotedFailure:
    return NotedFailure(offset, attempt, "ValueError", text, "w/1", "host/7", time_ms or 1000 + offset)


def told_of(kept: QueueFailures, cell: QueueCell, offset: int) -> NotedFailure | None:
    return next((one for one in kept.true_of(cell) if one.offset == offset), None)


def waiting(*offsets: int, attempts: int = 1) -> QueueCell:
    return QueueCell(tries={offset: Tries(MessageState.WAITING, attempts, attempts) for offset in offsets})


@pytest.mark.parametrize(
    ("tries", "told"),
    [
        (Tries(MessageState.WAITING, 2, 2), True),
        (Tries(MessageState.PARKED, 2, 2), True),
        (Tries(MessageState.RUNNING, 3, 2), True),
        (Tries(MessageState.OUT, 3, 2, 99), True),
        (Tries(MessageState.SUSPECT, 2, 2), True),
        (Tries(MessageState.SUSPECT, 3, 2), False),
        (Tries(MessageState.WAITING, 3, 3), False),
        (Tries(MessageState.RUNNING, 4, 3), False),
        (Tries(MessageState.RUNNING, 2, 1), False),
    ],
)
@pytest.mark.parametrize("behind_marker", [False, True])
def test_a_failure_is_told_only_while_it_is_the_last_of_its_message(tries: Tries, told: bool, behind_marker: bool) -> None:
    """A crash between the cell and the reason loses the reason of the last attempt; the one before is not shown for it."""
    cell = QueueCell(markers={5: Marker(7, 8, tries)}) if behind_marker else QueueCell(tries={7: tries})
    kept = QueueFailures(0, (failure(7, 2),))
    assert (told_of(kept, cell, 7) is not None, told_of(kept, cell, 8)) == (told, None)


def test_a_failure_of_another_generation_is_not_told_and_does_not_overwrite() -> None:
    """After a reset, or where topic or group were made again, offsets and attempts come again."""
    kept = QueueFailures(3, (failure(7),))
    before, after = QueueCell(generation=2, tries=waiting(7).tries), QueueCell(generation=4, tries=waiting(7).tries)
    assert (told_of(kept, before, 7), told_of(kept, after, 7), kept.last_known(4, 7)) == (None, None, None)
    assert kept.with_all(before, [failure(7, 9)]) == kept, "a late owner is not listened to"
    assert kept.with_all(after, [failure(8), failure(7, text="new")]) == QueueFailures(4, (failure(7, text="new"),))


def test_the_same_write_again_changes_nothing_and_an_earlier_attempt_never_replaces_a_later_one() -> None:
    cell = waiting(1, 2, attempts=2)
    once = QueueFailures().with_all(cell, [failure(1, 2), failure(2, 2)])
    assert once.with_all(cell, [failure(1, 2), failure(2, 2)]) == once
    assert once.with_all(cell, [failure(1, 1, time_ms=9_000)]) == once


def test_what_is_settled_goes_and_what_waits_elsewhere_stays() -> None:
    kept = QueueFailures(0, (failure(1), failure(2), failure(3)))
    cell = QueueCell(tries=waiting(2).tries, dead_letters=DeadLetters(1, (3,)))
    assert [one.offset for one in kept.with_all(cell, []).failures] == [2, 3]


def test_of_too_many_the_oldest_go_and_those_of_parked_groups_last() -> None:
    many = range(10, 10 + 2 * FAILURES_MAX)
    parked = QueueCell(tries=waiting(*many).tries, markers={5: Marker(7, 8, Tries(MessageState.PARKED, 1, 1))})
    kept = QueueFailures().with_all(parked, [failure(7), *map(failure, many)])
    assert [one.offset for one in kept.failures] == [7, *many[FAILURES_MAX + 1 :]]


def test_texts_of_any_kind_stay_within_the_bytes() -> None:
    offsets = range(FAILURES_MAX)
    cell = waiting(*offsets)
    kept = QueueFailures().with_all(cell, [failure(one, text="\U0001f600" * TEXT_CHARS_MAX) for one in offsets])
    assert 20 < len(kept.failures) < FAILURES_MAX
    assert sum(len(one.text.encode()) for one in kept.failures) < BYTES_MAX


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("ValueError: no", "ValueError: no"),
        ("\n  ValueError: no\nstack", "ValueError: no"),
        ("x" * 300, "x" * (TEXT_CHARS_MAX - 1) + "…"),
        ("a\x1b[2Jb\ud800", r"a\x1b[2Jb\ud800"),
        ("", ""),
    ],
)
def test_a_reason_is_one_bounded_line(reason: str, line: str) -> None:
    assert first_line(reason) == line


def test_of_a_dead_worker_those_are_told_that_ran_in_the_smallest_company() -> None:
    suspects = {offset: Tries(MessageState.SUSPECT, 1, 0, 0, company) for offset, company in ((1, 8), (2, 1), (3, 8))}
    cell = QueueCell(
        tries={**suspects, 4: Tries(MessageState.WAITING, 1)}, markers={5: Marker(7, 8, Tries(MessageState.SUSPECT, 3, 0, 0, 2))}
    )
    assert list(deaths_in(cell, 3).items()) == [(2, 1), (7, 3), (1, 1)]


def test_the_attempt_that_a_step_failed_is_the_one_that_the_cell_has_then() -> None:
    marker = Marker(7, 9, Tries(MessageState.WAITING, 4, 2))
    assert failed_in({3: Tries(MessageState.WAITING, 2, 2)}, [marker, None]) == {3: 2, 7: 4}
