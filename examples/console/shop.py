"""A lively shop in a folder, and the console above it: orders, payments, mails, delays, failures of each kind, and a little traffic.

    make demo-console ARGS="--port 8086 --no-browser"

Three baskets stand parked behind a poison message, mails bounce into dead letters, a coupon service is down and its calls wait for their
retries. A report is far behind, an index has no worker, a transaction is open, reminders wait for their time. Ctrl-C ends all of it. With
``--once`` the shop is filled, every page is fetched and told in a line, and that is all.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from html import unescape
from itertools import count
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import penstock
from penstock import CheckedTransaction, ConsumeResult, Message, MessageView, RetryPolicy, TransactionResolution

PENSTOCK = [sys.executable, "-c", "from penstock.infra.cli import main; main(prog_name='penstock')"]
GOODS = {"espresso machine": 349, "coffee grinder": 129, "tea pot": 39, "milk jug": 19, "paper filters": 6, "kettle": 59}
PATIENCE_S = 120.0
EACH_PAGE_MAX = 3
"""How many of a page's kind ``--once`` fetches, such as of the pages of topics."""


class DemoFailedError(Exception):
    """The demo could not go on; its text says why."""


@dataclass
class Stock:
    """A change of what the warehouse has, as the first program sends it."""

    item: str
    change: int


@dataclass
class StockNow:
    """The same, as the second program sends it."""

    item: str
    change: int
    price: Annotated[Decimal, "decimal(10,2)"] | None = None


class Shop:
    """What the shop sends, and who works on it."""

    def __init__(self, lake: penstock.Lake, stack: ExitStack) -> None:
        self.lake, self.stack = lake, stack
        self.chance = random.Random(7)
        self.numbers = count(1042)
        self.ended = threading.Event()

    # --- What there is ------------------------------------------------------------------------------------------------------------

    def build(self) -> None:
        """Topics of every type."""
        create = self.lake.create_topic
        create("orders", message_type="FIFO", queues=4, retention=timedelta(days=30))
        create("payments", message_type="TRANSACTION", queues=2)
        create("mails", queues=2)
        create("coupons", queues=2)
        create("clicks", queues=8, retention=timedelta(days=1))
        create("reminders", message_type="DELAY", queues=2)
        create("stock", queues=2, schema=Stock, keys=["item"], tag="item")
        self.producers = {
            name: self.stack.enter_context(self.lake.producer(name))
            for name in ("orders", "mails", "coupons", "clicks", "reminders", "stock")
        }

    def fill(self, orders: int) -> None:
        """A first day's messages."""
        for _ in range(orders):
            self.order()
        for basket in ("basket-31", "basket-77"):
            self.send(
                "orders", Message(b'{"state": "created", "total": 12,50}', message_group=basket, tag="created", keys=[basket])
            )
            self.step(basket, "paid", 12)
        self.send("orders", Message("<b>free</b> \u202e delivery \x1b[31m".encode(), message_group="basket-99", keys=["basket-99"]))
        for minutes in (5, 45, 24 * 60, 72 * 60):
            number = f"order-{next(self.numbers)}"
            self.send("reminders", Message.json({"order": number, "unpaid": True}, keys=[number], delay=timedelta(minutes=minutes)))
        self.lake.evolve_topic("stock", StockNow)
        for name, price in GOODS.items():
            self.producers["stock"].send_row(StockNow(name, self.chance.randint(1, 40), Decimal(price)))
        for producer in self.producers.values():
            producer.flush()

    def order(self) -> None:
        """One order with all that follows from it."""
        number, item = next(self.numbers), self.chance.choice(list(GOODS))
        order = f"order-{number}"
        self.step(order, "created", GOODS[item], item=item)
        if number % 9:
            self.step(order, "paid", GOODS[item])
        if number % 11 == 0:
            self.pay(order, GOODS[item])
        address = f"{order}@{'mail.example' if number % 15 else 'no-such-host.example'}"
        self.send("mails", Message.json({"to": address, "subject": f"Your {item}"}, keys=[order], tag="confirmation"))
        if number % 10 == 0:
            self.send("coupons", Message.json({"order": order, "percent": 5}, keys=[order]))
        for _ in range(self.chance.randint(1, 6)):
            self.send("clicks", Message.json({"page": f"/{item.replace(' ', '-')}", "ms": self.chance.randint(20, 900)}))
        self.producers["stock"].send_row(Stock(item, -1))

    def step(self, order: str, state: str, total: int, **more: object) -> None:
        """What becomes of an order: its messages are a message group, in order."""
        body = {"order": order, "state": state, "total": total, **more}
        self.send("orders", Message.json(body, message_group=order, tag=state, keys=[order], properties={"total": str(total)}))

    def pay(self, order: str, amount: int) -> None:
        """A payment that is committed."""
        with self.lake.transaction(producer_group="cashiers", checker=unknown) as transaction:
            transaction.send("payments", Message.json({"order": order, "amount": amount}, keys=[order]))
            transaction.commit()

    def send(self, topic: str, message: Message) -> None:
        self.producers[topic].send(message)

    def undecided(self) -> penstock.Transaction:
        """A payment whose cashier never says what became of it."""
        transaction = self.lake.transaction(producer_group="cashiers", checker=unknown, first_check=timedelta(minutes=50))
        for body in ({"order": "order-1042", "amount": 349}, {"order": "order-1042", "refund": 19}):
            transaction.send("payments", Message.json(body, keys=["order-1042"]))
        return transaction

    # --- Who works on it ----------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Consumers of each kind, of which some fail."""
        soon = RetryPolicy(interval=timedelta(milliseconds=200))
        join = self.lake.push_consumer
        consumers = (
            join(
                "orders",
                group="warehouse",
                listener=parsed,
                delivery_order="ORDERLY",
                retry=soon,
                max_attempts=3,
                dead_letter_policy="park",
            ),
            join("orders", group="billing", listener=done, delivery_order="ORDERLY", filter="paid"),
            join("mails", group="mailer", listener=mailed, delivery_order="CONCURRENT", retry=soon, max_attempts=2),
            join("coupons", group="coupons", listener=down, delivery_order="CONCURRENT"),
            join("payments", group="bookkeeping", listener=done, delivery_order="CONCURRENT"),
            join("stock", group="shop-window", listener=done, delivery_order="CONCURRENT"),
            join("reminders", group="reminders", listener=done, delivery_order="CONCURRENT"),
            join("clicks", group="reports", listener=self.slowly, delivery_order="ORDERLY", threads=1),
        )
        for consumer in consumers:
            self.stack.enter_context(consumer)
        self.lake.create_group("search-index")
        self.lake.reset_offsets("search-index", "stock", "earliest")

    def slowly(self, _: MessageView) -> ConsumeResult:
        """A report that takes its time."""
        self.ended.wait(0.4)
        return ConsumeResult.SUCCESS

    def has_failed(self) -> bool:
        """Whether each kind of failure has happened."""
        waiting = sum(queue.waiting for queue in self.lake.describe_group("coupons").queues)
        return len(self.lake.parked("warehouse")) >= 3 and "%DLQ%mailer" in self.lake.topics() and waiting > 0

    def trade(self) -> None:
        """Send a little, until it is over."""
        while not self.ended.wait(1.0):
            self.order()


