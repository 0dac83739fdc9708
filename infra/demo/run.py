"""A run of the demo, from a fresh topic to what differs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from ...log.portal import Portal
from ...log.runtime import SystemClock
from ..cli import output
from . import steps
from .outcome import Outcome, total
from .place import Place
from .report import Screen, document, findings_document, produced_line, show_figures, show_findings, show_next_steps
from .steps import Capture

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and where."""

    lake: str
    """As it was written."""
    place: Place
    capture: Capture
    producers: int

    @classmethod
    def of(cls, lake: str, events: Path | None, expect: Path | None, producers: int) -> Plan:
        """Without ``events`` and ``expect`` the shipped capture. Raises `NotSupported` for a lake that the demo cannot use."""
        capture = Capture(events.resolve(), expect.resolve()) if events and expect else Capture()
        return cls(lake, Place.of(lake), capture, producers)


def run_demo(plan: Plan, *, as_json: bool) -> bool:
    """Run all steps and show what they did; whether nothing differs."""
    steps.check_installed()
    place, capture, clock = plan.place, plan.capture, SystemClock()
    screen = Screen(Console(stderr=as_json), clock)
    screen.say(f"Lake {plan.lake}: {plan.producers} processes send {capture.events.name}, and one of them will be killed.")
    with screen.step("produce and publish") as listener:
        streamed = _finished(lambda: steps.stream(place, capture, producers=plan.producers, listener=listener))
    screen.done(produced_line(streamed.produced, plan.producers))
    with screen.step("apply"):
        targets = capture.targets()
        _finished(lambda: steps.apply(place, streamed.topic, streamed.record, targets))
    screen.done(f"Spark applied them to the Delta tables {', '.join(target.table for target in targets)}")
    with screen.step("compare"):
        findings = steps.compare(place, streamed.topic, streamed.record, capture)
    outcome = Outcome(
        lake=plan.lake,
        topic=streamed.topic,
        tables=place.targets(streamed.topic),
        producers=plan.producers,
        produced=streamed.produced,
        lag_ms=streamed.lag_ms,
        requests=total([streamed.produced.requests, streamed.requests]),
        seconds=screen.seconds,
        findings=findings,
    )
    if as_json:
        output.emit(document(outcome))
    else:
        show_findings(findings)
        show_figures(outcome)
        show_next_steps(outcome, capture)
    return findings.equal


def run_check(plan: Plan, topic: str, *, as_json: bool) -> bool:
    """Compare what an earlier run left; whether nothing differs."""
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
    """The result of asynchronous work; Ctrl-C and SIGTERM cancel it, and are raised once it has ended."""
    portal = Portal()
    try:
        return portal.run(work)
    finally:
        portal.stop()
