"""Lakes: what opening, checking and closing one means, and what happens to what was made of it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.log.stores import CountingStore, MemoryStore
from tests.lakes import TIMEOUT_S, Gate, ReadOnlyCredentials, bodies, is_entry, keys, send_all
from tests.log.stores.test_probe import SecondCreateAccepted
from tests.log.topics import HandClock

Message = penstock.Message
LONG = timedelta(hours=1)


def filled() -> MemoryStore:
    store = MemoryStore()
    with penstock.connect(store=store) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"1"), Message(b"2")])
    return store


def reads(lake: penstock.Lake) -> None:
    """Everything that only reads."""
    assert bodies(lake) == [b"1", b"2"]
    assert list(lake.topics()) == ["orders"]
    assert lake.describe_topic("orders").messages == 2
    assert lake.reader("orders").lookup(key="none") == []


WRITES: dict[str, Callable[[penstock.Lake], object]] = {
    "create": lambda lake: lake.create_topic("other"),
    "alter": lambda lake: lake.alter_topic("orders", retention=None),
    "delete": lambda lake: lake.delete_topic("orders"),
    "producer": lambda lake: lake.producer("orders"),
    "named": lambda lake: lake.producer("orders", name="n"),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_lake_reads_and_refuses_to_write(write: str) -> None:
    store = filled()
    before = keys(store)
    with penstock.connect(store=store, read_only=True) as lake:
        reads(lake)
        with pytest.raises(penstock.ReadOnlyError, match="opened with read_only=True"):
            WRITES[write](lake)
    assert keys(store) == before


@pytest.mark.parametrize("write", WRITES)
def test_read_only_credentials_read_without_being_told(write: str) -> None:
    store = filled()
    with penstock.connect(store=ReadOnlyCredentials(store)) as lake:
        reads(lake)
        with pytest.raises(penstock.PermissionDenied, match="refused the credentials"):
            WRITES[write](lake)
        reads(lake)


@pytest.mark.parametrize("write", WRITES)
def test_a_store_without_conditional_writes_is_read_and_never_written(write: str) -> None:
    store = filled()
    before = keys(store)
    with penstock.connect(store=SecondCreateAccepted(store)) as lake:
        reads(lake)
        with pytest.raises(
            penstock.UnsafeStoreError, match=r"accepted a second create of the same key.*it would lose messages here"
        ):
            WRITES[write](lake)
    assert keys(store) == before


@pytest.mark.parametrize(("minutes", "shown"), [(6, "+6.0 minutes"), (-6, "-6.0 minutes")])
def test_a_clock_far_from_the_stores_forbids_writing_only(minutes: int, shown: str) -> None:
    store_clock, clock = HandClock(), HandClock()
    store = MemoryStore(clock=store_clock)
    with penstock.connect(store=store, runtime=runtime(store_clock)) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"1"), Message(b"2")])
    clock.advance(seconds=60 * minutes)
    with penstock.connect(store=store, runtime=runtime(clock)) as lake:
        reads(lake)
        for write in WRITES.values():
            with pytest.raises(penstock.ClockSkewError, match=r"too far from the store's.*within 5 minutes") as raised:
                write(lake)
            assert shown in str(raised.value)
            assert "NTP" in str(raised.value)
        clock.advance(seconds=-60 * minutes)
        assert send_all(lake, [Message(b"3")])[0].offset == 2, "once it is set, the same lake writes"


def test_a_clock_a_little_off_is_corrected() -> None:
    store_clock, clock = HandClock(), HandClock()
    clock.advance(seconds=-200)
    store = MemoryStore(clock=store_clock)
    with penstock.connect(store=store, runtime=runtime(clock)) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"1")])
        (found,) = lake.reader("orders").messages()
    assert found.store_timestamp.timestamp() * 1000 == store_clock.wall_ms()
    assert found.born_timestamp.timestamp() * 1000 == store_clock.wall_ms()


def runtime(clock: HandClock) -> Any:
    from penstock.log import Runtime

    return Runtime(clock=clock)


def test_opening_asks_nothing_and_the_check_is_made_once() -> None:
    store = CountingStore(MemoryStore())
    with penstock.connect(store=store) as lake:
        assert store.statistics().requests == 0
        lake.create_topic("orders")
        after = store.statistics()
        lake.create_topic("other")
        assert (store.statistics() - after).put.requests == 3, "no probe again: settings, first entry and table"


def test_a_closed_lake_says_so_whatever_is_asked() -> None:
    lake = penstock.connect(store=filled())
    producer, reader = lake.producer("orders"), lake.reader("orders")
    lake.close()
    lake.close()
    producer.close()
    reader.close()
    uses: list[Callable[[], object]] = [
        lake.topics,
        lambda: lake.reader("orders"),
        lambda: lake.describe_topic("orders"),
        lambda: list(reader.messages()),
        reader.offsets,
        lambda: producer.send(Message(b"x")),
        lambda: producer.send_batch([Message(b"x")]),
        producer.flush,
        *(lambda write=write: write(lake) for write in WRITES.values()),
    ]
    for use in uses:
        with pytest.raises(penstock.ClosedError, match="closed"):
            use()


def test_a_blocking_call_on_the_loops_own_thread_is_refused() -> None:
    """A callback of a receipt runs there, and a call that waited there would wait for itself."""
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        end: list[BaseException] = []

        async def call() -> None:
            try:
                lake.topics()
            except penstock.PenstockError as error:
                end.append(error)

        lake._portal.run(call)
        assert isinstance(end[0], penstock.InvalidArgument)
        assert "penstock.aio" in str(end[0])


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Loops, sockets, threads and files: an unclosed one warns when it is collected, and a warning fails this."""
    before = set(threading.enumerate())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for url in ("memory://", tmp_path / "lake"):
            use(url)
        gc.collect()
    left = {one for one in set(threading.enumerate()) - before if one.is_alive()}
    for one in left:
        one.join(TIMEOUT_S)
        assert not one.is_alive(), one.name


