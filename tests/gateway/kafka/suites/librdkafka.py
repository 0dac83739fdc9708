"""librdkafka's own tests, in its quick mode. Those of mocks, share groups, SASL and TLS are none of a gateway's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from tests.gateway.kafka.suites import tools
from tests.gateway.kafka.suites.outcomes import Outcome, Result
from tests.gateway.kafka.suites.running import KAFKA_VERSION, SUITES, run

FOLDER = SUITES / "librdkafka-2.15.1" / "tests"
_TIMEOUT_S = 300
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ROW = re.compile(r"^\|\s*\d{4}_\w+\s*\|\s*(PASSED|FAILED|SKIPPED)", re.MULTILINE)
_WHY = re.compile(r"^### Test .*? failed at (\S+?)\(\).*?: ###\n(.*)", re.MULTILINE)
_CALLING_SCRIPTS: Final = frozenset({"0052", "0077", "0109"})
"""The tests that call the scripts of a Kafka. Others would have a topic grow by them where they can."""
_SCRIPTS: Final = {"kafka-topics.sh": "org.apache.kafka.tools.TopicCommand", "kafka-acls.sh": "org.apache.kafka.tools.AclCommand"}


def play(name: str, address: str, folder: Path) -> Outcome:
    """Run the tests of a number, such as 0012."""
    configuration = folder / f"{name}.conf"
    configuration.write_text(f"bootstrap.servers={address}\n")
    environment = {
        "TESTS": f"{name}_",
        "RDKAFKA_TEST_CONF": str(configuration),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
    }
    if name in _CALLING_SCRIPTS and tools.FOLDER.exists():
        environment |= {"KAFKA_PATH": str(_kafka(folder / f"{name}-kafka")), "BROKERS": address}
    ended = run(["./test-runner", "-p1", "-Q", "-E", "-L"], FOLDER, environment, _TIMEOUT_S)
    text = _COLOUR.sub("", ended.text)
    (folder / f"{name}.log").write_text(text)
    results = {row[1] for row in _ROW.finditer(text)}
    if ended.code != 0 or "FAILED" in results:
        why = _WHY.search(text)
        said = " ".join(why.groups()) if why else f"ended by {ended.code}" if ended.code is not None else "took too long"
        return Outcome(name, Result.FAILED, ended.took_s, said)
    return Outcome(name, Result.PASSED if "PASSED" in results else Result.SKIPPED, ended.took_s)


def _kafka(folder: Path) -> Path:
    """A folder like a Kafka's, with the scripts that tests call."""
    scripts = folder / "bin"
    scripts.mkdir(parents=True)
    for name, program in _SCRIPTS.items():
        script = scripts / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(tools.command(program, (), ""))} "$@"\n')
        script.chmod(0o755)
    return folder
