"""``python -m tests.benchmarks.peers.ours PART REPEATS``: the figures of Penstock to hold beside a peer's. Prints one JSON line a figure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from tests.benchmarks import reading, sending
from tests.benchmarks.consumers import throughput
from tests.benchmarks.figures import Figure, Options

PARTS: dict[str, Callable[[Options], Iterator[Figure]]] = {
    "send": sending.measure,
    "read": reading.measure,
    "push single messages": lambda options: throughput.measure(options, _shapes(None)),
    "push lists of a group": lambda options: throughput.measure(options, _shapes("group")),
    "push lists of a queue": lambda options: throughput.measure(options, _shapes("queue")),
    "push, other settings": lambda options: throughput.measure(options, [shape for shape in throughput.compared() if shape.about]),
}


def _shapes(batch: str | None) -> list[throughput.Shape]:
    return [shape for shape in throughput.compared() if shape.batch == batch and not shape.about]


def main(part: str, repeats: int) -> None:
    for figure in PARTS[part](Options(repeats=repeats)):
        if figure.unit != "%":
            print(json.dumps({"figure": asdict(figure)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