def unknown(_: CheckedTransaction) -> TransactionResolution:
    """The answer of a cashier who cannot tell."""
    return TransactionResolution.UNKNOWN


def done(_: MessageView) -> ConsumeResult:
    """Work that never fails."""
    return ConsumeResult.SUCCESS


def parsed(message: MessageView) -> ConsumeResult:
    """Work that needs JSON."""
    message.json()
    return ConsumeResult.SUCCESS


def mailed(message: MessageView) -> ConsumeResult:
    """A mail that some hosts refuse."""
    if "no-such-host" in message.json()["to"]:
        raise ConnectionError("550 no such host")
    return ConsumeResult.SUCCESS


def down(_: MessageView) -> ConsumeResult:
    """A service that is down."""
    raise TimeoutError("the coupon service does not answer")


# --- The console ----------------------------------------------------------------------------------------------------------------------


@contextmanager
def console(lake_url: str, port: int, log: Path) -> Iterator[str]:
    """A console in a process of its own: its URL."""
    command = [*PENSTOCK, "console", "--lake", lake_url, "--port", str(port), "--json"]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise DemoFailedError(f"the console did not start: {log.read_text(errors='replace')[-1000:].strip()}")
        yield json.loads(line)["url"]
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Fetched:
    """A page as ``--once`` saw it."""

    path: str
    kind: str
    """The page's name in the OpenAPI document; empty for what is none of its pages."""
    status: int
    title: str
    size_bytes: int
    took_ms: float
    links: tuple[str, ...]


