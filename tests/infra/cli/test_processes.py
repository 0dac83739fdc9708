"""`penstock` as a process of its own: signals, pipes, start-up time."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock import Message, connect
from tests.consumers.heard import Heard
from tests.lakes import TIMEOUT_S, send_all
from tests.waiting import wait_until

pytestmark = pytest.mark.processes

START_S = 0.3
PROGRAM = "from penstock.infra.cli import main; main(prog_name='penstock')"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with connect(tmp_path / "lake") as opened:
        opened.create_topic("orders", queues=1)
    return tmp_path / "lake"


@pytest.fixture
def start(lake: Path) -> Iterator[Start]:
    """Start `penstock` with arguments, all three streams piped."""
    started: list[subprocess.Popen[bytes]] = []

    def call(*args: str, program: str = PROGRAM) -> subprocess.Popen[bytes]:
        pipe, environment = subprocess.PIPE, {**os.environ, "PENSTOCK_LAKE": str(lake)}
        command = [sys.executable, "-c", program, *args]
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with suppress(OSError):
                stream.close()


def stored(lake: Path) -> int:
    with connect(lake, read_only=True) as opened, opened.reader("orders") as reader:
        return sum(end - first for first, end in reader.offsets().values())


def feed(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_import_that_is_stopped_says_what_it_sent(start: Start, lake: Path, number: signal.Signals, code: int) -> None:
    process = start("produce", "orders", "--json")
    feed(process, b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    wait_until(lambda: stored(lake) == 3, "three messages stored")
    feed(process, b'{"n": 4')  # it is reading half a line
    process.send_signal(number)
    assert process.wait(TIMEOUT_S) == code
    assert process.stdout is not None
    assert process.stderr is not None
    summary = json.loads(process.stdout.read())
    assert (summary["sent"], summary["unknown"]) == (3, 0)
    assert process.stderr.read() == b""
    assert stored(lake) == 3


def test_tail_shows_what_comes_and_ends_quietly(start: Start, lake: Path) -> None:
    tail = start("tail", "orders", "--json", "--start", "earliest")
    producer = start("produce", "orders")
    producer.communicate(b'{"n": 1}\n', timeout=TIMEOUT_S)
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["body"] == '{"n": 1}'
    tail.send_signal(signal.SIGTERM)
    out, err = tail.communicate(timeout=TIMEOUT_S)
    assert (tail.returncode, out, err) == (143, b"", b"")


def test_maintenance_publishes_and_ends_in_order(start: Start, lake: Path) -> None:
    start("produce", "orders").communicate(b'{"n": 1}\n', timeout=TIMEOUT_S)
    process = start("maintain", "--json")
    assert process.stdout is not None
    step = json.loads(process.stdout.readline())
    assert (step["step"], step["rows"]) == ("publish", 1)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=TIMEOUT_S)[1] == b""
    assert process.returncode == 143


def test_maintenance_says_at_once_what_it_maintains(start: Start, lake: Path) -> None:
    process = start("maintain", "--metrics-port", "0")
    assert process.stderr is not None
    said = process.stderr.readline().decode()
    assert re.match(rf"Maintaining all topics of {re.escape(str(lake))}; metrics at http://127\.0\.0\.1:\d+/metrics\. ", said), said
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143


def test_a_stray_folder_is_told_and_the_rest_maintained(start: Start, lake: Path) -> None:
    start("produce", "orders").communicate(b'{"n": 1}\n', timeout=TIMEOUT_S)
    (lake / "topics" / "old~backup").mkdir()
    (lake / "topics" / "old~backup" / "topic.json").write_text("{}")
    process = start("maintain", "--json")
    assert process.stdout is not None
    look, publish = (json.loads(process.stdout.readline()) for _ in range(2))
    assert (look["topic"], look["step"], look["error"]) == ("old~backup", "look", "foreign_object")
    assert (publish["topic"], publish["step"], publish["rows"]) == ("orders", "publish", 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143


EXPORT_HELD = """
import signal
from contextlib import contextmanager
from penstock.infra.cli import main
from penstock.infra.cli.messages import export

class Held:
    def __init__(self, file):
        self._file = file

    def write(self, data):
        self._file.write(data)
        self._file.flush()
        signal.pause()  # until it is told to end: it never ends by itself

@contextmanager
def open_file(url, mode, opened=export.open_file):
    with opened(url, mode) as file:
        yield Held(file)

