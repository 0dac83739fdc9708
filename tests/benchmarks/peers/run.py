"""Running the steps one after another: what fails, and what time or Ctrl-C cuts off, leaves the figures that were measured."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from tests.benchmarks.figures import Figure, machine, table
from tests.benchmarks.peers.plan import Planned, Step, fit
from tests.benchmarks.peers.screen import Screen

Outcome = Literal["measured", "failed", "out of time", "interrupted", "left out"]
INTERRUPTED = 130
"""The exit code that shells expect after Ctrl-C."""


class StepFailed(Exception):
    """A system did not start, or its client failed."""


class OutOfTime(Exception):
    """What a step may take ended while it ran."""


@dataclass(frozen=True)
class Doing:
    """What a step does from now on."""

    text: str


Event = Doing | Figure
Measure = Callable[[Planned, float | None], Generator[Event]]
"""Measures a step until a time of the monotonic clock; None: for as long as it takes."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a step."""

    name: str
    outcome: Outcome
    repeats: int = 0
    seconds: float = 0.0
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """All results so far."""

    results: tuple[Result, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 if nothing failed. What was left out because the budget is small does not fail."""
        outcomes = {result.outcome for result in self.results}
        if "interrupted" in outcomes:
            return INTERRUPTED
        return 1 if outcomes & {"failed", "out of time"} else 0

    def with_figure(self, figure: Figure) -> Report:
        """With one more figure. A figure whose name is there gets the new one's values appended."""
        known = {one.name: one for one in self.figures}
        old = known.get(figure.name)
        known[figure.name] = figure if old is None else replace(figure, values=(*old.values, *figure.values))
        return replace(self, figures=tuple(known.values()))

    def with_result(self, result: Result) -> Report:
        return replace(self, results=(*self.results, result))

    def document(self) -> Mapping[str, object]:
        steps = [asdict(result) for result in self.results]
        return {"machine": machine(), "steps": steps, "figures": [one.document() for one in self.figures]}


def run(
    steps: Sequence[Step],
    measure: Measure,
    *,
    budget_s: float | None,
    repeats: int,
    screen: Screen,
    monotonic_s: Callable[[], float],
    save: Callable[[Report], None],
) -> Report:
    """Measure the steps that fit. ``save`` is called after each of them. The plan is made anew before each step, by the time that is
    left. A step that takes too long is ended in time for one repeat of each step behind it.
    """
    begun_s = monotonic_s()
    ends_s = None if budget_s is None else begun_s + budget_s
    report, left = Report(), list(steps)
    while left:
        plan = fit(left, budget_s=None if ends_s is None else ends_s - monotonic_s(), repeats=repeats)
        for step in plan.left_out:
            left.remove(step)
            report = report.with_result(Result(name=step.name, outcome="left out"))
            screen.say(f"{step.name} is left out: it needs about {step.takes_s(1):.0f} s, which are not left", mark="[yellow]-[/] ")
        if not plan.chosen:
            break
        planned = plan.chosen[0]
        left.remove(planned.step)
        kept_s = sum(step.takes_s(1) for step in left)
        report = _step(
            report, planned, measure, ends_s=None if ends_s is None else ends_s - kept_s, screen=screen, monotonic_s=monotonic_s
        )
        save(report)
        if report.results[-1].outcome == "interrupted":
            screen.say(f"interrupted; not measured: {', '.join(step.name for step in left) or 'nothing else'}", mark="[red]✗[/] ")
            return report
    save(report)
    return report


def _step(
    report: Report, planned: Planned, measure: Measure, *, ends_s: float | None, screen: Screen, monotonic_s: Callable[[], float]
) -> Report:
    name, begun_s = planned.step.name, monotonic_s()
    outcome: Outcome = "measured"
    said = ""
    repeats = "1 repeat" if planned.repeats == 1 else f"{planned.repeats} repeats"
    screen.say(f"{name}: {planned.step.about}; {repeats}, about {planned.takes_s:.0f} s")
    try:
        with screen.step(name) as doing, closing(measure(planned, ends_s)) as events:
            for event in events:
                if isinstance(event, Doing):
                    doing(event.text)
                else:
                    report = report.with_figure(event)
                    screen.measured(event)
    except OutOfTime:
        outcome, said = "out of time", "its share of the time ended"
    except KeyboardInterrupt:
        outcome, said = "interrupted", "Ctrl-C"
    except StepFailed as error:
        outcome, said = "failed", str(error)
    except Exception as error:  # noqa: BLE001 - whatever a system fails with is told, and the others go on
        outcome, said = "failed", f"{type(error).__name__}: {error}"
    took_s = monotonic_s() - begun_s
    if outcome == "measured":
        screen.say(f"{name} took {took_s:.0f} s", mark="[green]✓[/] ")
    else:
        screen.say(f"{name}: {outcome} after {took_s:.0f} s: {said}", mark="[red]✗[/] ")
    return report.with_result(Result(name=name, outcome=outcome, repeats=planned.repeats, seconds=round(took_s, 1), said=said))


def write(report: Report, path: Path) -> None:
    """The report as JSON; a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(report.document(), indent=1) + "\n")
    fresh.replace(path)


def shown(report: Report) -> str:
    """The table of figures, and below it what is missing in it."""
    lines = [table(report.figures)] if report.figures else []
    lines += [
        ": ".join(filter(None, [one.name, one.outcome, _brief(one.said)])) for one in report.results if one.outcome != "measured"
    ]
    return "\n".join(lines)


def _brief(said: str) -> str:
    """The first and the last line; all of them were shown when they came, and are in the JSON."""
    lines = said.splitlines()
    return " … ".join(dict.fromkeys([lines[0], lines[-1]])) if lines else ""
