"""A message that cannot be processed stops its message group, and nothing else, until somebody has looked at it.

With the dead-letter policy ``park`` nothing of the group overtakes the message: what a change stream wants. The operator sees what is parked
(`penstock group parked`), mends the worker and releases one group, and gives up on the other's message, which becomes a dead letter.

    python examples/poison_message.py [LAKE]
"""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta

import penstock
from penstock import ConsumeResult, Message, MessageView, RetryPolicy

GOOD = [b'{"step": 1}', b'{"step": 2}', b'{"step": 3}']
COMMENTED = b'{"step": 2} // by hand'
GARBAGE = b"\x00\xff\x00"


class Worker:
    """Notes the steps of each account, in order. Its parser can be mended."""

    def __init__(self) -> None:
        self.steps: defaultdict[str, list[int]] = defaultdict(list)
        self.parse: Callable[[bytes], dict[str, int]] = json.loads
        self._changed = threading.Condition()

    def listen(self, message: MessageView) -> ConsumeResult:
        """What cannot be parsed raises, which is a failure."""
        step = self.parse(message.body)["step"]
        with self._changed:
            self.steps[message.message_group or ""].append(step)
            self._changed.notify_all()
        return ConsumeResult.SUCCESS

    def wait_for(self, account: str, steps: list[int]) -> None:
        """Until an account has gone through these steps."""
        with self._changed:
            self._changed.wait_for(lambda: self.steps[account] == steps)


def without_comment(body: bytes) -> dict[str, int]:
    """The mended parser."""
    parsed: dict[str, int] = json.loads(body.partition(b"//")[0])
    return parsed


def parked(lake: penstock.Lake, count: int) -> dict[str | None, bytes]:
    """What is parked, as soon as so many message groups are: the body by message group."""
    while len(found := lake.parked("accounts")) < count:
        threading.Event().wait(0.05)
    by_id = {one.message_id: one.body for one in lake.reader("accounts").messages()}
    return {one.message_group: by_id[one.message_id] for one in found if one.message_id is not None}


def main(lake_url: str) -> None:
    """Park two message groups, release one, skip the other's message."""
    with penstock.connect(lake_url) as lake:
        lake.create_topic("accounts", message_type="FIFO", queues=1)
        streams = {"ann": GOOD, "bob": [GOOD[0], COMMENTED, GOOD[2]], "cid": [GOOD[0], GARBAGE, GOOD[2]]}
        with lake.producer("accounts") as producer:
            for n in range(3):
                for account, bodies in streams.items():
                    producer.send(Message(bodies[n], message_group=account))
        worker = Worker()
        with lake.push_consumer(
            "accounts",
            group="accounts",
            listener=worker.listen,
            delivery_order="ORDERLY",
            dead_letter_policy="park",
            max_attempts=3,
            retry=RetryPolicy(interval=timedelta(milliseconds=20)),
        ):
            worker.wait_for("ann", [1, 2, 3])  # all in one queue, and she waits for nobody
            for name, body in parked(lake, 2).items():
                print(f"{name} is parked at {body!r}")
            worker.parse = without_comment
            lake.release("accounts", message_group="bob")
            worker.wait_for("bob", [1, 2, 3])
            lake.skip("accounts", message_group="cid")
            worker.wait_for("cid", [1, 3])
        (letter,) = lake.reader("%DLQ%accounts").messages()
    if (letter.body, letter.message_group) != (GARBAGE, "cid"):
        raise SystemExit("the dead letter is another")
    print("bob went on where he stood; what cid could not do is a dead letter")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "memory://")
