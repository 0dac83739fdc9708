"""The demo as users run it: real processes, Spark, local files and S3 servers. On local files a producer and the driver are killed; on S3
nothing is, which halves the time.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import Result

import penstock
from examples.demo import steps
from examples.demo.__main__ import main
from examples.demo.checks.fresh import Times
from examples.demo.outcome import DriverCrash
from examples.demo.processes.reports import DriverTask
from examples.demo.processes.syncing import Turns
from examples.demo.run import _undisturbed
from penstock.log.errors import MissingDependency, TopicNotFound
from penstock.spark.java import find_java
from tests.demo.shop import before, last_update, lines, write_capture, write_dumps
from tests.demo.test_check import apply
from tests.lakes import TIMEOUT_S
from tests.runner import cli_runner
from tests.servers import moto_server, versitygw_server
from tests.tree import ROOT
from tests.waiting import wait_until

RUN_S = 900.0
"""On a machine that is busy with other things: two starts of Spark, and some thirty commits."""
SENDING_S = 40.0
"""So long the producers of a demo with a rate send."""
PROGRAM = "import sys; from examples.demo.__main__ import main; main(sys.argv[1:])"


@pytest.fixture
def java() -> None:
    try:
        find_java()
    except MissingDependency as missing:
        pytest.skip(str(missing))


def capture(folder: Path, stream: Sequence[bytes] | None = None) -> list[str]:
    """The options that name the small capture, or another stream with the dumps of that one."""
    events, expect = write_capture(folder, stream or lines()), write_dumps(folder / "dumps", lines())
    return ["--events", str(events), "--expect", str(expect)]


def run(arguments: list[str], environment: dict[str, str] | None = None, *, here: Path | None = None) -> dict[str, Any]:
    """Run to a good end; the JSON document."""
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PROGRAM, "demo", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        cwd=here,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def assert_faithful(found: dict[str, Any]) -> None:
    assert found["equal"]
    assert (found["events"], found["findings"]["stream"]["found"]) == (len(lines()), len(lines()))
    assert [table["table"] for table in found["findings"]["tables"]] == ["customers", "order_items", "orders"]
    assert (found["freshness"]["events"], found["freshness"]["waiting"]) == (len(lines()), 0)
    assert 0 < found["freshness"]["p50_ms"] <= found["freshness"]["p99_ms"]
    assert found["requests"]["put"]["requests"] > 8
    assert found["cost_usd"] > 0


def assert_killed(found: dict[str, Any]) -> None:
    crash = found["crash"]
    assert crash["events"] >= 1
    assert crash["durable"] == crash["acknowledged"] + crash["events"]
    assert 0 < crash["durable"] < found["events"]
    assert found["driver_crash"]["batches"] >= 1
    assert found["driver_crash"]["killed_ms"] < found["driver_crash"]["returned_ms"]
    # Those of the first batch did not wait for the driver that came back.
    assert 0 < found["freshness_undisturbed"]["events"] <= len(lines())


def test_an_event_that_waited_for_the_driver_that_came_back_is_disturbed() -> None:
    crash = DriverCrash(target="a", batches=1, killed_ms=100, returned_ms=200)
    # Visible before; appended before and visible after; appended meanwhile, and not visible yet; appended after.
    times = Times(stored_ms=np.array([10, 20, 150, 210]), visible_ms=np.array([90, 230, -1, 260]))
    assert _undisturbed(times, None).events == 3
    assert (_undisturbed(times, crash).events, _undisturbed(times, crash).max_ms) == (2, 80)


def assert_nothing_killed(found: dict[str, Any]) -> None:
    assert (found["crash"], found["driver_crash"]) == (None, None)
    assert found["freshness_undisturbed"] == found["freshness"]


@pytest.mark.spark
@pytest.mark.timeout(2 * RUN_S)
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_on_local_files(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    # The lake that the environment names is for daily use.
    found = run(capture(tmp_path), {"PENSTOCK_LAKE": str(tmp_path / "daily")}, here=here)
    assert_faithful(found)
    assert_killed(found)
    described = cli_runner().invoke(main, ["group", "describe", "sync-shop", "--lake", str(here / "penstock-demo"), "--json"])
    assert described.exit_code == 0, described.output
    assert [path.name for path in here.iterdir()] == ["penstock-demo"]
    assert not (tmp_path / "daily").exists()


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.timeout(2 * RUN_S)
@pytest.mark.s3
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_on_moto_by_its_url(tmp_path: Path) -> None:
    with moto_server() as server:
        secrets = {name: value for name, value in server.environment.items() if "ENDPOINT" not in name}
        found = run(["--lake", server.url("demo"), "--no-crashes", *capture(tmp_path)], secrets)
    assert_faithful(found)
    assert_nothing_killed(found)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.timeout(2 * RUN_S)
@pytest.mark.s3
@pytest.mark.versitygw
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_on_versitygw_by_the_environment(tmp_path: Path) -> None:
    with versitygw_server(tmp_path / "server") as server:
        found = run(["--lake", f"s3://{server.bucket}/demo", "--no-crashes", *capture(tmp_path)], server.environment)
    assert_faithful(found)
    assert_nothing_killed(found)


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.timeout(2 * RUN_S)
@pytest.mark.processes
@pytest.mark.usefixtures("java")
def test_its_topic_grows_twice_under_it_and_only_the_figures_say_so(tmp_path: Path) -> None:
    """By the command, while producers send, one of them is killed, and the driver applies what they sent."""
    lake, count = str(tmp_path / "lake"), len(lines())
    sent_at_growth: list[int] = []

    def sent() -> int:
        if not Path(lake).exists():
            return 0
        with penstock.connect(lake, read_only=True) as connected, suppress(TopicNotFound):
            return sum(following for _, following in connected.reader("shop").offsets().values())
        return 0

    def is_sent(count: int) -> bool:
        return sent() >= count

    def grow() -> None:
        for queues, least in ((32, count // 8), (64, count // 2)):
            wait_until(partial(is_sent, least), f"{least} events are sent", timeout_s=RUN_S)
            altered = cli_runner().invoke(main, ["topic", "alter", "shop", "--queues", str(queues), "--lake", lake])
            assert altered.exit_code == 0, altered.output
            sent_at_growth.append(sent())

    with ThreadPoolExecutor(1) as pool:
        growing = pool.submit(grow)
        found = run(["--lake", lake, "--rate", f"{count / SENDING_S:.0f}", *capture(tmp_path)])
        growing.result()
    assert_faithful(found)
    assert_killed(found)
    assert max(sent_at_growth) < count, "it grew while events were sent"
    with penstock.connect(lake, read_only=True) as connected:
        used = [queue for queue, (_, following) in connected.reader("shop").offsets().items() if following]
    assert max(used) >= 32, "queues of the last growth have events"


# --- Without Spark: the tables are filled by plain Python -----------------------------------------------------------------------


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill(task: DriverTask, turns: Turns, **_: object) -> None:
        turns.syncing.set()
        await turns.all_sent.wait()
        with penstock.connect(task.lake, read_only=True) as lake:
            apply(lake.reader(task.topic).messages(), task.into)

    monkeypatch.setattr(steps, "run_driver", fill)
    monkeypatch.setattr(steps, "check_installed", lambda **_: None)


def demo(folder: Path, stream: Sequence[bytes], *options: str) -> Result:
    return cli_runner().invoke(main, ["demo", "--lake", str(folder / "lake"), *capture(folder, stream), *options])


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.usefixtures("plain_python")
def test_it_ends_with_1_when_an_event_was_dropped_and_says_what_differs(tmp_path: Path) -> None:
    at = last_update(lines())
    result = demo(tmp_path, [*lines()[:at], *lines()[at + 1 :]])
    assert result.exit_code == 1, result.output
    assert "The lake differs from the source." in result.stdout
    assert "is killed (SIGKILL)" in result.stdout
    assert "should be" in result.stdout


@pytest.mark.processes
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("tampering", ["doubled", "swapped"])
def test_a_capture_out_of_its_source_s_order_is_refused_and_named(tampering: str, tmp_path: Path) -> None:
    stream, at = list(lines()), last_update(lines())
    if tampering == "doubled":
        stream.insert(at, stream[at])
    else:
        earlier = before(stream, at)
        stream[earlier], stream[at] = stream[at], stream[earlier]
    result = demo(tmp_path, stream)
    assert result.exit_code == 1
    assert "not in the order of the source's log" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.usefixtures("plain_python")
def test_every_run_takes_a_topic_of_its_own_one_producer_is_enough_and_what_it_says_to_try_next_can_be_tried(
    tmp_path: Path,
) -> None:
    result = demo(tmp_path, lines())
    assert result.exit_code == 0, result.output
    with penstock.connect(str(tmp_path / "lake"), read_only=True) as lake:
        assert {"shop"} == {topic for topic in lake.topics() if topic.startswith("shop")}
    second = demo(tmp_path, lines(), "--producers", "1", "--json")
    assert second.exit_code == 0, second.output
    assert json.loads(second.stdout)["topic"] == "shop-2"
    said = [
        shlex.split(line.partition("  # ")[0]) for line in result.stdout.splitlines() if line.startswith(("  penstock ", "  make "))
    ]
    commands = [words for program, *words in said if program == "penstock"]
    assert len(commands) == 4
    (again,) = [words for program, *words in said if program == "make"]
    (check,) = re.findall(r"^demo ARGS=(.*)$", " ".join(again))
    assert cli_runner().invoke(main, ["demo", *shlex.split(check)]).exit_code == 0
    for command in commands:
        if command[:2] == ["group", "describe"]:
            continue  # of the sync, which did not run here
        assert cli_runner().invoke(main, command).exit_code == 0, command


HELD = """
from examples.demo import steps
from examples.demo.processes.child import Child

