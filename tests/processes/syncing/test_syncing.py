"""A few kills of the campaign that `make chaos` runs for long."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.processes.syncing.syncs import Syncs


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sync_and_its_producer_are_killed_and_every_row_is_as_the_judge_says(tmp_path: Path) -> None:
    syncs = Syncs(tmp_path, kills=2, spark=0, chance=random.Random(1))
    syncs.run()
    assert sum(count for (process, _), count in syncs.killed.items() if process == "driver, deltalake") == syncs.checks == 2
