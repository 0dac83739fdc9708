"""The suites of Kafka's clients against a gateway: what passes, fails and is skipped, beside what is expected (`expected.toml`).

    python -m tests.gateway.kafka.suites [librdkafka kgo kafka-go sarama tools] [--only 0012 0030] [--address HOST:PORT] [--at-once 4]

Ends with 1 where something failed that is expected to pass. What tests printed is in the folder that is named at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.gateways import gateway
from tests.gateway.kafka.suites import librdkafka, tools
from tests.gateway.kafka.suites.go_tests import KAFKA_GO, KGO, SARAMA
from tests.gateway.kafka.suites.outcomes import Outcome, expectations, is_worse, table


@dataclass(frozen=True)
class Suite:
    """Where a suite is, and how one of its tests is run: by name, at an address, with its output in a folder."""

    folder: Path
    play: Callable[[str, str, Path], Outcome]
    at_once: int
    """How many of its tests may run beside each other, at most."""


SUITES: Mapping[str, Suite] = {
    "librdkafka": Suite(librdkafka.FOLDER, librdkafka.play, at_once=8),
    "kgo": Suite(KGO.folder, KGO.play, at_once=8),
    "kafka-go": Suite(KAFKA_GO.folder, KAFKA_GO.play, at_once=4),
    "sarama": Suite(SARAMA.folder, SARAMA.play, at_once=1),  # its tests share topics
    "tools": Suite(tools.FOLDER, tools.play, at_once=1),  # one reads what another wrote
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE", help="all by default")
    parser.add_argument("--only", nargs="+", default=(), metavar="TEST")
    parser.add_argument("--address", help="of a gateway, or of a Kafka, that runs; one of its own by default")
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="kafka-suites-"))
    worse = 0
    with ExitStack() as stack:
        address = asked.address
        if address is None:
            served = gateway(str(folder / "lake"), folder / "gateway", "--create-topics", protocol="kafka")
            address = stack.enter_context(served).endpoints
        for name in asked.suites or SUITES:
            worse += _run(name, address, folder, asked.only, asked.at_once)
    print(f"What they printed is in {folder}")
    return 1 if worse else 0


def _run(name: str, address: str, folder: Path, only: tuple[str, ...], at_once: int) -> int:
    """How many tests are worse than expected."""
    suite = SUITES[name]
    if not suite.folder.exists():
        print(f"\n{name}: it is not built, see above")
        return 0
    expected = expectations(name)
    names = [one for one in expected if one in only or not only]
    print(f"\n{name}: {len(names)} tests", flush=True)
    with ThreadPoolExecutor(min(at_once, suite.at_once)) as pool:
        outcomes = list(pool.map(lambda one: suite.play(one, address, folder), names))
    print("\n".join(table(outcomes, expected)), flush=True)
    return sum(is_worse(one, expected[one.name]) for one in outcomes)


if __name__ == "__main__":
    sys.exit(main())
