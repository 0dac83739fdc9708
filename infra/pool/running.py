"""A command as the parent of a pool of its own kind."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from ...log.metrics import MemoryMetrics, Sample
from ...log.runtime.portal import Portal
from ..metrics import WorkersCollector, metrics_server, metrics_text
from ..pool_metrics import WORKER_STARTS, WORKERS_READY
from ..terminal.session import CommandSession
from ..terminal.stopper import Stopper
from .pool import Pool
from .source_watch import SourceWatch

log = logging.getLogger("penstock.pool")

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
    watched: Sequence[Path] = (),
) -> int:
    """Run this process's own command line in so many workers, until told to stop. Returns the exit code.

    Every worker gets the option ``--worker`` in addition. The parent serves the metrics of all. SIGHUP, and a change of a Python file in the
    ``watched`` folders, starts new workers once the present ones have drained.
    """
    command = [sys.executable, "-c", _THIS_PROGRAM, *sys.argv[1:]]
    pool = Pool(command, processes, patience=patience, outlives_failure=bool(watched))
    watch = SourceWatch(watched, passed_over=_folder_of(session)) if watched else None
    stopper, reloads, portal = Stopper(), _Reloads(), Portal()
    metrics = _own_metrics(pool)

    def texts() -> Mapping[str, str]:
        of_workers = portal.run(pool.metrics)
        return {_PARENT: metrics_text(metrics), **{str(number): text for number, text in sorted(of_workers.items())}}

    async def run() -> int:
        stopped = stopper.attach()
        ending = asyncio.ensure_future(stopped.wait())
        ending.add_done_callback(lambda done: None if done.cancelled() else pool.end())
        reloads.attach(pool.reload)
        following = None if watch is None else asyncio.ensure_future(watch.follow(partial(_reload, pool)))
        try:
            return await pool.run()
        finally:
            ending.cancel()
            if following is not None:
                following.cancel()

    try:
        with (
            metrics_server(WorkersCollector(texts), metrics_port, metrics_host),
            session.signals.held(stopper.stop),
            reloads.on_hangup(),
        ):
            return portal.run(run)
    finally:
        portal.stop()


def _reload(pool: Pool, changed: list[str]) -> None:
    others = f" and {len(changed) - 1} others" if len(changed) > 1 else ""
    log.info("%s%s changed, so all workers start anew", changed[0], others)
    pool.reload()


def _folder_of(session: CommandSession) -> list[Path]:
    """The lake, if it is a folder: its files are no program."""
    return [Path(session.url)] if session.url and "://" not in session.url else []


class _Reloads:
    """Leads SIGHUP to the pool's event loop."""

    def __init__(self) -> None:
        self._reload: Callable[[], object] = lambda: None

    def attach(self, reload: Callable[[], object]) -> None:
        loop = asyncio.get_running_loop()
        self._reload = lambda: loop.call_soon_threadsafe(reload)

    @contextmanager
    def on_hangup(self) -> Iterator[None]:
        """SIGHUP reloads inside the block, unless it says that the terminal is gone, or is ignored as `nohup` has it."""
        if (sys.stdin is not None and sys.stdin.isatty()) or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
            yield
            return
        before = signal.signal(signal.SIGHUP, lambda number, frame: self._reload())
        try:
            yield
        finally:
            signal.signal(signal.SIGHUP, before)


def _own_metrics(pool: Pool) -> MemoryMetrics:
    metrics = MemoryMetrics()
    metrics.watch(lambda: [Sample(WORKERS_READY, (), pool.ready), Sample(WORKER_STARTS, (), pool.starts)])
    return metrics
