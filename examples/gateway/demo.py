"""RocketMQ's own SDKs on a folder: a Java producer, a Python worker, and two gateways, of which one is killed in mid-stream.

A shop in Java sends real orders (examples/gateway/Shop.java), each a message group. A worker with RocketMQ's SDK for Python
(sdk_worker.py) and one of Penstock's own (native_worker.py) share a consumer group. Once half is sent, the gateway that the topic's
clients are sent to is killed. In the end the log and all that the workers did are compared with what was sent.

    make demo-gateway ARGS="--orders 1000 --lake ./lake"

It exits with 1 if anything is lost, out of order or a dead letter.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import grpc

import penstock
from examples.demo import shipped
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb

HERE = Path(__file__).parent
SDKS = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "sdks"
PENSTOCK = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
THREADS = 32
ORDERS_MIN = 25
PATIENCE_S = 240.0
"""How long to wait for whatever should come, on a machine that is busy with other things."""
QUIET_S, GOODBYE_S = 3.0, 10.0


class DemoFailedError(Exception):
    """The demo could not go on; its text says why."""


@dataclass(frozen=True)
class Order:
    """A change of an order, as the shop sends it."""

    number: int
    group: str
    tag: str
    body: str

    @property
    def line(self) -> str:
        """As the shop reads it."""
        return f"{self.number}\t{self.group}\t{self.tag}\t{self.body}\n"


@dataclass(frozen=True)
class Done:
    """A message that a worker has handled, by a clock that all processes share."""

    worker: str
    number: int
    began_ns: int
    ended_ns: int


@dataclass
class Told:
    """What the processes told so far, each line as it came."""

    sent: dict[int, int] = field(default_factory=dict)
    """When each number was acknowledged to the shop."""
    done: list[Done] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, enough: Callable[[], bool], seconds: float) -> bool:
        """Wait for something to become true. Returns whether it did."""
        with self.changed:
            return self.changed.wait_for(enough, seconds)

    def handled(self) -> int:
        return len({one.number for one in self.done})


class Child:
    """A process, whose lines go to a function and whose log to a file. It is killed when the demo ends."""

    def __init__(self, name: str, command: list[str], folder: Path, *, hear: Callable[[str], None] | None = None) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        environment = {**os.environ, "HOME": str(folder), "PYTHONWARNINGS": "ignore"}
        pipe = subprocess.PIPE
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=log, env=environment, text=True, start_new_session=True
            )
        if hear is not None:
            threading.Thread(target=self._hear, args=(hear,), daemon=True).start()

    def _hear(self, hear: Callable[[str], None]) -> None:
        for line in self.output:
            hear(line)

    @property
    def output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def input(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    def said(self, words: str) -> bool:
        return words in self.log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Let it say goodbye, as a gateway does that ends in order: the next run's clients are not sent to it."""
        self.process.terminate()
        try:
            self.process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            self.kill()


def real_orders(count: int) -> Iterator[Order]:
    """The changes of so many orders and of their items, as a real shop's database told them; an order is a message group."""
    orders: set[str] = set()
    numbers = itertools.count()
    with gzip.open(shipped.events_file()) as lines:
        for line in lines:
            event = json.loads(line)
            change, table = event["value"], event["topic"].rpartition(".")[2]
            row = change["after"] or change["before"]
            if table not in ("orders", "order_items"):
                continue
            order = f"order-{row['order_id']}"
            if order not in orders and len(orders) == count:
                continue
            orders.add(order)
            yield Order(next(numbers), order, table, json.dumps({"op": change["op"], **row}, ensure_ascii=False))


def found_sdks() -> tuple[Path, Path]:
    """The folders of RocketMQ's SDKs for Java and Python."""
    there = {language: sorted(SDKS.glob(f"{language}-*")) for language in ("java", "python")}
    missing = [language for language, folders in there.items() if not folders]
    if missing or shutil.which("java") is None:
        raise DemoFailedError(
            f"RocketMQ's SDK is not there for {' and '.join(missing) or 'want of a java on the PATH'}. `make sdks` fetches them where Maven, "
            f"a JDK (not a JRE) and a network are: Debian and Ubuntu call them maven and openjdk-17-jdk-headless"
        )
    return there["java"][-1], there["python"][-1]


