"""How many messages were stored when, from the sample that describes a topic."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.log.describe import SLOTS, stored_over_time
from penstock.log.message.message import from_us

MINUTE_US = 60_000_000


def test_messages_are_counted_in_slots_of_equal_length() -> None:
    first, second = np.arange(SLOTS) * MINUTE_US, np.full(10, SLOTS * MINUTE_US)
    found = stored_over_time([first.astype(np.int64), second.astype(np.int64)], 0)
    assert found is not None
    assert (found.start, found.end) == (from_us(0), from_us(SLOTS * MINUTE_US))
    assert found.counts == (*[1] * (SLOTS - 1), 11)


def test_what_a_sample_has_in_part_is_left_out() -> None:
    hot, quiet = np.array([50, 60, 70], np.int64) * MINUTE_US, np.array([0, 55, 90], np.int64) * MINUTE_US
    found = stored_over_time([hot, quiet], 50 * MINUTE_US)
    assert found is not None
    assert (found.start, sum(found.counts)) == (from_us(50 * MINUTE_US), 5)


@pytest.mark.parametrize("times", [[], [[]], [[7]], [[7], [7, 7]]])
def test_one_moment_is_no_course(times: list[list[int]]) -> None:
    assert stored_over_time([np.array(one, np.int64) for one in times], 0) is None
