"""Kafka's own tools: those of performance, the verifiable ones, and what administrators call. Each ends well, and says what it should."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.kafka.suites.outcomes import Outcome, Result
from tests.gateway.kafka.suites.running import SUITES, run

FOLDER = SUITES / "tools-4.3.1"
RECORDS = 100_000
_TIMEOUT_S = 300
_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
_AT = ("--bootstrap-server", "ADDRESS")
_ADDRESS = "ADDRESS"
"""Stands for the address in arguments."""


@dataclass(frozen=True)
class Tool:
    """A program of Kafka, and what it says when all is well, as a pattern."""

    program: str
    arguments: Sequence[str]
    says: str


def command(program: str, arguments: Sequence[str], address: str) -> list[str]:
    placed = [one.replace(_ADDRESS, address) for one in arguments]
    return ["java", "-cp", str(FOLDER / "*"), *_FLAGS, program, *placed]


def play(name: str, address: str, folder: Path) -> Outcome:
    tool = TOOLS[name]
    ended = run(command(tool.program, tool.arguments, address), folder, {}, _TIMEOUT_S)
    (folder / f"{name}.log").write_text(ended.text)
    if ended.code == 0 and re.search(tool.says, ended.text):
        return Outcome(name, Result.PASSED, ended.took_s)
    last = (ended.text.strip().splitlines() or [""])[-1]
    return Outcome(name, Result.FAILED, ended.took_s, f"ended by {ended.code}, and said: {last}")


def _of_topic(*arguments: str) -> tuple[str, ...]:
    return (*_AT, "--topic", "tools", *arguments)


TOOLS: Mapping[str, Tool] = {
    "ProducerPerformance": Tool(
        "org.apache.kafka.tools.ProducerPerformance",
        [
            *("--topic", "tools", "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "-1"),
            *("--producer-props", f"bootstrap.servers={_ADDRESS}", "linger.ms=50", "batch.size=1000000"),
        ],
        rf"\n{RECORDS} records sent",
    ),
    "ConsumerPerformance": Tool(
        "org.apache.kafka.tools.ConsumerPerformance",
        _of_topic("--num-records", str(RECORDS), "--group", "tools"),
        rf", {RECORDS}, [\d.]+, \d+, \d+,",
    ),
    "EndToEndLatency": Tool(
        "org.apache.kafka.tools.EndToEndLatency",
        _of_topic("--num-records", "100", "--producer-acks", "1", "--record-size", "100"),
        r"Percentiles: 50th = \d+",
    ),
    "VerifiableProducer": Tool(
        "org.apache.kafka.tools.VerifiableProducer",
        (*_AT, "--topic", "verifiable", "--max-messages", "10000", "--repeating-keys", "7"),
        r'"name":"tool_data".*"sent":10000,"acked":10000|"sent":10000,"acked":10000',
    ),
    "VerifiableConsumer": Tool(
        "org.apache.kafka.tools.VerifiableConsumer",
        (*_AT, "--topic", "verifiable", "--group-id", "verifiable", "--max-messages", "10000"),
        r'"success":true.*"name":"offsets_committed"|"name":"offsets_committed".*"success":true',
    ),
    "ConsoleConsumer": Tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        (*_AT, "--topic", "verifiable", "--from-beginning", "--max-messages", "10000", "--timeout-ms", "30000"),
        "Processed a total of 10000 messages",
    ),
    "GetOffsetShell": Tool(
        "org.apache.kafka.tools.GetOffsetShell", (*_AT, "--topic", "tools", "--time", "latest"), r"tools:\d:[1-9]\d+"
    ),
    "TopicCommand, create": Tool(
        "org.apache.kafka.tools.TopicCommand",
        (*_AT, "--create", "--topic", "administered", "--partitions", "3", "--config", "cleanup.policy=compact"),
        r"Created topic administered\.",
    ),
    "TopicCommand, describe": Tool(
        "org.apache.kafka.tools.TopicCommand",
        (*_AT, "--describe", "--topic", "administered"),
        r"PartitionCount: 3.*Configs: .*cleanup\.policy=compact",
    ),
    "ConfigCommand, alter": Tool(
        "kafka.admin.ConfigCommand",
        (*_AT, "--alter", "--entity-type", "topics", "--entity-name", "administered", "--add-config", "retention.ms=60000"),
        "Completed updating config for topic administered",
    ),
    "ConfigCommand, describe": Tool(
        "kafka.admin.ConfigCommand",
        (*_AT, "--describe", "--all", "--entity-type", "topics", "--entity-name", "administered"),
        r"cleanup\.policy=compact",
    ),
    "ConsumerGroupCommand, describe": Tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        (*_AT, "--describe", "--group", "verifiable"),
        r"verifiable +verifiable +\d+ +\d+ +\d+ +0 ",
    ),
    "ConsumerGroupCommand, reset": Tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        (*_AT, "--reset-offsets", "--to-earliest", "--execute", "--group", "verifiable", "--topic", "verifiable"),
        r"verifiable +verifiable +\d+ +0",
    ),
    "ConsumerGroupCommand, delete": Tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        (*_AT, "--delete", "--group", "verifiable"),
        "Deletion of requested consumer groups .* was successful",
    ),
    "GroupsCommand": Tool("org.apache.kafka.tools.GroupsCommand", (*_AT, "--list"), r"tools +Classic +consumer"),
    "LogDirsCommand": Tool(
        "org.apache.kafka.tools.LogDirsCommand", (*_AT, "--describe", "--topic-list", "tools"), r'"partition":"tools-0"'
    ),
    "BrokerApiVersionsCommand": Tool("org.apache.kafka.tools.BrokerApiVersionsCommand", _AT, r"Produce\(0\): 0 to \d+"),
    "TopicCommand, delete": Tool("org.apache.kafka.tools.TopicCommand", (*_AT, "--delete", "--topic", "administered"), r"\A\s*\Z"),
}