class Demo:
    """The processes of a run, and what is said of them."""

    def __init__(self, lake_url: str, orders: list[Order], folder: Path, stack: ExitStack) -> None:
        self.java, self.python = found_sdks()
        self.lake_url, self.orders, self.folder, self.stack = lake_url, orders, folder, stack
        self.lake = stack.enter_context(penstock.connect(lake_url))
        taken = self.lake.topics()
        self.name = next(one for n in itertools.count(1) if (one := "orders" if n == 1 else f"orders-{n}") not in taken)
        self.lake.create_topic(self.name, message_type="FIFO", queues=16)
        self.lake.create_group(self.name, delivery_order="ORDERLY")
        self.told, self.killed = Told(), threading.Event()
        self.started_s = time.monotonic()

    def say(self, mark: str, text: str) -> None:
        print(f"{mark} {time.monotonic() - self.started_s:5.1f} s  {text}", flush=True)

    def child(self, name: str, command: list[str], hear: Callable[[str], None] | None = None) -> Child:
        child = Child(name, command, self.folder, hear=hear)
        self.stack.callback(child.end)
        return child

    def awaited(self, child: Child, words: str) -> None:
        """Wait until a process has said that it is ready."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not child.said(words):
            if child.process.poll() is not None or time.monotonic() > deadline_s:
                raise DemoFailedError(f"{child.name} did not start: {child.log.read_text(errors='replace')[-1000:]}")
            time.sleep(0.05)

    # --- The processes ----------------------------------------------------------------------------------------------------------

    def gateways(self) -> dict[str, Child]:
        """Two gateways, by where they listen."""
        started = [
            self.child(f"gateway-{n}", [*PENSTOCK, "--lake", self.lake_url, "--json", "gateway", "rocketmq", "--port", "0"])
            for n in (1, 2)
        ]
        served = {}
        for gateway in started:
            line = gateway.output.readline()
            if not line:
                raise DemoFailedError(f"{gateway.name} did not start: {gateway.log.read_text(errors='replace')[-1000:]}")
            place = json.loads(line)
            served[f"{place['host']}:{place['port']}"] = gateway
        return served

    def shop(self, endpoints: str) -> Child:
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", f"-Duser.home={self.folder}"]
        words = [endpoints, self.name, str(THREADS)]
        shop = self.child("shop", ["java", *flags, "-cp", f"{self.java}/*", str(HERE / "Shop.java"), *words], self._sent)
        threading.Thread(target=self._feed, args=(shop,), daemon=True).start()
        return shop

    def _feed(self, shop: Child) -> None:
        """Give the shop its orders; the last quarter once the gateway is dead, so that the kill is in mid-stream on any machine."""
        try:
            for one in self.orders:
                if one.number == len(self.orders) * 3 // 4:
                    shop.input.flush()
                    self.killed.wait()
                shop.input.write(one.line)
            shop.input.close()
        except BrokenPipeError:  # it ended, which `awaited` or the end of the run tells
            return

    def _sent(self, line: str) -> None:
        with self.told.changed:
            self.told.sent[int(line)] = time.monotonic_ns()
            self.told.changed.notify_all()

    def workers(self, endpoints: str) -> list[Child]:
        # -S: the SDK's own versions of gRPC and protobuf, not those of this environment.
        python = ["env", f"PYTHONPATH={self.python}", sys.executable, "-S"]
        by_sdk = [*python, str(HERE / "sdk_worker.py"), endpoints, self.name, self.name]
        native = [sys.executable, str(HERE / "native_worker.py"), self.lake_url, self.name, self.name]
        return [
            self.child("sdk_worker", by_sdk, lambda line: self._done("sdk", line)),
            self.child("native_worker", native, lambda line: self._done("native", line)),
        ]

    def _done(self, worker: str, line: str) -> None:
        with self.told.changed:
            self.told.done.append(Done(worker, *map(int, line.split())))
            self.told.changed.notify_all()

    # --- The story --------------------------------------------------------------------------------------------------------------

    def serving(self, served: dict[str, Child]) -> str:
        """The gateway that clients of the topic are sent to. One that a run before this killed is named until it counts as dead."""
        deadline_s, told = time.monotonic() + PATIENCE_S, False
        while True:
            named = self.route(next(iter(served)))
            if served.keys() >= set(named):
                return named[0]
            if time.monotonic() > deadline_s:
                raise DemoFailedError(f"clients are sent to {' and '.join(named)}, and not to {' and '.join(served)}")
            if not told:
                self.say(" ", "a gateway that the run before this one killed is still listed: it counts as dead after 35 s")
            told = True
            time.sleep(1)

    def shared(self) -> None:
        """Wait until queues are a gateway's, too: a worker that has all of them would leave nothing to the one that comes through a gateway."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len({one.owner for one in self.lake.describe_group(self.name).queues} - {""}) < 2:
            if time.monotonic() > deadline_s:
                raise DemoFailedError("the two workers do not share the group's queues")
            time.sleep(0.2)

    def route(self, endpoints: str) -> list[str]:
        """The gateways that clients of the topic are told, the first one first."""
        request = pb.QueryRouteRequest(topic=pb.Resource(name=self.name), endpoints=pb.Endpoints())
        with grpc.insecure_channel(endpoints) as channel:
            ask: Any = channel.unary_unary("/apache.rocketmq.v2.MessagingService/QueryRoute")
            answer = ask(request.SerializeToString(), metadata=(("x-mq-client-id", "demo"),), timeout=PATIENCE_S)
        broker = pb.QueryRouteResponse.FromString(answer).message_queues[0].broker
        return [f"{one.host}:{one.port}" for one in broker.endpoints.addresses]

    def run(self) -> bool:
        """The whole story. Returns whether all is as it should be."""
        served = self.gateways()
        endpoints = ";".join(served)
        groups = len({one.group for one in self.orders})
        self.say("✓", f"two gateways serve the folder {self.lake_url}, at {' and '.join(served)}; no broker runs anywhere")
        victim = self.serving(served)
        workers = self.workers(endpoints)
        for worker in workers:
            self.awaited(worker, "at work")
        self.shared()
        self.say("✓", "two workers share a consumer group: one with RocketMQ's SDK for Python, one of Penstock's own")
        shop = self.shop(endpoints)
        self.awaited(shop, "the shop is open")
        self.say(
            "✓",
            f"a shop in Java, with RocketMQ's SDK, sends {len(self.orders):,} changes of {groups:,} orders: a message group each",
        )

        told, half = self.told, len(self.orders) // 2
        self._watch(lambda: len(told.sent) >= half and any(one.worker == "sdk" for one in told.done), shop)
        served[victim].kill()
        killed_ns, sent = time.monotonic_ns(), len(told.sent)
        self.killed.set()
        self.say("✗", f"the gateway at {victim}, which serves the topic, is killed: {sent:,} sent, {told.handled():,} handled")
        # Of each thread one send may have been answered before.
        if not told.wait(lambda: len(told.sent) > sent + THREADS, PATIENCE_S):
            raise DemoFailedError("nothing more was sent after the gateway was killed")
        went_on_s = (sorted(told.sent.values())[sent + THREADS] - killed_ns) / 1e9
        self.say("✓", f"the shop goes on at the other gateway, {went_on_s:.1f} s later")
        self._watch(lambda: len(told.sent) == len(self.orders), shop)
        self.say("✓", f"all {len(self.orders):,} are sent and acknowledged")
        if not told.wait(lambda: told.handled() == len(self.orders), QUIET_S):
            left = len(self.orders) - told.handled()
            self.say(" ", f"{left:,} are left: what the dead gateway gave out without an answer is visible again within a minute")
        self._watch(lambda: told.handled() == len(self.orders), *workers)
        by_sdk = sum(one.worker == "sdk" for one in told.done)
        self.say("✓", f"all are handled: {by_sdk:,} by RocketMQ's SDK, {len(told.done) - by_sdk:,} by Penstock's own worker")
        told.wait(lambda: False, QUIET_S)  # what comes once more, comes now
        return self.verdict()

    def _watch(self, enough: Callable[[], bool], *needed: Child) -> None:
        """Wait, and tell how far it is, as long as something moves."""
        moved, moved_s = 0, time.monotonic()
        while not self.told.wait(enough, QUIET_S):
            sent, handled = len(self.told.sent), self.told.handled()
            if any(one.process.poll() not in (None, 0) for one in needed):
                raise DemoFailedError("; ".join(f"{one.name}: {one.log.read_text(errors='replace')[-500:]}" for one in needed))
            if sent + handled > moved:
                self.say(" ", f"{sent:,} sent, {handled:,} handled")
                moved, moved_s = sent + handled, time.monotonic()
            elif time.monotonic() - moved_s > PATIENCE_S:
                raise DemoFailedError(f"nothing moves any more: {sent:,} sent, {handled:,} handled")

    def verdict(self) -> bool:
        """Compare the log, and what was handled, with what was sent."""
        with self.lake.reader(self.name) as reader:
            stored = [int(message.properties["number"]) for message in reader.messages()]
        described = self.lake.describe_group(self.name)
        letters = sum(queue.dead_letters for queue in described.queues) + (f"%DLQ%{self.name}" in self.lake.topics())
        group_of = {one.number: one.group for one in self.orders}
        first = {one.number: one for one in sorted(self.told.done, key=lambda one: -one.began_ns)}
        handled = [one.number for one in sorted(first.values(), key=lambda one: one.began_ns)]
        rows = (
            ("sent, but not in the log", len(self.told.sent.keys() - set(stored)), 0),
            ("sent, but never handled", len(self.told.sent.keys() - set(handled)), 0),
            ("orders whose messages are not in order in the log", len(out_of_order(stored, group_of)), 0),
            ("orders that were not handled in order", len(out_of_order(handled, group_of)), 0),
            ("messages that began before the one ahead in their order was done", overlapping(first, group_of), 0),
            ("dead letters", letters, 0),
            ("stored once more, as an answer was lost", len(stored) - len(set(stored)), None),
            ("handled once more, as an acknowledgement was lost", len(self.told.done) - len(first), None),
        )
        width = max(len(name) for name, _, _ in rows)
        print()
        for name, found, expected in rows:
            print(f"  {name:<{width}}  {found:>6,}" + ("" if found == expected or expected is None else "  ✗ none is right"))
        well = all(found == expected for _, found, expected in rows if expected is not None)
        print("\nNothing is lost, and every order is in order." if well else "\nThis is not as it should be.")
        return well


