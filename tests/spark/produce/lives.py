"""Lives of a driver that writes a stream to a topic: each is ended by SIGKILL at a step, and its tasks lose workers on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from tests.spark.produce.killed import TOPIC
from tests.tree import ROOT
from tests.waiting import wait_until

BATCHES = 3
ROWS = 400
GROUPS = 7
ALL_LIVES = (("begun", 1), ("staged", 1), ("linked", 2), ("never", 1))
"""Where each life of the driver ends, and at which occurrence of the step in this life."""
LIFE_S = 300


def written_in_lives(folder: Path, lives: Sequence[tuple[str, int]]) -> int:
    """Let a driver live so often; batch by batch is in the topic whole or not at all, in the end every row once and in order. How many
    workers were killed.
    """
    write_input(folder / "input")
    (folder / "marks").mkdir()
    with penstock.connect(folder / "lake", maintenance=False) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=4)
        before = 0
        for step, occurrence in lives:
            code = live(folder, step, occurrence)
            assert code == (0 if step == "never" else -signal.SIGKILL), f"the life that was to end at {step} ended with {code}"
            there = {"begun": before, "staged": before, "linked": before + occurrence, "never": BATCHES}[step]
            check(lake, there)
            assert committed(folder) == (there - 1 if step == "linked" else there), (
                "Spark did not note the batch that was linked last"
            )
            before = there
    killed = len(list((folder / "marks").iterdir()))
    # Each batch lost a task wherever it was staged.
    staged = sum(step != "begun" and occurrence for step, occurrence in lives if step != "never") + (lives[-1][0] == "never")
    assert killed >= staged, killed
    return killed


def check(lake: penstock.Lake, batches: int) -> None:
    """Every row of so many batches is there, once and in order, and no other."""
    found = rows_by_group(lake)
    assert sum(map(len, found.values())) == batches * ROWS
    for group, rows in found.items():
        assert rows == [number for number in range(batches * ROWS) if f"user-{number % GROUPS}" == group]


def committed(folder: Path) -> int:
    """Batches that Spark has noted."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


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
