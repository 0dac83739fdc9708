"""Kafka's own tools of its performance, which end well or do not."""

from __future__ import annotations

import os
from pathlib import Path

from tests.gateway.kafka.suites.outcomes import Outcome, Result
from tests.gateway.kafka.suites.running import SUITES, run

FOLDER = SUITES / "tools-4.3.1"
RECORDS = 100_000
_TIMEOUT_S = 300
_TOPIC = "tools"


def play(name: str, address: str, folder: Path) -> Outcome:
    command = ["java", "-cp", str(FOLDER / "*"), "-Xmx512m", f"org.apache.kafka.tools.{name}", *_arguments(address)[name]]
    ended = run(command, folder, {**os.environ}, _TIMEOUT_S)
    (folder / f"{name}.log").write_text(ended.text)
    last = (ended.text.strip().splitlines() or [""])[-1]
    return Outcome(name, Result.PASSED if ended.code == 0 else Result.FAILED, ended.took_s, last)


def _arguments(address: str) -> dict[str, list[str]]:
    at = ["--bootstrap-server", address, "--topic", _TOPIC]
    producing = ["--topic", _TOPIC, "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "-1"]
    return {
        "ProducerPerformance": [
            *producing,
            "--producer-props",
            f"bootstrap.servers={address}",
            "linger.ms=50",
            "batch.size=1000000",
        ],
        "ConsumerPerformance": [*at, "--messages", str(RECORDS), "--group", "tools"],
        "EndToEndLatency": [*at, "--num-records", "100", "--producer-acks", "1", "--record-size", "100"],
    }
