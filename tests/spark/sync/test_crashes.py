from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.lakes import LakePlace
from penstock.spark.sync.engine import Engine
from penstock.spark.sync.options import Options
from penstock.spark.sync.steps import NO_STEPS, Steps
from tests.spark.sync.crashes import BATCH, POINTS, Check, Crash, CrashAt, stored, stream
from tests.spark.sync.streams import TOPIC, send
from tests.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def drive(spark: SparkSession, lake: str, into: Path, steps: Steps) -> None:
    options = Options(
        place=LakePlace.of(lake), topic=TOPIC, into=str(into), name="s", max_events_per_batch=BATCH, tasks=2, steps=steps
    )
    engine = Engine(spark, options)
    engine.open()
    try:
        engine.look()
        while engine.step() is not None:
            pass
    finally:
        engine.close()


@pytest.mark.timeout(600)
def test_a_driver_that_ends_at_any_step_leaves_targets_as_far_as_they_say_and_another_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, stream(24))
    check = Check(into, stored(lake))
    for number, (step, moment) in enumerate(POINTS):
        point = CrashAt(step, moment, nth=1 + number % 2 if step == "merge" else 1)
        with pytest.raises((Crash, Exception), match=f"{moment} {step}"):
            drive(spark, lake, into, point)
        check()
    drive(spark, lake, into, NO_STEPS)
    check(complete=True)


KILLED: list[tuple[str, str, int]] = [
    ("create", "after", 1),
    ("fold", "in", 1),
    ("merge", "in", 1),
    ("merge", "after", 1),
]
"""Steps at which the whole driver is killed, JVM and all; the others are tried by `test_a_driver_that_ends_at_any_step…`."""


@pytest.mark.processes
@pytest.mark.timeout(900)
def test_a_driver_killed_at_a_step_is_replaced_after_its_lease(java: object, tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    send(lake, stream(10))
    check = Check(into, stored(lake))
    for step, moment, nth in KILLED:
        assert driver(lake, into, step, moment, nth) == -signal.SIGKILL, (step, moment)
        check()
    assert driver(lake, into, "-", "-", 0) == 0
    check(complete=True)


def driver(lake: str, into: Path, *point: object) -> int:
    """The exit code of a driver that is a process group of its own."""
    program = [sys.executable, "-m", "tests.spark.sync.driver", lake, str(into), *map(str, point)]
    with subprocess.Popen(program, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE) as process:
        try:
            _, told = process.communicate(timeout=300)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (0, -signal.SIGKILL), told.decode()[-3000:]
    return process.returncode
