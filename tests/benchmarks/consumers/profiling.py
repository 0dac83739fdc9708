"""Where the processor's time goes while messages are received or handled: Python calls a message on the event loop, and the dearest functions.

    python -m tests.benchmarks.consumers.profiling {one,each,all,thousand,push,lists,default} [--order CONCURRENT] [--sort cumulative] [--count 20000]

The first run warms up and is not profiled. Calls a message hardly change with the load of the machine, as rates do. Other threads are not seen:
SQLite's, those of handlers and Arrow's.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.benchmarks.consumers import receiving, throughput
from tests.benchmarks.consumers.throughput import Run

_GROUPS = 10_000
_RECEIVED = {
    "one": receiving.Shape(order="ORDERLY", at_once=1, askers=1),
    "each": receiving.Shape(order="ORDERLY", at_once=32, askers=16, each=True),
    "all": receiving.Shape(order="ORDERLY", at_once=32, askers=16),
    "thousand": receiving.Shape(order="ORDERLY", at_once=1_000, askers=4),
}
_PUSHED = {
    "push": throughput.Shape(order="ORDERLY", groups=_GROUPS),
    "lists": throughput.Shape(order="ORDERLY", groups=_GROUPS, batch="group"),
    "default": throughput.Shape(order="ORDERLY", groups=100, threads=20, cache_messages=1_024),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.consumers.profiling")
    parser.add_argument("what", choices=[*_RECEIVED, *_PUSHED])
    parser.add_argument("--order", choices=["ORDERLY", "CONCURRENT"], default="ORDERLY")
    parser.add_argument("--sort", default="tottime", help="as of pstats (%(default)s)")
    parser.add_argument("--count", type=int, default=20_000, help="messages (%(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = Path(folder)
        run: Callable[[int], Awaitable[Run]]
        if given.what in _RECEIVED:
            groups, run = _GROUPS, partial(receiving.receive, root, replace(_RECEIVED[given.what], order=given.order))
        else:
            pushed = replace(_PUSHED[given.what], order=given.order)
            groups, run = pushed.groups, partial(throughput.consume, root, pushed)
        asyncio.run(throughput.fill(root, given.count, groups))
        asyncio.run(run(given.count))
        profile = cProfile.Profile()
        profile.enable()
        asyncio.run(run(given.count))
        profile.disable()
    statistics = pstats.Stats(profile)
    print(f"{statistics.total_calls / given.count:,.1f} calls a message")  # type: ignore[attr-defined]
    statistics.sort_stats(given.sort).print_stats(40)


if __name__ == "__main__":
    main()
