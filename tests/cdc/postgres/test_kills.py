"""A capture that is killed again and again, on a server that crashes, beneath writers that never rest: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cdc.postgres.killing import POINTS, Run, killed_at

pytestmark = [pytest.mark.thorough, pytest.mark.postgres, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    killed = killed_at(
        tmp_path, random.Random(seed), [lambda run: run.crash_server(signal.SIGQUIT, signal.SIGINT), Run.die_anywhere]
    )
    assert {point for process, point in killed if process == "capture"} == {
        *(point.partition(":")[0] for point in POINTS),
        "any moment",
    }
    assert {point for process, point in killed if process == "server"} == {"any moment, by SIGQUIT", "any moment, by SIGINT"}
