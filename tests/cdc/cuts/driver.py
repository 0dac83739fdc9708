"""A sync that records cuts, as its own process, which may kill itself at a step.

    python -m tests.cdc.cuts.driver LAKE INTO "MOMENT STEP:COUNT" MAX_EVENTS [once]

COUNT: the how manyeth time; ``never`` for the step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

from penstock import SyncOptions, sync
from penstock.coordinator import coordination

LEASE_S = 2.0
"""So that whoever is killed is replaced soon."""


class Fatal:
    def __init__(self, point: str) -> None:
        self._point, _, count = point.partition(":")
        self._count = int(count or 1)
        self._reached = Counter[str]()

    def reached(self, step: str, moment: str, what: str = "") -> None:
        self._reached[f"{moment} {step}"] += 1
        if f"{moment} {step}" == self._point and self._reached[self._point] >= self._count:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    setattr(coordination, "LEASE_S", LEASE_S)  # noqa: B010 - it is not exported from there
    lake, into, fatal, max_events, *once = sys.argv[1:]
    run = sync(
        lake,
        "changes",
        SyncOptions(into=into, trigger="available_now" if once else 0.1, max_events=int(max_events), cuts=True, compact_every=20),
        steps=Fatal(fatal),
    )
    signal.signal(signal.SIGTERM, lambda *_: run.stop())
    while not run.await_termination(1.0):
        pass
    if run.stopped:
        sys.exit(str(run.stopped))