export.open_file = open_file
main(prog_name="penstock")
"""


def test_an_export_that_is_stopped_leaves_the_file_that_was_there(start: Start, lake: Path, tmp_path: Path) -> None:
    produce(lake, 3)
    file = tmp_path / "out.jsonl"
    file.write_bytes(b"before")
    process = start("read", "orders", "-o", str(file), program=EXPORT_HELD)
    wait_until(lambda: any(path.stat().st_size for path in tmp_path.glob(".out.jsonl.*.part")), "the export has begun")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert file.read_bytes() == b"before"
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_error(
    start: Start, lake: Path, monkeypatch: pytest.MonkeyPatch, unbuffered: str
) -> None:
    """Also where Python writes without a buffer, and the pipe has taken a part of what is written."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    lines = b"".join(b'{"n": %d, "text": "%s"}\n' % (n, b"x" * 200) for n in range(2000))
    out, err = start("produce", "orders").communicate(lines, timeout=TIMEOUT_S)
    assert (out.startswith(b"2,000 messages"), err) == (True, b"")
    process = start("read", "orders", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(TIMEOUT_S) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""


def test_parquet_needs_a_file(start: Start) -> None:
    process = start("produce", "orders", "--format", "parquet")
    assert b"Parquet cannot be read from a pipe" in process.communicate(b"PAR1", timeout=TIMEOUT_S)[1]
    assert process.returncode == 2


def test_help_is_quick(start: Start) -> None:
    def cpu_s() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert start("--help").communicate(timeout=TIMEOUT_S)[0]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, which a busy machine does not lengthen as much.
    assert min(cpu_s() for _ in range(3)) < START_S


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("topic list > /dev/full", 1, "Standard output cannot be written: No space left on device."),
        ("topic list >&-", 1, "Standard output is closed"),
        ("produce orders <&-", 2, "standard input is closed"),
    ],
)
def test_standard_streams_that_are_full_or_closed_are_told(lake: Path, redirection: str, code: int, said: str) -> None:
    program = f"{sys.executable} -c 'from penstock.infra.cli import main; main()'"
    ended = subprocess.run(["bash", "-c", f"{program} --lake {lake} {redirection}"], capture_output=True, text=True, check=False)
    assert (ended.returncode, said in ended.stderr) == (code, True), ended
    assert "report it" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


# --- penstock consume ------------------------------------------------------------------------------------------------------------------


def read_json(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def produce(lake: Path, count: int) -> None:
    with connect(lake) as opened:
        send_all(opened, [Message.json({"n": n}) for n in range(count)])


def consumed_next(lake: Path) -> tuple[int, int]:
    """Offset and delivery attempt of the message that the group is given first now."""
    heard = Heard()
    with connect(lake) as opened, opened.push_consumer("orders", group="g", listener=heard):
        heard.until_done(1)
    return heard.begun[0].offset, heard.begun[0].delivery_attempt


def held(tmp_path: Path) -> str:
    """A command that says it has started, and ends when it may."""
    return f"echo $$ >> {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_worker_that_is_stopped_lets_its_command_end_acknowledges_and_starts_no_other(
    start: Start, lake: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    produce(lake, 3)
    worker = start("consume", "orders", "--group", "g", "--exec", held(tmp_path))
    wait_until((tmp_path / "begun").exists, "the command runs")
    worker.send_signal(number)
    with connect(lake, read_only=True) as opened:
        wait_until(lambda: not opened.describe_group("g").members, "the worker leaves")
        assert worker.poll() is None, "it waits for the command"
        (tmp_path / "go").touch()
        assert worker.wait(TIMEOUT_S) == code
        (queue,) = opened.describe_group("g").queues
    begun = len((tmp_path / "begun").read_text().split())
    assert (queue.committed_offset, queue.in_flight, queue.owner) == (begun, 0, "")


def runs(process: int) -> bool:
    """An orphan that was killed has ended, though it stays in the list until the system's first process looks."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_second_signal_does_not_wait_and_kills_the_command(start: Start, lake: Path, tmp_path: Path) -> None:
    produce(lake, 1)
    worker = start("consume", "orders", "--group", "g", "--exec", held(tmp_path))
    begun = tmp_path / "begun"
    wait_until(lambda: begun.exists() and begun.read_text().strip(), "the command runs")
    worker.send_signal(signal.SIGTERM)
    with connect(lake, read_only=True) as opened:
        wait_until(lambda: not opened.describe_group("g").members, "the worker leaves")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 143
    command = int(begun.read_text())
    wait_until(lambda: not runs(command), "the command has ended")
    assert consumed_next(lake) == (0, 2)


def test_what_could_not_be_printed_is_not_acknowledged_and_comes_again_as_new(start: Start, lake: Path) -> None:
    produce(lake, 1)
    worker = start("consume", "orders", "--group", "g", "--json")
    assert read_json(worker)["offset"] == 0
    assert worker.stdout is not None
    worker.stdout.close()
    produce(lake, 1)
    assert worker.wait(TIMEOUT_S) == 141
    assert consumed_next(lake) == (1, 1)


def test_a_worker_serves_its_metrics_and_logs_as_json(start: Start, lake: Path) -> None:
    produce(lake, 1)
    worker = start("consume", "orders", "--group", "g", "--json", "--metrics-port", "0", "--log-format", "json")
    assert worker.stderr is not None
    port = json.loads(worker.stderr.readline())["port"]
    assert read_json(worker)["offset"] == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
        shown = answer.read().decode()
    assert 'rocketmq_consumer_connections{consumer_group="g"} 1.0' in shown
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 143
