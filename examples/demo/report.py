"""The demo's output: progress while it runs, tables at its end, and the same for programs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.infra.terminal import output
from penstock.log.runtime.runtime import Clock
from penstock.log.stores import StoreStatistics

from .outcome import Crash, DriverCrash, Findings, Outcome, Produced
from .processes.producers import Listener
from .steps import Capture

KILLED, RETURNED = "✗", "↑"


class Screen:
    """Tells the progress line by line, with a bar below on a terminal, and measures the time of every step."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[Listener]:
        """One step, shown as long as it runs; the listener moves its bar."""
        begun_s = self._clock.monotonic_s()
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal) as bar:
            task = bar.add_task(name, total=None)
            yield Listener(
                started=lambda events: bar.update(task, total=events),
                durable=lambda events: bar.update(task, completed=events),
                killed=lambda crash: self.say(killed_line(crash), mark="[red]✗[/] "),
                returned=lambda crash: self.done(returned_line(crash)),
                following=lambda: self.done(f"Spark's driver follows the topic after {self._clock.monotonic_s() - begun_s:.1f} s"),
                driver_killed=lambda crash: self.say(driver_killed_line(crash), mark="[red]✗[/] "),
                driver_returned=lambda crash: self.done(driver_returned_line(crash)),
            )
        self.seconds[name] = self._clock.monotonic_s() - begun_s

    def done(self, line: str) -> None:
        """Say that something is finished, and well."""
        self.say(line, mark="[green]✓[/] ")

    def say(self, line: str, *, mark: str = "") -> None:
        """Print a line. ``mark`` may hold rich's markup; the line is plain."""
        self._console.print(mark, end="")
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def killed_line(crash: Crash) -> str:
    """A line about where a producer was killed."""
    events = f"{crash.events:,} of its events (sequences {crash.first} to {crash.last})"
    if crash.own_entry:
        done = f"it had written {events} to the log, as entry {crash.entry},"
    else:
        done = f"it had handed over {events}, another producer had written them to the log, in entry {crash.entry},"
    return f"{crash.producer} is killed (SIGKILL): {done} and it had not heard so yet"


def returned_line(crash: Crash) -> str:
    """A line about the producer's return."""
    return (
        f"{crash.producer} came back and went on from its last sequence: {crash.durable:,} of its events were durable already, "
        f"{crash.durable - crash.acknowledged:,} of them never acknowledged; those were passed over, not sent twice"
    )


def driver_killed_line(crash: DriverCrash) -> str:
    """A line about where Spark's driver was killed."""
    return (
        f"Spark's driver is killed (SIGKILL): table {crash.target} had the commit of batch {crash.batches + 1}, "
        f"and no other table, nor the sync's own record"
    )


def driver_returned_line(crash: DriverCrash) -> str:
    """A line about the driver's return."""
    seconds = (crash.returned_ms - crash.killed_ms) / 1000
    return (
        f"another driver follows the topic {seconds:.1f} s later, and goes on where each table's last commit says; what that had is "
        f"passed over, not applied twice"
    )


def produced_line(produced: Produced, producers: int) -> str:
    """A line about the producers' speed."""
    return (
        f"{produced.events:,} events are durable after {produced.seconds:.1f} s, {rate(produced):,.0f} a second by {producers} "
        f"processes{' (crash and return included)' if produced.crash else ''}, and published to the topic's Delta table"
    )


def rate(produced: Produced) -> float:
    """The number of events a second."""
    return produced.events / max(produced.seconds, 1e-9)


def show_findings(findings: Findings) -> None:
    """Show the comparison."""
    stream = findings.stream
    rows = [(f"table {t.table}", t.expected, t.found, t.missing, t.extra, t.different) for t in findings.tables]
    counts = stream.expected, stream.found, stream.missing, stream.doubled + stream.foreign, stream.out_of_order
    rows.append(("events of the topic, in order", *counts))
    output.say("")
    output.table(("compared", "expected", "found", "missing", "extra", "different"), rows)
    output.say("")
    output.table(
        ("target", "columns"), [(t.table, ", ".join(f"{name} {kind}" for name, kind in t.columns.items())) for t in findings.tables]
    )
    examples = [f"{t.table}: {example}" for t in findings.tables for example in t.examples]
    for line in [*examples, *(f"topic: {example}" for example in stream.examples)]:
        output.say(f"  {output.printable(line)}")
    if findings.equal:
        output.say(click.style("\nEvery event is there, once and in order, and every row is as in the source.", fg="green"))
    else:
        output.say(click.style("\nThe lake differs from the source.", fg="red"))