def use(url: str | Path) -> None:
    with penstock.connect(url) as lake:
        lake.create_topic("orders")
        send_all(lake, [Message(b"x")])
        next(lake.reader("orders").messages(follow=True))


# --- Processes: signals, exits and forks ----------------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading
from datetime import timedelta
import penstock
from penstock.log.stores import MemoryStore
from tests.lakes import Gate, is_entry

def play(where):
    gate = Gate(MemoryStore(), is_entry)
    lake = penstock.connect(store=gate)
    lake.create_topic("orders", queues=1)
    reader = lake.reader("orders")
    producer = lake.producer("orders", linger=timedelta(0), memory_bytes=5_000)
    gate.closed = where != "follow"
    if where in ("flush", "close", "receipt", "lake"):
        receipt = producer.send(penstock.Message(b"x"))

    def blocked():
        if where == "send":
            while True:
                producer.send(penstock.Message(b"x" * 1000))
        {"follow": lambda: list(reader.messages(follow=True)), "flush": producer.flush, "close": producer.close,
         "receipt": lambda: receipt.result(), "lake": lake.close}[where]()

    # The kernel gives SIGTERM to another thread now: so nothing interrupts what the main thread waits in.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        sys.stdout.write("ready\\n"); sys.stdout.flush()
        blocked()
    except KeyboardInterrupt:
        print("interrupted")
    except SystemExit as error:
        print(error)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # for the threads of the next lake
    gate.open()
    if where not in ("close", "lake"):
        producer.send(penstock.Message(b"after"))
        print("goes on", sum(1 for _ in reader.messages()) >= 0)
    lake.close()
    print("closed", flush=True)

signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
for where in sys.argv[1:]:
    play(where)
