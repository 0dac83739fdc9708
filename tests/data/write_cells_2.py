"""Writes the fixture ``cells-2.json``: cells of the format with sections, which name receives and say how often what was given up was
delivered.

    python -m tests.data.write_cells_2 tests/data/cells-2.json

Run once, by the version that introduced these sections.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

from penstock.coordinator.cells.keys import queue_key
from tests.consumers.receiving import Scene

LONG, NOTHING = timedelta(hours=1), timedelta(0)


def main(target: Path) -> None:
    target.write_text(json.dumps({order: written(order) for order in ("ORDERLY", "CONCURRENT")}, indent=1) + "\n")


def written(order: str) -> dict[str, str]:
    """The secret of a consumer group, and a queue's cell as hexadecimal digits."""
    scene = Scene()
    found: dict[str, str] = {}

    async def script() -> None:
        one, two = scene.member("one"), scene.member("two")
        await one.consume(delivery_order=order)
        await one.send("a1", "b1", "a2", "c1", "a3", "d1", "e1")
        await scene.let_pass(2)
        receive = one.consumer.receive
        first, *_ = await one.run(receive(4, LONG, NOTHING, attempt_id="attempt", holder="client"))
        await one.run(receive(1, LONG, NOTHING, holder="another"))
        await one.run(receive(1, LONG, NOTHING))
        one.process.crash()
        await two.consume(delivery_order=order)
        await two.run(two.consumer.dead_letter(first))
        stored = await scene.table.memory.get(queue_key("audit", "orders", 0))
        assert stored is not None, "the queue has an owner"
        found.update(secret=two.consumer._membership.record.secret, cell=stored.data[16:].hex())

    scene.play(script)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
