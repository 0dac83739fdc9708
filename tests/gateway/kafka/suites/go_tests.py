"""The tests of Go's clients that speak with brokers: franz-go's, kafka-go's and sarama's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.gateway.kafka.suites.outcomes import Outcome, Result
from tests.gateway.kafka.suites.running import KAFKA_VERSION, SUITES, run

_TIMEOUT_S = 300
_WHY = re.compile(r"^\s+\w+_test\.go:\d+: .*", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class GoTests:
    """Tests compiled to one program."""

    program: Path
    address_in: str
    """The variable that tells the address."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.program.parent

    def play(self, name: str, address: str, folder: Path) -> Outcome:
        command = [str(self.program), "-test.v", f"-test.timeout={_TIMEOUT_S}s", "-test.run", f"^{name}$"]
        ended = run(command, self.folder, {**self.environment, self.address_in: address}, _TIMEOUT_S + 10)
        (folder / f"{self.program.name}-{name}.log").write_text(ended.text)
        if ended.code != 0:
            why = _WHY.search(ended.text)
            return Outcome(name, Result.FAILED, ended.took_s, why[0].strip() if why else "took too long")
        return Outcome(name, Result.PASSED if f"--- PASS: {name} " in ended.text else Result.SKIPPED, ended.took_s)


KGO = GoTests(
    program=SUITES / "kgo-1.22.3" / "kgo.test",
    address_in="KGO_SEEDS",
    environment={"KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000"},
)
KAFKA_GO = GoTests(
    program=SUITES / "kafkago-0.4.51" / "kafka-go.test",
    address_in="KAFKA_ADDRESS",
    environment={"KAFKA_VERSION": KAFKA_VERSION},
)
SARAMA = GoTests(
    program=SUITES / "sarama-1.61.1" / "sarama.test",
    address_in="KAFKA_ADDRESS",
    environment={"KAFKA_VERSION": KAFKA_VERSION},
)