"""


AS_SEND = ("flush", "receipt", "close", "lake")
"""What waits as ``send`` does, of the event loop's thread."""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("number", "said", "waits"),
    [
        pytest.param(signal.SIGINT, "interrupted", ("send", "follow"), id="Ctrl-C"),
        pytest.param(signal.SIGINT, "interrupted", AS_SEND, id="Ctrl-C as send", marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, "terminated", ("send", "follow", *AS_SEND), id="SIGTERM"),
    ],
)
def test_ctrl_c_and_sigterm_end_the_wait_and_leave_the_lake_usable(
    number: signal.Signals, said: str, waits: tuple[str, ...]
) -> None:
    """One process waits in one call after the other."""
    command = [sys.executable, "-c", INTERRUPTED, *waits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        silence = threading.Timer(TIMEOUT_S, child.kill)
        silence.start()
        try:
            told: list[tuple[str, str, str]] = []
            for where in waits:
                assert child.stdout.readline() == "ready\n", (where, told, child.communicate()[1])
                # Whether it waits already cannot be seen from outside; a signal that comes earlier must do the same.
                os.kill(child.pid, number)
                lines = [child.stdout.readline()]
                while lines[-1] not in ("closed\n", ""):
                    lines.append(child.stdout.readline())
                told.append((where, lines[0], lines[-1]))
            out, errors = child.communicate(timeout=TIMEOUT_S)
        finally:
            silence.cancel()
            child.kill()
    assert told == [(where, f"{said}\n", "closed\n") for where in waits], errors
    assert (child.returncode, out) == (0, ""), errors
    assert "Traceback" not in errors


LEFT_OPEN = """
import penstock
lake = penstock.connect("memory://")
lake.create_topic("orders", queues=1)
producer = lake.producer("orders")
producer.send(penstock.Message(b"x")).result()
iterator = lake.reader("orders").messages(follow=True)
print(next(iterator).body)
"""


@pytest.mark.processes
def test_a_process_ends_though_everything_was_left_open() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "b'x'\n", "")


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` ends with in a forked child: the error's name and text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - measured in the parent only
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)  # a hang ends here, and is seen as silence
        try:
            try:
                said = f"returned {work()}"
            except BaseException as error:  # noqa: BLE001 - all of them are told
                said = f"{type(error).__name__}: {error}"
            os.write(writing, said.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_a_forked_child_is_told_to_connect_again_and_the_parent_goes_on(kind: str, tmp_path: Path) -> None:
    lake = penstock.connect("memory://" if kind == "memory" else tmp_path / "lake")
    lake.create_topic("orders", queues=1)
    producer, reader = lake.producer("orders", linger=LONG), lake.reader("orders")
    iterator = reader.messages(follow=True)
    receipt = producer.send(Message(b"1"))
    producer.flush()
    assert next(iterator).body == b"1"
    waiting = producer.send(Message(b"2"))
    uses: dict[str, Callable[[], object]] = {
        "send": lambda: producer.send(Message(b"child")),
        "batch": lambda: producer.send_batch([Message(b"child")]),
        "flush": producer.flush,
        "receipt": waiting.result,
        "close producer": producer.close,
        "read": lambda: list(reader.messages()),
        "next": lambda: next(iterator),
        "topics": lake.topics,
        "close": lake.close,
    }
    for name, use in uses.items():
        said = in_child(use)
        assert said.startswith("ForkedError: the process was forked after the lake was opened"), f"{name}: {said}"
        assert "connect again in the child" in said
    assert in_child(lambda: receipt.result().offset) == "returned 0", "what was known before is known"

    def again() -> int:
        if kind == "memory":
            return 1  # the child's memory is its own
        with penstock.connect(tmp_path / "lake") as own:
            return send_all(own, [Message(b"child")])[0].offset or 0

    assert in_child(again) == "returned 1"
    producer.flush()
    assert waiting.result(timeout=TIMEOUT_S).offset == (1 if kind == "memory" else 2)
    assert bodies(lake) == [b"1", *([b"child"] if kind == "local" else []), b"2"]
    lake.close()


def test_a_gate_holds_only_what_it_should() -> None:
    """The tool of the tests above."""
    gate = Gate(MemoryStore(), is_entry)
    with penstock.connect(store=gate) as lake:
        lake.create_topic("orders")
        gate.closed = True
        with lake.producer("orders", linger=timedelta(0)) as producer:
            receipt = producer.send(Message(b"x"))
            assert gate.held.wait(TIMEOUT_S)
            assert not receipt.done()
            gate.open()
            assert receipt.result(timeout=TIMEOUT_S).offset == 0
