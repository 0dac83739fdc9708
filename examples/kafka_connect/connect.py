"""Kafka Connect's workers as Kafka ships them, and Debezium's connector in them: what each is told, and how it answers."""

from __future__ import annotations

import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from examples.live.errors import DemoFailedError
from examples.live.processes import Service

PROGRAMS = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache" / "penstock") / "kafka-connect"
"""What `make kafka-connect` fetches."""
CONNECT = PROGRAMS / "connect-4.3.1"
DEBEZIUM = PROGRAMS / "debezium-3.7.0.Final"
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
JAVA = (
    *("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+PerfDisableSharedMem"),
    *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"),
)
"""The machine may be small, and the demo is short."""
NAME = "shop"
ASK_S = 100.0
"""A worker answers what another one leads after it has asked that one, and waits up to 90 s for it."""

JsonObject = Mapping[str, Any]


def check_programs() -> None:
    """Raises `DemoFailedError` where Connect, the connector or Java are not there."""
    missing = [one.name for one in (CONNECT, DEBEZIUM) if not one.exists()]
    if missing or shutil.which("java") is None:
        raise DemoFailedError(
            f"there is no {' and no '.join(missing) or 'java on the PATH'}. `make kafka-connect` fetches what is needed where Maven, Java 17 "
            f"and a network are"
        )


def connector(dsn: str) -> JsonObject:
    """What Debezium is told: all tables of the database, into one topic."""
    database = urlsplit(dsn)
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": database.hostname,
        "database.port": str(database.port),
        "database.user": database.username,
        "database.password": database.password or "none",
        "database.dbname": database.path.removeprefix("/"),
        "topic.prefix": NAME,
        "provide.transaction.metadata": "true",
        "transforms": "one",
        "transforms.one.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.one.regex": rf"{NAME}\..*",
        "transforms.one.replacement": NAME,
    }


class ConnectWorker:
    """One of the workers that share the connectors."""

    def __init__(self, number: int, gateways: Sequence[str], port: int, folder: Path) -> None:
        self.port = port
        name, properties = f"worker-{number}", folder / f"worker-{number}.properties"
        properties.write_text(
            "\n".join(f"{setting}={value}" for setting, value in _settings(gateways, port).items()) + "\n", encoding="utf-8"
        )
        program = ["java", *JAVA, f"-Djava.io.tmpdir={folder}", "-cp", f"{CONNECT}/*", MAIN, str(properties)]
        self.service = Service(name, program, folder, shown=f"connect-distributed.sh {properties.name}")

    @property
    def id(self) -> str:
        """What the others know it by."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_ready(self) -> bool:
        """Whether it has read its topics. Until then it knows of no path."""
        return self.ask("GET", "/connectors")[0] == 200

    def configure(self, settings: JsonObject) -> bool:
        """Tell it of the connector. Returns whether it took it, which no worker does while they share out their work."""
        code, answer = self.ask("PUT", f"/connectors/{NAME}/config", settings)
        if code == 400:
            raise DemoFailedError(f"Connect refuses the connector: {answer}")
        return code in (200, 201)

    def task(self) -> tuple[str, str]:
        """The state of the connector's task, and the worker that has it; nothing while the workers share out their work."""
        code, answer = self.ask("GET", f"/connectors/{NAME}/status")
        if code != 200 or not answer["tasks"]:
            return "", ""
        (task,) = answer["tasks"]
        if task["state"] == "FAILED":
            raise DemoFailedError(f"Debezium's task failed: {task['trace']}")
        return task["state"], task["worker_id"]

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> tuple[int, Any]:
        """Status and answer; status 0 where nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=ASK_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(errors="replace")
        except OSError:
            return 0, None


def _settings(gateways: Sequence[str], port: int) -> JsonObject:
    return {
        "bootstrap.servers": ",".join(gateways),
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "plugin.path": DEBEZIUM,
        "listeners": f"http://127.0.0.1:{port}",
        "producer.linger.ms": 50,
        "producer.batch.size": 1_000_000,
        # The demo is short: a worker that is killed is missed, and its work given away, in seconds rather than minutes.
        "offset.flush.interval.ms": 1000,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 2000,
        "scheduled.rebalance.max.delay.ms": 1000,
    }
