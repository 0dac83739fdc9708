"""A command as the parent of a pool of its own kind."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from datetime import timedelta

from ...log.metrics import MemoryMetrics, Sample
from ...log.runtime.portal import Portal
from ..metrics import WorkersCollector, metrics_server, metrics_text
from ..pool_metrics import WORKER_STARTS, WORKERS_READY
from ..terminal.session import CommandSession
from ..terminal.stopper import Stopper
from .pool import Pool

_PARENT = "parent"
"""The label of the parent's own metrics."""
_THIS_PROGRAM = "from penstock.infra.cli import main; main(prog_name='penstock')"


def run_pool(
    session: CommandSession,
    processes: int,
    *,
    metrics_port: int | None,
    metrics_host: str,
    patience: timedelta | None = None,
) -> int:
    """Run this process's own command line in so many workers, until told to stop. Returns the exit code.

    Every worker gets the option ``--worker`` in addition. The parent serves the metrics of all.
    """
    pool = Pool([sys.executable, "-c", _THIS_PROGRAM, *sys.argv[1:]], processes, patience=patience)
    stopper, portal = Stopper(), Portal()
    metrics = _own_metrics(pool)

    def texts() -> Mapping[str, str]:
        of_workers = portal.run(pool.metrics)
        return {_PARENT: metrics_text(metrics), **{str(number): text for number, text in sorted(of_workers.items())}}

    async def run() -> int:
        stopped = stopper.attach()
        ending = asyncio.ensure_future(stopped.wait())
        ending.add_done_callback(lambda done: None if done.cancelled() else pool.end())
        try:
            return await pool.run()
        finally:
            ending.cancel()

    try:
        with metrics_server(WorkersCollector(texts), metrics_port, metrics_host), session.signals.held(stopper.stop):
            return portal.run(run)
    finally:
        portal.stop()


def _own_metrics(pool: Pool) -> MemoryMetrics:
    metrics = MemoryMetrics()
    metrics.watch(lambda: [Sample(WORKERS_READY, (), pool.ready), Sample(WORKER_STARTS, (), pool.starts)])
    return metrics
