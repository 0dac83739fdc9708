"""Maintains topics by the command line: once, or as a player of the role."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from functools import partial

from ....aio import Lake
from ....consumers import Metrics
from ....coordinator.maintenance import LakeMaintenance, OnStep
from ....coordinator.rebalance.roles import OfferedRole, run_roles
from ....coordinator.timers.metrics import timer_samples
from ....coordinator.timers.role import Timers
from ....coordinator.transactions.finisher import finisher_of, run_finisher
from ....coordinator.transactions.metrics import transaction_samples
from ....log import PenstockError, TopicNotFound
from ....log.paths import TopicPaths, timer_log_name
from ....log.stores import probe_conditional_writes
from ....log.table.maintenance import MaintenanceOptions
from ....log.topic.records import read_record
from ....log.topic.timer_log import delays
from ...lake_metrics import LakeMetrics


async def maintain_once(lake: Lake, names: Sequence[str], report: OnStep) -> None:
    timers = Timers(lake)
    upkeep, chosen = await _prepared(lake, names, report, MaintenanceOptions(), timers)
    for name in chosen or await upkeep.topics():
        await upkeep.once(name)
    for name in await timers.topics():
        try:
            report(name, "timers", await timers.once(name))
        except PenstockError as error:
            report(name, "timers", error)
    if not names:
        await _finish_once(lake, report)


async def _finish_once(lake: Lake, report: OnStep) -> None:
    finisher = finisher_of(lake.transactions, report=partial(_report_transactions, report))
    for group in sorted(await finisher.groups()):
        try:
            report(group, "transactions", await finisher.once(group))
        except PenstockError as error:
            report(group, "transactions", error)


async def maintain_forever(
    lake: Lake,
    names: Sequence[str],
    report: OnStep,
    stop: asyncio.Event,
    *,
    publish_interval: timedelta,
    metrics: Metrics,
    look_interval: timedelta | None = None,
) -> None:
    """Play the roles that maintain a lake until ``stop`` is set; steps under way are ended first. Faults of the store are reported and outlived. With
    a ``look_interval`` also count all groups and timers.
    """
    timers = Timers(lake)
    metrics.watch(lambda: timer_samples(dict(timers.statistics)))
    metrics.watch(lambda: transaction_samples(lake.transaction_statistics()))
    upkeep, chosen = await _prepared(lake, names, report, MaintenanceOptions(publish_interval=publish_interval), timers)

    async def named() -> Sequence[str]:
        return chosen

    def failed(topic: str, error: PenstockError) -> None:
        report(topic, "look", error)

    part = OfferedRole(topics=named if names else upkeep.topics, play=upkeep.play, all_topics=not names)
    coordination = lake.coordination
    maintained = run_roles(
        coordination.cells,
        coordination.worker,
        coordination.watch,
        lake.runtime,
        part,
        stop,
        ready=coordination.claim,
        report=failed,
        patience_s=0.0,
    )
    timed = timers.run(coordination, stop, on_error=lambda topic, error: report(topic, "timers", error))
    roles: list[Awaitable[None]] = [maintained, timed]
    if not names:
        roles.append(run_finisher(lake.transactions, coordination, stop, report=partial(_report_transactions, report)))
    if look_interval is not None:
        everything = LakeMetrics(lake, only=names, interval=look_interval)
        metrics.watch(everything.samples)
        roles.append(everything.run(stop, report))
    await asyncio.gather(*roles)


def _report_transactions(report: OnStep, what: str, error: PenstockError) -> None:
    report(what, "transactions", error)


async def _prepared(
    lake: Lake, names: Sequence[str], report: OnStep, options: MaintenanceOptions, timers: Timers
) -> tuple[LakeMaintenance, Sequence[str]]:
    """Raises `TopicNotFound`, and the error of a store that is unfit for writing."""
    await probe_conditional_writes(lake.store, lake.runtime)
    delayed = []
    for name in names:
        found = await read_record(lake.store, TopicPaths.of(name))
        if found is None:
            raise TopicNotFound("there is no such topic", object=name, hint="`penstock topic list` names those that are there")
        delayed += [timer_log_name(name)] if delays(found[0]) and not found[0].deleted else []
    timers.see(delayed)
    coordination = lake.coordination
    upkeep = LakeMaintenance(
        lake,
        coordination.cells,
        coordination.groups,
        options=options,
        on_step=report,
        on_look=lambda topics: None if names else timers.see(topics),
    )
    return upkeep, [*names, *delayed]
