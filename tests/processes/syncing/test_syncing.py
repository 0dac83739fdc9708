"""A few kills of the campaign that `make chaos` runs for long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.processes.syncing.chaos import Run


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sync_and_its_producer_are_killed_and_every_row_is_as_the_judge_says(tmp_path: Path) -> None:
    run = Run(tmp_path, kills=2, spark=0, random=random.Random(1))
    run.run()
    assert run.killed.total() >= 2
    assert run.checks == 2
