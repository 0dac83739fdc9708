"""Drivers and tasks that are killed: every row is there once and in order, and no reader ever saw a part of a batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.spark.java import Java
from tests.spark.produce.killed import TOPIC
from tests.tree import ROOT
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

BATCHES = 3
ROWS = 400
GROUPS = 7
LIVES = (("begun", 1), ("staged", 1), ("linked", 2), ("never", 1))
"""Where each life of the driver ends, and at which occurrence of the step in this life."""
LIFE_S = 240


def test_every_row_is_there_once_and_in_order_whatever_is_killed(java: Java, tmp_path: Path) -> None:
    write_input(tmp_path / "input")
    (tmp_path / "marks").mkdir()
    with penstock.connect(tmp_path / "lake", maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=4)
        seen = [0]
        counts: list[int] = []
        for step, occurrence in LIVES:
            code = live(tmp_path, step, occurrence)
            assert code == (0 if step == "never" else -signal.SIGKILL), f"the life that was to end at {step} ended with {code}"
            seen.append(sum(map(len, rows_by_group(lake).values())))
            counts.append(len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))))
        # Batch by batch, each whole: none by the first two lives, two by the third, of which Spark knows one, and the last.
        assert seen == [0, 0, 0, 2 * ROWS, 3 * ROWS]
        assert counts == [0, 0, 1, 3]
        for group, rows in rows_by_group(lake).items():
            assert rows == [number for number in range(BATCHES * ROWS) if f"user-{number % GROUPS}" == group]
    # Each batch lost a task wherever it was staged: the first one in two lives.
    killed = len(list((tmp_path / "marks").iterdir()))
    assert killed >= BATCHES + 1, killed


def write_input(folder: Path) -> None:
    folder.mkdir()
    for batch in range(BATCHES):
        numbers = list(range(batch * ROWS, (batch + 1) * ROWS))
        columns = {"user": [f"user-{n % GROUPS}" for n in numbers], "seq": numbers, "note": ["x" * 60] * ROWS}
        shuffled = pa.table(columns).take(sorted(range(ROWS), key=lambda n: n * 7919 % ROWS))
        path = folder / f"{batch}.parquet"
        pq.write_table(shuffled, path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # Spark takes files by age


def live(folder: Path, step: str, occurrence: int) -> int:
    """One life of the driver, and of all that it started."""
    arguments = [str(folder / name) for name in ("lake", "input", "checkpoint", "marks")] + [step, str(occurrence)]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.produce.killed", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return child.wait(LIFE_S)
    finally:
        child.kill()
        child.wait()
        wait_until(lambda: not of_session(child.pid), "the end of the JVM and its workers", timeout_s=120.0)


def of_session(number: int) -> list[int]:
    """The processes that a life left."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def rows_by_group(lake: penstock.Lake) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = defaultdict(list)
    for message in lake.reader(TOPIC).messages():
        rows[str(message.message_group)].append(message.json()["seq"])
    return rows
