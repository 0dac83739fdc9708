"""One producer process of the demo: ``python -m examples.demo.processes.producer``. Its parent tells it what to do.

It reads its share of the capture, waits for the word, and sends the events that the topic does not have yet. A second line on standard
input is the word: ``send``, or ``stick``. With ``stick`` it stops half-way where a batch is durable and not acknowledged, and waits to be
killed.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_right
from datetime import timedelta
from functools import partial

import penstock
from penstock.infra.files import open_file
from penstock.infra.labels import InputRecord
from penstock.log.errors import PenstockError
from penstock.log.limits import KIB, MIB
from penstock.log.paths import TopicPaths
from penstock.log.stores import CountingStore, ObjectStore, open_store

from .. import source
from .child import Parent
from .crash import Deafened, Unheard
from .reports import Done, Failed, Ready, Sent, Share, Stuck

_BATCHES_MIN = 8
"""The least number of batches: even a small share is sent in some, so that half-way lies between them."""
_BATCH_BYTES = (4 * KIB, 1 * MIB)
_LINGER = timedelta(milliseconds=200)
"""The linger, longer than the default: four producers at the demo's rate would make an entry of 50 events each, and pay for each."""
_PROGRESS_S = 0.2
_PACED_EVENTS = 50
"""The number of events between two looks at the clock."""


def main() -> int:
    """Run, and tell the parent."""
    parent = Parent()
    share = Share(**parent.task())
    try:
        with open_file(share.events) as file:
            records = list(source.events(file, name=share.events, producers=share.producers, producer=share.producer))
        parent.tell(Ready(len(records)))
        stick = parent.word() == "stick"
        parent.hear()
        parent.tell(_send(share, records, parent, stick=stick))
    except PenstockError as error:
        parent.tell(Failed(str(error)))
        return 1
    return 0


def _send(share: Share, records: list[InputRecord], parent: Parent, *, stick: bool) -> Done:
    sequences = [record.sequence or 0 for record in records]
    counting = CountingStore(open_store(share.lake))
    producer: penstock.Producer | None = None

    def stuck(unheard: Unheard) -> None:
        first = sequences[bisect_right(sequences, unheard.previous)]
        acknowledged = producer.statistics().messages_durable if producer else 0
        parent.tell(Stuck(unheard, first, acknowledged, counting.statistics()))

    store: ObjectStore = counting
    if stick:
        half_way = sequences[len(sequences) // 2]
        store = Deafened(counting, TopicPaths.of(share.topic), producer=share.name, sequence=half_way, heard=stuck)
    size_bytes = sum(len(record.body) for record in records)
    batch_bytes = max(_BATCH_BYTES[0], min(size_bytes // _BATCHES_MIN, _BATCH_BYTES[1]))
    with penstock.connect(store=store, maintenance=False) as lake:
        producer = lake.producer(share.topic, name=share.name, linger=_LINGER, batch_bytes=batch_bytes)
        already = bisect_right(sequences, producer.last_sequence)
        done = threading.Event()
        threading.Thread(target=partial(_tell_progress, parent, producer, already, done), daemon=True).start()
        try:
            begun_s = time.monotonic()
            for number, record in enumerate(records[already:]):
                if share.events_per_s and number % _PACED_EVENTS == 0:
                    time.sleep(max(0.0, begun_s + number / share.events_per_s - time.monotonic()))
                producer.send(_message(record), sequence=record.sequence)
            producer.close()
        finally:
            done.set()
    return Done(already, counting.statistics())


def _message(record: InputRecord) -> penstock.Message:
    return penstock.Message(record.body, record.message_group, record.tag, record.keys, record.properties)


def _tell_progress(parent: Parent, producer: penstock.Producer, already: int, done: threading.Event) -> None:
    while not done.wait(_PROGRESS_S):
        parent.tell(Sent(already + producer.statistics().messages_durable))


if __name__ == "__main__":
    sys.exit(main())