def out_of_order(numbers: list[int], group_of: dict[int, str]) -> set[str]:
    """The message groups of which some number comes first behind a later one."""
    last: dict[str, int] = defaultdict(lambda: -1)
    wrong, seen = set(), set()
    for number in numbers:
        if number in seen:  # once more: it counts where it came first
            continue
        seen.add(number)
        if number < last[group_of[number]]:
            wrong.add(group_of[number])
        last[group_of[number]] = max(number, last[group_of[number]])
    return wrong


def overlapping(first: dict[int, Done], group_of: dict[int, str]) -> int:
    """How many messages began before the one ahead of them in their message group had ended."""
    ended: dict[str, int] = {}
    found = 0
    for number in sorted(first):
        group = group_of[number]
        found += first[number].began_ns < ended.get(group, 0)
        ended[group] = first[number].ended_ns
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lake", default="penstock-demo", help="a folder, or another lake (default: penstock-demo)")
    parser.add_argument("--orders", type=int, default=300, help="how many orders the shop has (default: 300)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="only write the orders, as the shop reads them")
    given = parser.parse_args()
    if given.write is not None:
        given.write.write_text("".join(one.line for one in real_orders(given.orders)))
        return 0
    if given.orders < ORDERS_MIN:
        parser.error(f"--orders must be at least {ORDERS_MIN}: one of the gateways is killed in the middle")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logs = Path(tempfile.mkdtemp(prefix="penstock-demo-"))
    lake = given.lake if "://" in given.lake else str(Path(given.lake).resolve())
    try:
        with ExitStack() as stack:
            well = Demo(lake, list(real_orders(given.orders)), logs, stack).run()
    except DemoFailedError as failed:
        print(f"✗ {failed}. The processes' logs are in {logs}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; all processes are ended", file=sys.stderr)
        return 130
    if well:
        shutil.rmtree(logs)
    else:
        print(f"The processes' logs are in {logs}", file=sys.stderr)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
