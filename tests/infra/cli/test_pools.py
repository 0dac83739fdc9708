"""`penstock consume --processes`: real workers, killed, told to end and left alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from penstock import Message, connect
from tests import waiting
from tests.infra.cli.conftest import Penstock
from tests.lakes import send_all
from tests.servers import free_port

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

PATIENCE_S = 300.0
"""For a machine that is busy with other things: each test starts several processes."""
T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str) -> T:
    """The first true value of ``condition``."""
    return waiting.wait_until(condition, what, timeout_s=PATIENCE_S)


PROGRAM = "from penstock.infra.cli import main; main(prog_name='penstock')"

HANDLERS = """
import os, pathlib, signal, threading
from penstock import ConsumeResult

HERE = pathlib.Path(__file__).parent
NUMBER = os.environ.get("PENSTOCK_WORKER")
WRITING = threading.Lock()


def note(text):
    with WRITING, open(HERE / "journal", "a") as journal:
        journal.write(f"{NUMBER} {os.getpid()} {text}\\n")


def listen(message):
    note(message.json()["n"])
    return ConsumeResult.SUCCESS


def hold(message):
    note(message.json()["n"])
    while not (HERE / "go").exists():
        threading.Event().wait(0.02)
    note("held")
    return ConsumeResult.SUCCESS
"""


@dataclass
class Started:
    """A parent, whose log can be read as it goes on."""

    process: subprocess.Popen[bytes]
    journal: Path
    errors: Path

    def noted(self) -> list[list[str]]:
        """What handlers wrote: worker, process, text."""
        return [line.split() for line in self.journal.read_text().splitlines()] if self.journal.exists() else []

    def texts(self) -> list[str]:
        return [text for _, _, text in self.noted()]

    def handled(self) -> int:
        """The messages whose handlers ended; none was left alone."""
        assert self.texts().count("held") * 2 == len(self.texts())
        return self.texts().count("held")

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.errors.read_text().splitlines() if line.startswith("{") and line.endswith("}")]

    def until_logged(self, message: str, count: int = 1) -> list[dict[str, Any]]:
        def found() -> list[dict[str, Any]]:
            lines = [one for one in self.log() if message in one.get("message", "")]
            return lines if len(lines) >= count else []

        return wait_until(found, f"{count} lines with {message!r}")

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()


Start = Callable[..., Started]


@pytest.fixture
def start(lake: Path, tmp_path: Path) -> Iterator[Start]:
    """Start `penstock` with arguments, in a folder with the handlers."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    started: list[Started] = []

    def call(*args: str) -> Started:
        errors = tmp_path / f"errors-{len(started)}"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *args, "--log-format", "json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=tmp_path,
                env={**os.environ, "PENSTOCK_LAKE": str(lake)},
            )
        started.append(Started(process, tmp_path / "journal", errors))
        return started[-1]

    yield call
    for one in started:
        workers = one.workers() if one.process.poll() is None else []
        one.process.kill()
        one.process.wait()
        for worker in workers:
            worker.kill()


@pytest.fixture
def sent(lake: Path) -> Path:
    """A topic with nine messages of three message groups."""
    with connect(lake) as opened:
        opened.create_topic("orders", message_type="FIFO", queues=4)
        send_all(opened, [Message.json({"n": n}, message_group=f"g{n % 3}") for n in range(9)])
    return lake


def settled(lake: Path) -> int:
    with connect(lake, read_only=True) as opened:
        return sum(one.committed_offset or 0 for one in opened.describe_group("g").queues)


def consume(*args: str) -> tuple[str, ...]:
    return ("consume", "orders", "--group", "g", "--processes", "2", *args)


def test_a_pool_works_tells_its_metrics_at_one_port_and_ends_in_order(start: Start, sent: Path) -> None:
    pool = start(*consume("--call", "handlers:listen", "--metrics-port", "0"))
    pool.until_logged("works", 2)
    wait_until(lambda: settled(sent) == 9, "all messages are settled")
    assert {worker for worker, _, _ in pool.noted()} <= {"1", "2"}
    (port,) = {line["port"] for line in pool.until_logged("metrics are served")}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        shown = answer.read().decode().splitlines()
    for worker in (1, 2):
        assert f'rocketmq_consumer_connections{{consumer_group="g",worker="{worker}"}} 1.0' in shown
    assert 'penstock_pool_workers_ready{worker="parent"} 2.0' in shown
    assert len([line for line in shown if line.startswith("# TYPE process_resident_memory_bytes ")]) == 1
    pool.process.send_signal(signal.SIGTERM)
    assert pool.process.wait(PATIENCE_S) == 143
    assert not [line for line in pool.log() if line["level"] == "error"]


def test_workers_of_a_killed_parent_let_their_handlers_end_and_leave(start: Start, sent: Path, tmp_path: Path) -> None:
    pool = start(*consume("--call", "handlers:hold"))
    pool.until_logged("works", 2)
    wait_until(pool.noted, "a handler runs")
    workers = pool.workers()
    pool.process.kill()
    pool.until_logged("running handlers")
    (tmp_path / "go").touch()
    psutil.wait_procs(workers, timeout=PATIENCE_S)
    assert settled(sent) == pool.handled() > 0


