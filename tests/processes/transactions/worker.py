"""A shop that pays orders in transactions, in one process after another, each of which is killed amid its last order.

``python -m tests.processes.transactions.worker LAKE BOOKS SEED LIVES``: each life is forked, opens the lake, pays some orders, and ends by
SIGKILL at a moment drawn by the seed: in the send of half messages, behind it, behind the local commit, or amid the commit.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import threading
from contextlib import closing
from datetime import timedelta

import penstock
from penstock import CheckedTransaction, Message, TransactionResolution

GROUP = "cashiers"
TOPICS = ("payments", "mails")
FIRST_CHECK = timedelta(seconds=0.5)
MOMENTS = ("sending", "sent", "paid", "committing", "committing")
AMID_S = 0.06
"""A send or commit takes about so long."""


class Books:
    """The shop's own database. What it says of an order it says for ever."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._open() as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS orders (name TEXT PRIMARY KEY, state TEXT NOT NULL)")

    def write(self, name: str, state: str) -> str:
        """What became of an order: this, unless it is written already."""
        with self._open() as database, database:
            database.execute("INSERT OR IGNORE INTO orders VALUES (?, ?)", (name, state))
            (found,) = database.execute("SELECT state FROM orders WHERE name = ?", (name,)).fetchone()
        return str(found)

    def paid(self) -> list[str]:
        """Every order that was paid."""
        with self._open() as database:
            return [name for (name,) in database.execute("SELECT name FROM orders WHERE state = 'paid' ORDER BY name")]

    def check(self, transaction: CheckedTransaction) -> TransactionResolution:
        """What became of an order of which nobody speaks: if it is not paid it never will be."""
        is_paid = self.write(transaction.messages[0].body.decode(), "void") == "paid"
        return TransactionResolution.COMMIT if is_paid else TransactionResolution.ROLLBACK

    def _open(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._path, timeout=60))


def live(lake_url: str, books: Books, name: str, rng: random.Random) -> None:
    """One life: some orders that are paid, and one that is not finished."""
    with penstock.connect(lake_url, maintenance=False) as lake:
        lake.check_transactions(GROUP, books.check)
        for number in range(rng.randint(0, 2)):
            tries = 0
            while not pay(lake, books, f"{name}/{number}/{tries}", "", first_check=FIRST_CHECK * 2**tries):
                tries += 1
        pay(lake, books, f"{name}/last", rng.choice(MOMENTS), AMID_S * rng.random())
    raise AssertionError("it was to be killed")


def pay(
    lake: penstock.Lake, books: Books, order: str, dies: str, after_s: float = 0.0, *, first_check: timedelta = FIRST_CHECK
) -> bool:
    """An order, and where its process dies in it. Whether it is paid."""
    transaction = lake.transaction(producer_group=GROUP, first_check=first_check)
    _die_if(dies == "sending", after_s)
    try:
        for topic in TOPICS:
            transaction.send(topic, Message(order.encode()))
    except penstock.TransactionRolledBack:  # the other shop was asked amid it, and said no: this machine is slow
        _die_if(bool(dies))
        return False
    _die_if(dies in {"sending", "sent"})
    paid = books.write(order, "paid") == "paid"
    if paid:
        _die_if(dies == "paid")
        _die_if(dies == "committing", after_s)
        transaction.commit()
    _die_if(bool(dies))
    return paid


def _die_if(dies: bool, after_s: float = 0.0) -> None:
    if not dies:
        return
    if after_s:
        threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGKILL)).start()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def main(lake_url: str, books_path: str, seed: str, lives: str) -> int:
    books = Books(books_path)
    for number in range(int(lives)):
        child = os.fork()
        if child == 0:
            try:
                live(lake_url, books, f"{seed}/{number}", random.Random(f"{seed}/{number}"))
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
