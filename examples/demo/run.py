"""A run of the demo, from a fresh topic to the differences."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from penstock.cdc.delta.freshness import Freshness, freshness
from penstock.infra.terminal import output
from penstock.log.runtime.portal import Portal
from penstock.log.runtime.runtime import SystemClock

from . import steps
from .checks.fresh import Times, read_times
from .outcome import DriverCrash, Outcome, total
from .picture import Mark, picture
from .place import Place
from .report import (
    KILLED,
    RETURNED,
    Screen,
    document,
    findings_document,
    produced_line,
    show_figures,
    show_findings,
    show_next_steps,
    show_picture,
)
from .steps import Capture, Streamed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a run, and its place."""

    lake: str
    """The lake as the user named it."""
    place: Place
    capture: Capture
    producers: int
    events_per_s: float
    """The rate of all producers together; 0: as fast as they can."""
    crashes: bool
    """Whether to kill one producer, and Spark's driver."""

    @classmethod
    def of(
        cls, lake: str, events: Path | None, expect: Path | None, producers: int, events_per_s: float, *, crashes: bool = True
    ) -> Plan:
        """The plan; without ``events`` and ``expect``, for the shipped capture. Raises `NotSupported` for a lake that the demo cannot use."""
        capture = Capture(events.resolve(), expect.resolve()) if events and expect else Capture()
        return cls(lake, Place.of(lake), capture, producers, events_per_s, crashes)


def run_demo(plan: Plan, *, as_json: bool) -> bool:
    """Run all steps and show their results. Returns whether nothing differs."""
    steps.check_installed()
    place, capture, clock = plan.place, plan.capture, SystemClock()
    screen = Screen(Console(stderr=as_json), clock)
    tables = [target.table for target in capture.targets()]
    screen.say(
        f"Lake {plan.lake}: Spark starts and follows the topic, {plan.producers} processes send {capture.events.name}, and the Delta "
        f"tables {', '.join(tables)} are kept in step.{' One producer will be killed, and the driver.' if plan.crashes else ''}"
    )
    with screen.step("produce, publish and sync") as listener:
        streamed = _finished(
            lambda: steps.stream(
                place,
                capture,
                producers=plan.producers,
                events_per_s=plan.events_per_s,
                crashes=plan.crashes,
                listener=listener,
            )
        )
    screen.done(produced_line(streamed.produced, plan.producers))
    with screen.step("compare"):
        findings = steps.compare(place, streamed.topic, streamed.record, capture)
        topic_table = place.topic_table(streamed.topic, streamed.record)
        times = read_times(topic_table, place.targets(streamed.topic), tables, place.storage_options)
    outcome = Outcome(
        lake=plan.lake,
        topic=streamed.topic,
        tables=place.targets(streamed.topic),
        producers=plan.producers,
        produced=streamed.produced,
        driver_crash=streamed.driver_crash,
        freshness=freshness(times.stored_ms, times.visible_ms),
        freshness_undisturbed=_undisturbed(times, streamed.driver_crash),
        picture=_picture(streamed, times),
        lag_ms=streamed.lag_ms,
        requests=total([streamed.produced.requests, streamed.requests]),
        seconds=screen.seconds,
        findings=findings,
    )
    if as_json:
        output.emit(document(outcome))
    else:
        show_picture(outcome)
        show_findings(findings)
        show_figures(outcome)
        show_next_steps(outcome, capture)
    return findings.equal


def _undisturbed(times: Times, crash: DriverCrash | None) -> Freshness:
    """The freshness of events that did not wait while there was no driver: visible before it was killed, or appended after another was
    there.
    """
    if crash is None:
        return freshness(times.stored_ms, times.visible_ms)
    waited = (times.stored_ms < crash.returned_ms) & ((times.visible_ms < 0) | (times.visible_ms >= crash.killed_ms))
    return freshness(times.stored_ms[~waited], times.visible_ms[~waited])


def _picture(streamed: Streamed, times: Times) -> list[str]:
    crash, driver = streamed.produced.crash, streamed.driver_crash
    marks = [Mark(crash.killed_ms, KILLED)] if crash else []
    marks += [Mark(driver.killed_ms, KILLED), Mark(driver.returned_ms, RETURNED)] if driver else []
    return picture(times.stored_ms, times.visible_ms, marks)


def run_check(plan: Plan, topic: str, *, as_json: bool) -> bool:
    """Compare the tables of an earlier run. Returns whether nothing differs."""
    steps.check_installed(spark=False)
    with Screen(Console(stderr=as_json), SystemClock()).step("compare"):
        record = _finished(lambda: steps.find_topic(plan.place, topic))
        findings = steps.compare(plan.place, topic, record, plan.capture)
    if as_json:
        output.emit(findings_document(findings))
    else:
        show_findings(findings)
    return findings.equal


def _finished(work: Callable[[], Awaitable[T]]) -> T:
    """The result of asynchronous work. Ctrl-C and SIGTERM cancel it, and are raised once it has ended."""
    portal = Portal()
    try:
        return portal.run(work)
    finally:
        portal.stop()
