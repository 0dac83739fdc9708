"""A pool whose workers are killed as they work: no message is lost, and none runs before an earlier one of its message group is done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import psutil
import pytest

from penstock import Message, connect
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAM = "from penstock.infra.cli import main; main(prog_name='penstock')"
GROUPS = 24
PATIENCE_S = 300.0
"""For a machine that is busy with other things: killed workers' queues go to others after their leases."""
HANDLER = """
import os, pathlib, threading
from penstock import ConsumeResult

JOURNAL = os.open(pathlib.Path(__file__).parent / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def listen(message):
    group, number = message.message_group, message.json()
    os.write(JOURNAL, f"begun {group} {number}\\n".encode())
    threading.Event().wait(0.01)
    os.write(JOURNAL, f"done {group} {number}\\n".encode())
    return ConsumeResult.SUCCESS
"""


def journal(folder: Path) -> list[tuple[str, str, int]]:
    lines = (folder / "journal").read_text().splitlines() if (folder / "journal").exists() else []
    return [(what, group, int(number)) for what, group, number in map(str.split, lines)]


def inversions(lines: list[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """The messages that began before each earlier one of their message group was done."""
    done: defaultdict[str, set[int]] = defaultdict(set)
    found = []
    for what, group, number in lines:
        if what == "done":
            done[group].add(number)
        elif not done[group].issuperset(range(number)):
            found.append((group, number))
    return found


def test_inversions_are_seen() -> None:
    lines = [("begun", "a", 0), ("done", "a", 0), ("begun", "a", 2), ("begun", "b", 0), ("begun", "a", 1)]
    assert inversions(lines) == [("a", 2)]


@pytest.mark.parametrize(
    ("messages", "kills"), [(40, 3), pytest.param(200, 12, marks=[pytest.mark.thorough, pytest.mark.timeout(1200)])]
)
def test_nothing_is_lost_or_overtakes_as_workers_of_a_pool_are_killed(tmp_path: Path, messages: int, kills: int) -> None:
    """``messages`` are those of each message group."""
    (tmp_path / "handler.py").write_text(HANDLER)
    lake, fate = tmp_path / "lake", random.Random(7)
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=8)
        with opened.producer("orders") as producer:
            for number in range(messages):
                for group in range(GROUPS):
                    producer.send(Message.json(number, message_group=f"g{group}"))
    command = ["consume", "orders", "--group", "g", "--call", "handler:listen", "--threads", "3", "--processes", "4"]
    with (tmp_path / "errors").open("wb") as errors:
        pool = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command],
            cwd=tmp_path,
            env={**os.environ, "PENSTOCK_LAKE": str(lake)},
            stderr=errors,
        )
    try:
        for kill in range(1, kills + 1):
            wanted = GROUPS * messages * kill // (kills + 1)
            wait_until(partial(are_done, tmp_path, wanted), f"{wanted} messages are done", timeout_s=PATIENCE_S)
            fate.choice(wait_until(psutil.Process(pool.pid).children, "a worker runs")).kill()
        with connect(lake, read_only=True) as opened:
            wait_until(
                lambda: sum(one.committed_offset or 0 for one in opened.describe_group("g").queues) == GROUPS * messages,
                "all messages are settled",
                timeout_s=PATIENCE_S,
            )
        pool.send_signal(signal.SIGTERM)
        assert pool.wait(PATIENCE_S) == 143
    finally:
        pool.kill()
        pool.wait()
    lines = journal(tmp_path)
    assert done(tmp_path) == {(f"g{group}", number) for group in range(GROUPS) for number in range(messages)}
    assert inversions(lines) == []


def are_done(folder: Path, count: int) -> bool:
    return len(done(folder)) >= count


def done(folder: Path) -> set[tuple[str, int]]:
    return {(group, number) for what, group, number in journal(folder) if what == "done"}
