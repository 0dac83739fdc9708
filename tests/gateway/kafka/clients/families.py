"""Kafka's clients as processes: one program in several languages, driven by lines of JSON (`programs/commands.md`).

They are pointed at a gateway or at a real Kafka, and know no difference.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from examples.kafka_connect.connect import PROGRAMS as KAFKA_CONNECT
from tests.gateway.programs import Program

CLIENTS = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "kafka-clients"
"""What `make kafka-clients` installs."""
_PROGRAMS = Path(__file__).parent / "programs"


def _digest(*names: str) -> str:
    return hashlib.sha256(b"".join((_PROGRAMS / name).read_bytes() for name in names)).hexdigest()[:16]


_OF_JAVA = _digest("Client.java", "pom.xml")
GO = CLIENTS / f"go-{_digest(*(f'go/{name}' for name in ('main.go', 'franz.go', 'sarama.go', 'kafkago.go', 'go.mod', 'go.sum')))}"
"""The program, compiled with three clients."""
JAVA = CLIENTS / f"java-4.3.1-{_OF_JAVA}"
"""The program's classes, and Kafka's client."""
OLDER_JAVA = CLIENTS / f"java-3.9.2-{_OF_JAVA}"
"""The client that Spark 4 has."""
NODE = CLIENTS / "node-2.2.4"
SPARK = KAFKA_CONNECT / f"spark-{version('pyspark')}"
"""Spark's source for Kafka, which `make kafka-connect` fetches."""
ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A client, and what it cannot do by itself."""

    name: str
    program: Path
    """What is there once it is installed."""
    mark: str = ""
    """The mark of tests that need it."""
    command: tuple[str, ...]
    """It ends with what follows the address."""
    after: tuple[str, ...] = ()
    codecs: tuple[str, ...] = ALL_CODECS
    is_idempotent: bool = True
    has_transactions: bool = True
    has_assignments: bool = True
    """Whether it reads partitions without a group."""
    orders_headers: bool = True
    """Whether a name may come twice, with others between."""
    has_null_headers: bool = True
    tells_empty: bool = True
    """Whether it tells empty keys and values from those that are not there."""
    has_static_members: bool = True
    without_transactions: str = "transactional ?id ?authorization ?failed|use the requested transactional id"
    """What a transactional producer is told, as a pattern."""
    has_seeks: bool = True
    """Whether a member of a group goes on from another place."""
    keeps_its_place: bool = True
    """Whether a member goes on as it is when its coordinator is dead, as Kafka lets it. Others join again: sarama, kafka-go and kafkajs where
    the connection breaks, franz-go where it then meets two dead addresses, one after the other."""
    is_short: bool = False
    """Whether it plays in `make test`."""


def _java(name: str, folder: Path, *, is_short: bool) -> Family:
    # One core for its compiler and collector: the tests' machines are small, and the programs short.
    flags = (
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    )
    class_path = os.pathsep.join([str(folder / "*"), str(folder)])
    return Family(
        name=name, program=folder, mark="java_kafka", command=("java", *flags, "-cp", class_path, "Client"), is_short=is_short
    )


def _python(
    name: str,
    *,
    codecs: tuple[str, ...] = ALL_CODECS,
    is_short: bool = False,
    has_null_headers: bool = True,
    without_transactions: str = Family.without_transactions,
) -> Family:
    program = _PROGRAMS / f"with_{name.replace('-', '_')}.py"
    return Family(
        name=name,
        program=program,
        command=(sys.executable, str(program)),
        codecs=codecs,
        is_short=is_short,
        has_null_headers=has_null_headers,
        without_transactions=without_transactions,
    )


def _go(name: str, *, is_idempotent: bool = True, tells_empty: bool = True, is_short: bool = False) -> Family:
    return Family(
        name=name,
        program=GO,
        mark="go_kafka",
        command=(str(GO / "client"),),
        after=(name,),
        is_idempotent=is_idempotent,
        has_static_members=is_idempotent,
        has_transactions=is_idempotent,
        tells_empty=tells_empty,
        has_seeks=is_short,
        keeps_its_place=False,
        is_short=is_short,
    )


FAMILIES = {
    one.name: one
    for one in (
        _python("confluent", is_short=True, without_transactions="Penstock has no transactions by Kafka's protocol"),
        _java("java", JAVA, is_short=True),
        _go("franz-go", is_short=True),
        _python("aiokafka", is_short=True),
        _java("java-3.9", OLDER_JAVA, is_short=False),
        _python("kafka-python", codecs=("none", "gzip", "snappy", "lz4"), has_null_headers=False),
        _go("sarama"),
        _go("kafka-go", is_idempotent=False, tells_empty=False),
        Family(
            name="kafkajs",
            program=NODE,
            mark="node_kafka",
            command=("node", str(_PROGRAMS / "client.mjs")),
            after=(str(NODE),),
            codecs=("none", "gzip", "snappy"),
            has_assignments=False,
            orders_headers=False,
            has_null_headers=False,
            has_static_members=False,
            without_transactions="failed to find group coordinator",  # whatever the code
            keeps_its_place=False,
        ),
    )
}


@contextlib.contextmanager
def client(family: Family, address: str, folder: Path) -> Iterator[Program]:
    """A family's program, for as long as the block."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "HOME": str(folder), "PYTHONWARNINGS": "ignore"}
    running = Program(family.name, [*family.command, address, *family.after], folder, environment)
    try:
        yield running
    finally:
        running.end()


@contextlib.contextmanager
def spark(address: str, folder: Path) -> Iterator[Program]:
    """Spark with its own source for Kafka, for as long as the block."""
    command = [sys.executable, str(_PROGRAMS / "with_spark.py"), address, str(SPARK)]
    running = Program("spark", command, folder, {**os.environ, "PYTHONWARNINGS": "ignore"})
    try:
        yield running
        running.call("close")
    finally:
        running.end()
