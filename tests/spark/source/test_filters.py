from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.spark.source.filters import Narrowing

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
RANGES = {0: (0, 100), 1: (50, 100), 2: (0, 10)}


def narrowed(*conditions: tuple[str, str, Any]) -> Narrowing:
    found = Narrowing()
    for condition in conditions:
        after = found.narrowed(*condition)
        assert after is not None, condition
        found = after
    return found


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ([], RANGES),
        ([("queue", "=", 1)], {1: (50, 100)}),
        ([("queue", "in", [0, 1, None]), ("queue", "in", [1, 2])], {1: (50, 100)}),
        ([("queue", "=", 0), ("queue", "=", 1)], {}),
        ([("offset", "=", 60)], {0: (60, 61), 1: (60, 61)}),
        ([("offset", ">", 5), ("offset", "<=", 60)], {0: (6, 61), 1: (50, 61), 2: (6, 10)}),
        ([("offset", ">=", 5), ("offset", "<", 60)], {0: (5, 60), 1: (50, 60), 2: (5, 10)}),
        ([("offset", "<", 0)], {}),
    ],
)
def test_conditions_choose_queues_and_offsets(conditions: list[tuple[str, str, Any]], left: dict[int, tuple[int, int]]) -> None:
    assert narrowed(*conditions).apply(RANGES, {}, {}) == left


def test_store_times_become_offsets() -> None:
    found = narrowed(("store_timestamp", ">", EARLY), ("store_timestamp", ">=", EARLY), ("store_timestamp", "<=", LATE))
    assert (found.stored_from, found.stored_to) == (EARLY, LATE)
    assert found.apply(RANGES, {0: 20, 1: 20, 2: 10}, {0: 30, 1: 60, 2: 10}) == {0: (20, 30), 1: (50, 60)}
    exactly = narrowed(("store_timestamp", "=", EARLY), ("store_timestamp", "<", LATE))
    assert (exactly.stored_from, exactly.stored_to) == (EARLY, EARLY)


def test_tags_are_exact_and_null_is_none() -> None:
    assert narrowed(("tag", "in", ["a", "b", None]), ("tag", "=", "b")).tags == frozenset({"b"})


@pytest.mark.parametrize(
    "condition",
    [
        ("body", "=", b"x"),
        ("message_group", "=", "x"),
        ("tag", "<", "x"),
        ("tag", "=", None),
        ("offset", ">", 1.5),
        ("queue", ">", 2),
        ("store_timestamp", ">", datetime(2026, 1, 1)),  # noqa: DTZ001 - without a zone it is no moment
        ("store_timestamp", "in", [EARLY]),
    ],
)
def test_what_does_not_say_what_to_read_is_left_to_spark(condition: tuple[str, str, Any]) -> None:
    assert Narrowing().narrowed(*condition) is None