def show_picture(outcome: Outcome) -> None:
    """Show the events sent, visible and waiting over time."""
    output.say("")
    for line in outcome.picture:
        output.say(line)
    output.say(f"  {KILLED} killed   {RETURNED} Spark's driver is back")


def show_figures(outcome: Outcome) -> None:
    """Show requests, their costs, freshness and times."""
    requests, events = outcome.requests, outcome.produced.events
    output.say("")
    output.table(("requests", *_verbs(requests)), _request_rows(requests))
    output.say(
        f"\nProducers and publisher made them, Spark's are not counted; on S3 they cost {requests.cost_usd:.4f} USD, "
        f"{requests.cost_usd / events * 1e6:.2f} USD for a million such events."
    )
    fresh = outcome.freshness
    output.say(
        f"An event was visible in its target table {fresh.p50_ms / 1000:.1f} s after it was durable (p50), {fresh.p99_ms / 1000:.1f} s "
        f"(p99), {fresh.max_ms / 1000:.1f} s at most{', the death and return of the driver included' if outcome.driver_crash else ''}."
    )
    if outcome.driver_crash:
        alive = outcome.freshness_undisturbed
        output.say(
            f"Of the {alive.events:,} events that did not wait while there was no driver: {alive.p50_ms / 1000:.1f} s (p50), "
            f"{alive.p99_ms / 1000:.1f} s (p99)."
        )
    output.say(f"Rows could be read from the topic's Delta table at most {outcome.lag_ms / 1000:.1f} s after they were durable.")
    steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in outcome.seconds.items())
    output.say(f"Times: {steps}; together {sum(outcome.seconds.values()):.1f} s.")


def show_next_steps(outcome: Outcome, capture: Capture) -> None:
    """Show commands to try on the demo's lake."""
    lake, topic = shlex.quote(outcome.lake), outcome.topic
    output.say(click.style("\nTry next", bold=True))
    for what, command in (
        ("its queues, and the hottest rows", f"topic describe {topic}"),
        ("the life of one row, in order", f"read {topic} --group {shlex.quote(capture.first_group())}"),
        ("every checksum, offset and row, log against table", f"verify {topic}"),
        ("how far the sync is", f"group describe sync-{topic}"),
    ):
        output.say(f"  {output.program()} {command} --lake {lake}" + click.style(f"  # {what}", dim=True))
    again = shlex.quote(f"--check {topic}{_options(capture)} --lake {lake}")
    output.say(f"  make demo ARGS={again}" + click.style("  # this comparison, after changing whatever you like", dim=True))


def document(outcome: Outcome) -> dict[str, object]:
    """A run for programs."""
    produced = outcome.produced
    return {
        "equal": outcome.findings.equal,
        "lake": outcome.lake,
        "topic": outcome.topic,
        "tables": outcome.tables,
        "producers": outcome.producers,
        "events": produced.events,
        "events_per_s": round(rate(produced), 1),
        "produce_s": round(produced.seconds, 3),
        "crash": asdict(produced.crash) if produced.crash else None,
        "driver_crash": asdict(outcome.driver_crash) if outcome.driver_crash else None,
        "freshness": asdict(outcome.freshness),
        "freshness_undisturbed": asdict(outcome.freshness_undisturbed),
        "lag_ms": outcome.lag_ms,
        "requests": asdict(outcome.requests),
        "cost_usd": round(outcome.requests.cost_usd, 6),
        "seconds": {name: round(seconds, 3) for name, seconds in outcome.seconds.items()},
        "findings": findings_document(outcome.findings),
    }


def findings_document(findings: Findings) -> dict[str, object]:
    """The comparisons for programs."""
    return {
        "equal": findings.equal,
        "tables": [{**asdict(table), "equal": table.equal} for table in findings.tables],
        "stream": {**asdict(findings.stream), "equal": findings.stream.equal},
    }


def _verbs(requests: StoreStatistics) -> list[str]:
    return [verb.name.upper() for verb in fields(requests)]


def _request_rows(requests: StoreStatistics) -> Sequence[Sequence[object]]:
    counts = [getattr(requests, verb.name) for verb in fields(requests)]
    return [("made", *(c.requests for c in counts)), ("moved", *(output.size_text(c.bytes) for c in counts))]


def _options(capture: Capture) -> str:
    """The options that name this capture again."""
    if capture.is_shipped:
        return ""
    return f" --events {shlex.quote(str(capture.events))} --expect {shlex.quote(str(capture.dumps))}"
