"""The metrics of a pool of workers, beside its workers' own."""

from __future__ import annotations

from ..log.metrics import gauge, watched

WORKERS_READY = gauge("penstock_pool_workers_ready", "Worker processes of this pool that work now", labels=())
WORKER_STARTS = watched("penstock_pool_worker_starts_total", "Worker processes started, replacements included", labels=())

CATALOGUE = (WORKERS_READY, WORKER_STARTS)
