"""A bug is found, and mended; what it spoilt is processed again, and nothing else.

Version 2 of a worker forgets refunds. When that is noticed, version 3 is deployed, and the group is set back to the moment at which version 2 had
been started. Results are stored under the message's place, so that doing a message again replaces what it led to.

    python examples/replay_after_a_fix.py [LAKE]
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import penstock
from penstock import ConsumeResult, Message, MessageView

USERS = [f"user-{n}" for n in range(10)]


class Ledger:
    """What the worker has booked, by the place of the message: (user, amount)."""

    def __init__(self) -> None:
        self.bookings: dict[tuple[int, int], tuple[str, int]] = {}
        self._changed = threading.Condition()
        self._processed = 0

    def worker(self, amount_of: Callable[[MessageView], int]) -> Callable[[MessageView], ConsumeResult]:
        """A version of the worker."""

        def listen(message: MessageView) -> ConsumeResult:
            assert message.message_group is not None
            with self._changed:
                self.bookings[message.queue, message.offset] = (message.message_group, amount_of(message))
                self._processed += 1
                self._changed.notify_all()
            return ConsumeResult.SUCCESS

        return listen

    def wait(self, processed: int) -> None:
        """Until so many messages were processed, repetitions counted."""
        with self._changed:
            self._changed.wait_for(lambda: self._processed >= processed)

    def balances(self) -> Counter[str]:
        """What each user has paid."""
        found: Counter[str] = Counter()
        for user, amount in self.bookings.values():
            found[user] += amount
        return found


def right(message: MessageView) -> int:
    """What a payment adds to the balance."""
    payment = message.json()
    return -payment["amount"] if payment["kind"] == "refund" else payment["amount"]


def wrong(message: MessageView) -> int:
    """The same, with the bug."""
    return message.json()["amount"]


def send_payments(lake: penstock.Lake, count: int) -> datetime:
    """Returns when the first of them was stored."""
    chance = random.Random(count)
    with lake.producer("payments") as producer:
        receipts = [
            producer.send(
                Message.json(
                    {"kind": chance.choice(["payment", "payment", "refund"]), "amount": chance.randint(1, 100)},
                    message_group=chance.choice(USERS),
                )
            )
            for _ in range(count)
        ]
        ids = {receipt.result().message_id for receipt in receipts}
    return min(one.store_timestamp for one in lake.reader("payments").messages() if one.message_id in ids)


def main(lake_url: str) -> None:
    """Three versions of a worker, and a backtrack between the last two."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic("payments", message_type="FIFO", queues=4)
        ledger = Ledger()
        send_payments(lake, 100)
        with lake.push_consumer("payments", group="ledger", listener=ledger.worker(right)):
            ledger.wait(100)
        deployed = send_payments(lake, 60)
        with lake.push_consumer("payments", group="ledger", listener=ledger.worker(wrong)):
            ledger.wait(160)
        spoilt = ledger.balances()
        with lake.push_consumer("payments", group="ledger", listener=ledger.worker(right)):
            lake.reset_offsets("ledger", "payments", to=deployed)  # consumers may run meanwhile
            ledger.wait(220)
        expected: Counter[str] = Counter()
        for message in lake.reader("payments").messages():
            assert message.message_group is not None
            expected[message.message_group] += right(message)
    if ledger.balances() != expected or spoilt == expected:
        raise SystemExit("the balances are wrong")
    print(f"60 of {len(ledger.bookings)} payments done again: {sum((spoilt - expected).values())} too much was taken back")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "memory://")