def fetched(url: str, path: str, kind: str) -> Fetched:
    """Fetch a page. Raises `DemoFailedError` unless the console answers."""
    began_s = time.monotonic()
    try:
        with urllib.request.urlopen(url.rstrip("/") + path, timeout=PATIENCE_S) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode(errors="replace")
    except OSError as error:
        raise DemoFailedError(f"the console does not answer {path}: {error}") from error
    title = re.search(r"<h1>(.*?)</h1>", text, re.DOTALL)
    links = dict.fromkeys(unescape(one) for one in re.findall(r'<a [^>]*?href="(/l/[^"#]*)', text))
    took_ms = 1000 * (time.monotonic() - began_s)
    return Fetched(path, kind, status, unescape(title[1]) if title else "", len(text.encode()), took_ms, tuple(links))


def kinds_of(url: str) -> dict[str, re.Pattern[str]]:
    """The pages by name, with what their paths look like."""
    with urllib.request.urlopen(f"{url}api/openapi.json", timeout=PATIENCE_S) as answer:
        paths = json.load(answer)["paths"]
    shown = {path: one["get"] for path, one in paths.items() if "application/json" in one["get"]["responses"]["200"]["content"]}
    parts = {one["operationId"]: re.split(r"\{\w+\}", path.removeprefix("/api")) for path, one in shown.items()}
    return {name: re.compile("[^/]+".join(map(re.escape, texts))) for name, texts in parts.items()}


def walk(url: str) -> Iterator[Fetched]:
    """Every kind of page that links lead to, from the overview on: of each the first few."""
    kinds = kinds_of(url)
    waiting, seen = ["/l/lake/"], {"/l/lake/"}
    taken = dict.fromkeys(kinds, 0)
    while waiting:
        path = waiting.pop(0)
        plain = urlsplit(path).path
        kind = next((name for name, pattern in kinds.items() if pattern.fullmatch(plain)), "")
        if kind and taken[kind] == EACH_PAGE_MAX:
            continue
        if kind:
            taken[kind] += 1
        page = fetched(url, path, kind)
        yield page
        waiting += [one for one in page.links if one not in seen]
        seen.update(page.links)


def tell_all(url: str) -> bool:
    """Fetch every page, and tell each. Returns whether all are well."""
    pages = list(walk(url))
    for page in pages:
        mark = "✓" if page.status == 200 else "✗"
        print(f"{mark} {page.status} {page.took_ms:6.0f} ms {page.size_bytes:>8,} B  {page.title}  {page.path}")
    expected, kinds = {one for one in kinds_of(url) if not one.startswith("preview_")}, {page.kind for page in pages}
    failed = sum(page.status != 200 for page in pages)
    for name in sorted(expected - kinds):
        print(f"✗ no link leads to a page {name}")
    print(f"{len(pages)} pages and previews, {len(expected & kinds)} of {len(expected)} kinds of pages, {failed} failed")
    return not failed and expected <= kinds


def wait_until(what: Callable[[], bool], name: str) -> None:
    """Wait for something that should come."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > deadline_s:
            raise DemoFailedError(f"{name} did not come within {PATIENCE_S:.0f} s")
        threading.Event().wait(0.1)


def run(given: argparse.Namespace, folder: Path) -> bool:
    """The whole demo. Returns whether all was well."""
    lake_url = str(given.lake or folder / "lake")
    with ExitStack() as stack:
        lake = stack.enter_context(penstock.connect(lake_url))
        shop = Shop(lake, stack)
        shop.build()
        shop.work()
        shop.fill(given.orders)
        stack.callback(shop.undecided().rollback)
        wait_until(shop.has_failed, "what fails in the shop")
        stack.callback(shop.ended.set)
        url = stack.enter_context(console(lake_url, given.port, folder / "console.log"))
        print(f"The shop is in {lake_url}, its console at {url}", flush=True)
        if given.once:
            return tell_all(url)
        if given.browser:
            webbrowser.open(url)
        print("Orders come in, one a second. Ctrl-C ends all of it.", flush=True)
        shop.trade()
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lake", type=Path, help="a folder for the lake, which stays (default: one that goes at the end)")
    parser.add_argument("--port", type=int, default=8085, help="the console's port (default: 8085; 0: any free one)")
    parser.add_argument("--orders", type=int, default=150, help="how many orders there are at first (default: 150)")
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="only print the URL")
    parser.add_argument("--once", action="store_true", help="fetch every page, tell what came, and end")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="penstock-console-"))
    logging.basicConfig(filename=folder / "shop.log")
    try:
        return 0 if run(given, folder) else 1
    except DemoFailedError as failed:
        print(f"✗ {failed}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nThe shop is closed.", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