stuck = set()

async def fill(task, turns, **more):
    turns.syncing.set()
    await turns.all_sent.wait()

steps.run_driver = fill  # the driver's process is a `Child` as the producers are, and takes Spark's start

def say(self, line, say=Child.say):
    if line == "send" and self._name in stuck:
        return  # the one that came back waits for this word, and the demo for it
    if line == "stick":
        stuck.add(self._name)
    say(self, line)

Child.say = say
"""


@contextmanager
def producing(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """The demo, and its producers, as soon as one has been killed and is coming back. It does not end by itself."""
    arguments = [sys.executable, "-c", HELD + PROGRAM, "demo", "--lake", str(folder / "lake"), *capture(folder)]
    with subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            assert running.stdout is not None
            assert any("is killed" in line for line in running.stdout)
            yield running, wait_until(psutil.Process(running.pid).children, "the return of the killed one")
        finally:
            running.kill()


@pytest.mark.thorough
@pytest.mark.processes
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough),
        (signal.SIGKILL, -9),
    ],
)
def test_its_producers_end_with_it(number: signal.Signals, exit_code: int, tmp_path: Path) -> None:
    with producing(tmp_path) as (running, producers):
        running.send_signal(number)
        assert running.wait(TIMEOUT_S) == exit_code
        assert running.stderr is not None
        assert "Traceback" not in running.stderr.read()
    wait_until(lambda: not any(producer.is_running() for producer in producers), "the producers' end")