def test_a_second_signal_does_not_wait_for_handlers(start: Start, sent: Path) -> None:
    pool = start(*consume("--call", "handlers:hold"))
    pool.until_logged("works", 2)
    wait_until(pool.noted, "a handler runs")
    pool.process.send_signal(signal.SIGTERM)
    pool.until_logged("running handlers")
    workers = pool.workers()
    assert pool.process.poll() is None, "it waits for its workers"
    pool.process.send_signal(signal.SIGINT)
    assert pool.process.wait(PATIENCE_S) == 130
    assert not [one for one in workers if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert settled(sent) == 0


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal to a process waits to be delivered."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["ShdPnd"], 16) >> number - 1 & 1)


@pytest.mark.thorough
def test_signals_to_parent_and_workers_together_are_one(start: Start, sent: Path, tmp_path: Path) -> None:
    """As systemd tells all processes of a service to end."""
    pool = start(*consume("--call", "handlers:hold"))
    pool.until_logged("works", 2)
    wait_until(pool.noted, "a handler runs")
    workers = pool.workers()
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    pool.process.send_signal(signal.SIGTERM)
    # A worker whose lease was lost on a busy machine stays in the group's record, so that tells nothing.
    wait_until(lambda: not any(is_pending(one.pid, signal.SIGTERM) for one in (*workers, pool.process)), "the signals arrive")
    (tmp_path / "go").touch()
    assert pool.process.wait(PATIENCE_S) == 143
    assert settled(sent) == pool.handled() > 0


@pytest.mark.thorough
def test_a_pool_that_is_idle_ends(start: Start, sent: Path) -> None:
    pool = start(*consume("--exec", "cat > /dev/null", "--until-idle", "0.5s"))
    assert pool.process.wait(PATIENCE_S) == 0
    assert settled(sent) == 9


APP = """
import penstock, handlers

app = penstock.App()


@app.listener("orders", group="g")
def listen(message):
    handlers.note("VERSION")
    return penstock.ConsumeResult.SUCCESS


def setup():
    handlers.note("setup")


async def teardown():
    handlers.note("teardown")
"""
LIFE = ("--setup", "app:setup", "--teardown", "app:teardown")


def send_one(lake: Path) -> None:
    with connect(lake) as opened:
        send_all(opened, [Message.json({"n": 9}, message_group="g")])


def test_a_pool_that_reloads_runs_what_was_written_last_and_outlives_what_is_broken(
    start: Start, sent: Path, tmp_path: Path
) -> None:
    program = tmp_path / "app.py"
    program.write_text(APP.replace("VERSION", "first"))
    pool = start("run", "app:app", "--processes", "2", "--reload", *LIFE)
    wait_until(lambda: pool.texts().count("first") == 9, "the first program has handled all")
    pool.until_logged("works", 2)
    program.write_text("import nothing_of_this_name")
    pool.until_logged("the next change of a file starts it again")
    wait_until(lambda: pool.texts().count("teardown") == 2, "both workers of the first program have ended")
    program.write_text(APP.replace("VERSION", "second"))
    pool.until_logged("works", 4)
    send_one(sent)
    wait_until(lambda: "second" in pool.texts(), "the second program has handled one")
    pool.process.send_signal(signal.SIGTERM)
    assert pool.process.wait(PATIENCE_S) == 143
    assert (pool.texts().count("setup"), pool.texts().count("teardown")) == (4, 4)
    assert "No module named 'nothing_of_this_name' (app.py, line 1)" in pool.errors.read_text()


@pytest.mark.thorough
def test_sighup_replaces_the_workers_of_a_service(start: Start, sent: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.replace("VERSION", "first"))
    pool = start("run", "app:app", "--processes", "2")
    pool.until_logged("works", 2)
    before = {one.pid for one in pool.workers()}
    pool.process.send_signal(signal.SIGHUP)
    pool.until_logged("works", 4)
    assert before.isdisjoint(one.pid for one in pool.workers())
    pool.process.send_signal(signal.SIGINT)
    assert pool.process.wait(PATIENCE_S) == 130


def free_in_a_row(count: int) -> int:
    """The first of so many free ports."""
    while True:
        first = free_port()
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except (OSError, OverflowError):
                continue
            return first


@pytest.mark.thorough
def test_processes_of_a_gateway_share_a_port_and_each_has_one_behind_it(start: Start, sent: Path) -> None:
    first = free_in_a_row(3)
    pool = start("gateway", "kafka", "--processes", "2", "--port", str(first), "--metrics-port", "0")
    pool.until_logged("works", 2)
    for port in range(first, first + 3):
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S).close()
    (said,) = pool.until_logged("metrics are served")
    with urllib.request.urlopen(f"http://127.0.0.1:{said['port']}/metrics", timeout=PATIENCE_S) as answer:
        shown = answer.read().decode().splitlines()
    assert {f'penstock_kafka_gateway_up{{worker="{worker}"}} 1.0' for worker in (1, 2)} <= set(shown)
    pool.process.send_signal(signal.SIGTERM)
    assert pool.process.wait(PATIENCE_S) == 143
    assert not [line for line in pool.log() if line["level"] == "error"]


def test_a_wrong_function_is_told_once_before_any_work(start: Start, sent: Path) -> None:
    pool = start(*consume("--call", "handlers:absent"))
    assert pool.process.wait(PATIENCE_S) == 2
    assert pool.errors.read_text().count("'handlers:absent' is no function") == 1
    with connect(sent, read_only=True) as opened:
        assert "g" not in opened.groups()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--processes needs --exec or --call"),
        (["--exec", "true", "--max", "3"], "--max counts the messages of one process"),
    ],
)
def test_wrong_calls_of_a_pool(penstock: Penstock, args: list[str], said: str) -> None:
    assert said in " ".join(penstock(*consume(*args), code=2).err.split())
