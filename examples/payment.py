"""A payment is in the shop's database if, and only if, everybody else hears of it; whatever dies between the two.

The cashier sends the message first, as a half message that nobody sees, then commits the payment in its own database, then the transaction. One
cashier is killed between its two commits, another before the first. Penstock asks a live member of the producer group what became of
their transactions, and that one looks into the database. So that a cashier who is only slow cannot pay after the answer was no, the answer takes
the payment's place there: whoever writes it first decides.

    python examples/payment.py [LAKE]
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import penstock
from penstock import CheckedTransaction, ConsumeResult, Message, MessageView, TransactionResolution

GROUP = "cashiers"
TOPIC = "payments"
FIRST_CHECK = timedelta(seconds=1)
PATIENCE = timedelta(minutes=4)


class Books:
    """The shop's own database: what became of each payment."""

    def __init__(self, path: str) -> None:
        self._path = path
        with self._open() as database, database:  # the inner one is the transaction
            database.execute("CREATE TABLE IF NOT EXISTS payments (payment TEXT PRIMARY KEY, state TEXT NOT NULL)")

    def pay(self, payment: str) -> None:
        """Raises `sqlite3.IntegrityError` when it was said before that there is no such payment."""
        with self._open() as database, database:
            database.execute("INSERT INTO payments VALUES (?, 'paid')", (payment,))

    def is_paid(self, payment: str) -> bool:
        """Whether it was paid; if not, it cannot be any more."""
        with self._open() as database, database:
            database.execute("INSERT OR IGNORE INTO payments VALUES (?, 'void')", (payment,))
            (state,) = database.execute("SELECT state FROM payments WHERE payment = ?", (payment,)).fetchone()
        return bool(state == "paid")

    def paid(self) -> list[str]:
        """All that were."""
        with self._open() as database:
            return [
                payment for (payment,) in database.execute("SELECT payment FROM payments WHERE state = 'paid' ORDER BY payment")
            ]

    def check(self, transaction: CheckedTransaction) -> TransactionResolution:
        """What became of a transaction whose cashier does not say."""
        payment = transaction.messages[0].json()["payment"]
        return TransactionResolution.COMMIT if self.is_paid(payment) else TransactionResolution.ROLLBACK

    def _open(self) -> closing[sqlite3.Connection]:
        return closing(sqlite3.connect(self._path, timeout=60))


def cashier(lake_url: str, books: Books, payment: str, dies: str = "") -> None:
    """Take a payment; killed before the database's commit, or after it."""
    with (
        penstock.connect(lake_url) as lake,
        lake.transaction(producer_group=GROUP, checker=books.check, first_check=FIRST_CHECK) as transaction,
    ):
        transaction.send(TOPIC, Message.json({"payment": payment}, keys=[payment]))
        if dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        books.pay(payment)
        if dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        transaction.commit()


def main(lake_url: str) -> None:
    """Three cashiers, of whom two are killed, and the one who is asked about them."""
    with tempfile.TemporaryDirectory() as folder, penstock.connect(lake_url) as lake:
        books = Books(str(Path(folder) / "books.db"))
        lake.create_topic(TOPIC, message_type="TRANSACTION", queues=4)
        cashier(lake_url, books, "p1")
        for payment, dies in (("p2", "after"), ("p3", "before")):
            killed = subprocess.run([sys.executable, __file__, lake_url, folder, payment, dies], check=False)
            if killed.returncode != -signal.SIGKILL:
                raise SystemExit(f"the cashier of {payment} was to be killed")
        heard, answers = list[str](), dict[str, TransactionResolution]()
        changed = threading.Condition()

        def listen(message: MessageView) -> ConsumeResult:
            with changed:
                heard.append(message.json()["payment"])
                changed.notify_all()
            return ConsumeResult.SUCCESS

        def check(transaction: CheckedTransaction) -> TransactionResolution:
            answer = books.check(transaction)
            with changed:
                answers[transaction.messages[0].json()["payment"]] = answer
                changed.notify_all()
            return answer

        with (
            lake.check_transactions(GROUP, check),
            lake.push_consumer(TOPIC, group="mailer", listener=listen, delivery_order="CONCURRENT"),
            changed,
        ):
            if not changed.wait_for(
                lambda: len(answers) == 2 and len(heard) >= len(books.paid()), timeout=PATIENCE.total_seconds()
            ):
                raise SystemExit(f"within {PATIENCE} asked about {sorted(answers)} and heard of {sorted(heard)}")
        visible = sorted(message.json()["payment"] for message in lake.reader(TOPIC).messages())
        if not visible == sorted(heard) == books.paid() == ["p1", "p2"]:
            raise SystemExit(f"in the books: {books.paid()}, visible: {visible}, heard: {heard}")
    said = ", ".join(f"{payment}: {answer.name}" for payment, answer in sorted(answers.items()))
    print(f"{len(visible)} payments in the books and visible; asked about those who died: {said}")


if __name__ == "__main__":
    if sys.argv[3:]:
        cashier(sys.argv[1], Books(str(Path(sys.argv[2]) / "books.db")), *sys.argv[3:])
    elif sys.argv[1:]:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as shop:  # the cashiers are processes of their own
            main(str(Path(shop) / "lake"))
