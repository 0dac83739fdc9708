"""When a checkpoint is written."""

from __future__ import annotations

import pytest

from penstock.log.format.checkpoint import is_due
from penstock.log.limits import CHECKPOINT_ENTRIES, MIB


@pytest.mark.parametrize(
    ("entries", "size_bytes", "due"),
    [(1, 0, True), (1, 2 * MIB - 1, True), (1, 2 * MIB, False), (2, 2 * MIB, True), (3, 3 * MIB, True), (4, 3 * MIB, False)],
)
def test_a_checkpoint_is_due_less_often_the_larger_it_is(entries: int, size_bytes: int, due: bool) -> None:
    """``entries``: in intervals of small checkpoints."""
    assert is_due(entries * CHECKPOINT_ENTRIES, size_bytes) is due
    assert not is_due(entries * CHECKPOINT_ENTRIES - 1, size_bytes)
