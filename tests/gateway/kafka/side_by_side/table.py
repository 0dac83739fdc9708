"""Kafka's page, and why what a client sees is not the same."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks.peers import servers
from tests.gateway.side_by_side.page import SideBySide
from tests.tree import ROOT

from .played import SECTIONS

_POM = (Path(servers.__file__).parent / "pom-kafka.xml").read_text()
_OF_TRANSACTIONS = "there are no transactions by Kafka's protocol; the code is one after which clients give up at once"
_INERT = "a known gap: the config is taken and told, and has no effect"
WHY = {
    "unknown-codec": "Kafka fails inside; this code says what is wrong",
    "codec-of-topic": f"{_INERT}. A batch is fetched as it was sent, and the table has a compression of its own",
    "sizes": "an append takes 5 MiB of records. Small default limits guard a broker's disks and replicas, which are not there",
    "formats": "after CORRUPT_MESSAGE a client sends the same batch again, until its time is over",
    "broken": "Kafka fails inside, and the client waits until its own time is over",
    "timestamps": "a message is born in 1970 or later: `born_timestamp` is what native readers, filters and the table show",
    "old-duplicate": "Kafka remembers a producer's last 5 batches alone, and tells it of a gap; the log knows that it has the records",
    "half-numbered": "without an epoch nobody can judge the sequence, and a retry would count twice",
    "in-no-transaction": _OF_TRANSACTIONS,
    "unknown": "the answer says that no topic can have the name",
    "sessions": "a gateway keeps nothing of a client, so that any other goes on; clients send whole requests then",
    "latest-time": "a known gap: files tell when their records were stored, not when they were born; the last record's place is told",
    "below-zero": "a position below 0 is nowhere: Kafka keeps it, and the next consumer is out of range",
    "automatic": "the topic is made before the answer, so that no client has to ask again",
    "factor": "the bucket replicates: any factor is taken, and told as 1",
    "more-partitions": "a topic grows to a multiple of its partitions, so that each key has one former partition",
    "unknown-deleted": "the answer says that no topic can have the name",
    "config-sources": "the limit of a batch as it is sent; an append takes 5 MiB of records",
    "no-configs": "all gateways have the same configs, so that each answers for every other",
    "transactional-id": _OF_TRANSACTIONS,
    "transaction": _OF_TRANSACTIONS,
    "transaction-coordinator": _OF_TRANSACTIONS,
    "bad-software": "the name would count for a broker's metrics; here it is not looked at",
    "told-apis": "what is not served is not told. Produce 0 is told by both for old clients of librdkafka, and served by neither",
}
KAFKA = SideBySide(
    peer="kafka",
    title="Kafka " + re.findall("<kafka.version>(.+)</kafka.version>", _POM)[0],
    page=ROOT / "docs" / "kafka-side-by-side.md",
    kept_in=Path(__file__).parent / "outcomes.json",
    sections=SECTIONS,
    why=WHY,
)
