"""A worker of the same group that consumes from the lake itself. It prints what `sdk_worker.py` prints.

Arguments: the lake, the topic, and the consumer group. It ends with its standard input.
"""

from __future__ import annotations

import sys
import threading
import time

import penstock

_printing = threading.Lock()


def work(message: penstock.MessageView) -> penstock.ConsumeResult:
    began_ns = time.monotonic_ns()
    time.sleep(0.002)  # the work
    with _printing:
        print(message.properties["number"], began_ns, time.monotonic_ns(), flush=True)
    return penstock.ConsumeResult.SUCCESS


def main(lake: str, topic: str, group: str) -> None:
    with penstock.connect(lake) as opened, opened.push_consumer(topic, group=group, listener=work):
        print("at work", file=sys.stderr, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
