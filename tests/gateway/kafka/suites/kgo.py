"""The tests of franz-go's client that speak with brokers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.gateway.kafka.suites.outcomes import Outcome, Result
from tests.gateway.kafka.suites.running import SUITES, run

FOLDER = SUITES / "kgo-1.22.3"
RECORDS = 50_000
_TIMEOUT_S = 300
_WHY = re.compile(r"^\s+\w+_test\.go:\d+: .*", re.MULTILINE)


def play(name: str, address: str, folder: Path) -> Outcome:
    environment = {"KGO_SEEDS": address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)}
    command = ["./kgo.test", "-test.v", f"-test.timeout={_TIMEOUT_S}s", "-test.run", f"^{name}$"]
    ended = run(command, FOLDER, environment, _TIMEOUT_S + 10)
    (folder / f"{name}.log").write_text(ended.text)
    if ended.code != 0:
        why = _WHY.search(ended.text)
        return Outcome(name, Result.FAILED, ended.took_s, why[0].strip() if why else "took too long")
    return Outcome(name, Result.PASSED if f"--- PASS: {name} " in ended.text else Result.SKIPPED, ended.took_s)
