"""A capture by Debezium's engine that is killed again and again, on a server that crashes: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.cdc.debezium.killing import POINTS, Run, running

pytestmark = [pytest.mark.mariadb, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(900)]


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(1)) as run:
        run.die_at("batch sent:3")


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_nothing_is_lost_or_doubled_wherever_it_is_killed(tmp_path: Path) -> None:
    with running(tmp_path, random.Random(2)) as run:
        for point in POINTS:
            run.die_at(point)
        run.crash_server(signal.SIGKILL, signal.SIGTERM)
        Run.die_anywhere(run)
