"""The picture of a run."""

from __future__ import annotations

import numpy as np

from examples.demo.picture import Mark, picture


def test_a_column_is_as_high_as_its_share_of_the_highest() -> None:
    stored = np.array([0] * 8 + [1000] * 4 + [2000] * 2 + [3999])
    visible = np.array([3999] * len(stored))
    sent, shown, waiting, axis = picture(stored, visible, width=4)
    assert sent == "sent     █▄▂▁  8 /s at most"
    assert shown == "visible     █  15 /s at most"
    assert waiting == "waiting  ▅▇█   14 at most"
    assert axis == "         0 s4 s"


def test_marks_stand_where_they_happened_also_outside_of_the_run() -> None:
    lines = picture(np.array([0, 9_999]), np.array([1, 9_999]), [Mark(-5, "a"), Mark(5_000, "b"), Mark(20_000, "c")], width=10)
    assert lines[3] == "         a    b   c"


def test_what_is_not_visible_still_waits() -> None:
    waiting = picture(np.array([0, 0, 10]), np.array([5, -1, -1]), width=4)[2]
    assert waiting == "waiting  █▄▄█  2 at most"


def test_of_nothing_there_is_no_picture() -> None:
    assert picture(np.array([]), np.array([])) == []
