"""The check of a topic's stored data, as a bounded job of the console. It changes nothing."""

from __future__ import annotations

import asyncio
import shlex
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ....aio import Lake
from ....log.errors import DataDamaged, LimitExceeded, PenstockError, StoreUnavailable, TopicNotFound, unforeseen
from ....log.limits import MIB
from ....log.paths import TopicPaths
from ....log.table.delta.delta_log import DeltaLog
from ....log.topic.records import not_found, read_record
from ....log.verify import VerifyReport
from ...operating.verify import verify_findings
from ..faults import ErrorReport, PagePart
from ..lakes.jobs import BackgroundJob
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest

OBJECTS_MAX = 5_000
"""The largest log, some 5,000 GETs."""
BYTES_MAX = 512 * MIB
BOUNDS_KEPT_S = 60.0
CHECK_S = 600.0
FINDINGS_SHOWN = 200
AGAIN = timedelta(seconds=30)
"""The age below which an outcome is shown again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckBounds:
    """The size of a check."""

    log_objects: int
    """Objects of the log; one above the bound stands for any number."""
    log_bytes: int
    table_bytes: int
    is_small: bool
    """Whether the console checks it, or only the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """A begun check."""

    began: datetime
    took: timedelta
    state: str
    """runs, all is well, DAMAGED, ended before its end."""
    report: VerifyReport | None = None
    findings_total: int = 0
    fault: ErrorReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPage:
    """The content of the page."""

    topic: str
    bounds: PagePart[CheckBounds]
    checked: CheckRun | None
    """The last check by any viewer."""


async def gather(context: PageContext, request: PageRequest) -> CheckPage:
    name = request["topic"]

    async def bounds_of() -> CheckBounds:
        return await context.using(lambda lake: _bounds(lake, name))

    bounds = await context.part(
        lambda _: context.source.memo.get(("bounds of a check", name), bounds_of, fresh_s=BOUNDS_KEPT_S), fatal=(TopicNotFound,)
    )
    jobs = context.source.jobs
    job = jobs.get(name)
    return CheckPage(topic=name, bounds=bounds, checked=None if job is None else checked_of(job, jobs.took(job)))


async def begin(context: PageContext, request: PageRequest) -> None:
    """Begin a check, unless one runs or just ended. Raises `LimitExceeded` for a large topic, `BackPressureError` beside another check."""
    name = request["topic"]
    if is_wanted(context, context.source.jobs.get(name)):
        _check_small(name, await context.using(lambda lake: _bounds(lake, name)))
        context.source.jobs.start(name, lambda: context.using(lambda lake: _work(lake, name)))


def is_wanted(context: PageContext, known: BackgroundJob | None) -> bool:
    return known is None or (not known.runs and context.now - known.began - context.source.jobs.took(known) >= AGAIN)


async def _bounds(lake: Lake, name: str) -> CheckBounds:
    paths = TopicPaths.of(name)
    found = await read_record(lake.store, paths)  # not by opening the topic: a damaged log cannot be opened
    if found is None or found[0].deleted:
        raise not_found(name)
    try:
        table = await DeltaLog(lake.store, paths, found[0].table, lake.runtime, keep_removes=False).refresh()
        table_bytes = table.size_bytes
    except DataDamaged:
        table_bytes = 0  # the check says more of it
    objects = await lake.store.list(paths.log, max_keys=OBJECTS_MAX + 1)
    log_bytes = sum(one.size_bytes for one in objects)
    small = len(objects) <= OBJECTS_MAX and log_bytes + table_bytes <= BYTES_MAX
    return CheckBounds(log_objects=len(objects), log_bytes=log_bytes, table_bytes=table_bytes, is_small=small)


def _check_small(name: str, bounds: CheckBounds) -> None:
    if not bounds.is_small:
        raise LimitExceeded(
            "the topic is too large to be checked here",
            operation="verify",
            object=name,
            expected=f"at most {OBJECTS_MAX:,} objects in the log, and {BYTES_MAX // MIB} MiB with the table",
            observed=f"{bounds.log_objects:,} objects or more, {(bounds.log_bytes + bounds.table_bytes) // MIB:,} MiB",
            hint=f"use `penstock verify {shlex.quote(name)}`",
        )


async def _work(lake: Lake, name: str) -> VerifyReport:
    found = await read_record(lake.store, TopicPaths.of(name))
    if found is None or found[0].deleted:
        raise not_found(name)
    try:
        async with asyncio.timeout(CHECK_S):
            return await verify_findings(lake, name, found[0])
    except TimeoutError:
        raise StoreUnavailable(
            "the check took too long", operation="verify", object=name, expected=f"at most {CHECK_S:.0f} s"
        ) from None


def checked_of(job: BackgroundJob, took: timedelta) -> CheckRun:
    if job.runs:
        return CheckRun(began=job.began, took=took, state="runs")
    if job.task.cancelled():
        return CheckRun(began=job.began, took=took, state="ended before its end")
    error = job.task.exception()
    if isinstance(error, Exception):
        ours = error if isinstance(error, PenstockError) else unforeseen(error, operation="verify")
        return CheckRun(began=job.began, took=took, state="ended before its end", fault=ErrorReport.of(ours))
    report: VerifyReport = job.task.result()
    return CheckRun(
        began=job.began,
        took=took,
        state="all is well" if report.ok else "DAMAGED",
        report=replace(report, findings=report.findings[:FINDINGS_SHOWN]),
        findings_total=len(report.findings),
    )


def live(shown: CheckPage) -> dict[str, object]:
    checked = shown.checked
    return {} if checked is None else {"state": checked.state, "took": checked.took}


PAGE = PageDefinition(
    name="check",
    path="/topics/{topic}/check",
    title="Check of {topic}",
    about="Checks everything that a topic has stored, and log against table, as a job that an operator begins. The page has its outcome.",
    shows=CheckPage,
    gather=gather,
    command=lambda request: ["verify", request["topic"]],
    crumbs=lambda request: [
        Breadcrumb("Topics", "topics"),
        Breadcrumb(f"Topic {request['topic']}", "topic", {"topic": request["topic"]}),
    ],
    live=live,
    begin=begin,
    is_kept=False,
)
