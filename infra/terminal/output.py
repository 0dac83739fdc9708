"""The output of commands: tables and sentences for people, JSON lines for programs, progress on stderr."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ...log.escapes import escaped_json
from ..json_values import json_value
from .session import CommandSession, stderr_is_terminal, writing_output

if TYPE_CHECKING:
    from rich.table import Table

Columns: TypeAlias = "Mapping[str, str | Callable[[Any], object]]"
"""A dataclass's columns for people: by heading, the field, with dots for nested ones, or a function of the value."""

_WIDTH_IN_PIPES = 200


def say(text: str) -> None:
    write_text(text + "\n")


def write_text(text: str) -> None:
    with writing_output():
        raw = getattr(sys.stdout, "buffer", None)
        if not isinstance(raw, io.RawIOBase):
            click.echo(text, nl=False)
            return
        # PYTHONUNBUFFERED, as images for containers set it: of what a full pipe does not take at once Python would drop the rest.
        plain = text if sys.stdout.isatty() else click.unstyle(text)
        left = memoryview(plain.encode(sys.stdout.encoding, sys.stdout.errors or "strict"))
        while left:
            left = left[raw.write(left) or 0 :]


def program() -> str:
    """This program for a shell: its name, or its path if that is not on the PATH."""
    called = sys.argv[0]
    if os.path.basename(called) != "penstock":  # it was called as a module, or by a test
        return "penstock"
    found = shutil.which("penstock")
    return "penstock" if found is not None and os.path.realpath(found) == os.path.realpath(called) else shlex.quote(called)


def note(text: str) -> None:
    """Write a sentence to stderr."""
    click.echo(text, err=True)


def emit(value: object) -> None:
    """Write a value as one JSON line to standard output."""
    write_text(json_line(value))


def json_line(value: object) -> str:
    return escaped_json(json.dumps(value, ensure_ascii=False, default=json_value)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Write a table for people, with numbers to the right. Colour only on a terminal, and never markup in users' texts."""
    if title is not None:
        say(click.style(f"\n{title}", bold=True))
    draw(grid(columns, rows))


def records(session: CommandSession, found: Sequence[object], columns: Columns, *, nothing: str | None = None) -> bool:
    """Write dataclasses: a table for people, or ``nothing``; a JSON line each for programs. Returns whether there are any."""
    if session.as_json:
        for one in found:
            emit(one)
    elif found or nothing is None:
        rows(found, columns)
    else:
        note(nothing)
    return bool(found)


def rows(found: Iterable[object], columns: Columns, *, title: str | None = None) -> None:
    table(tuple(columns), (cells(one, columns) for one in found), title=title)


def record_grid(found: Iterable[object], columns: Columns) -> Table:
    return grid(tuple(columns), (cells(one, columns) for one in found))


def facts(heading: tuple[str, str], one: object, columns: Columns) -> None:
    """Write facts for people, one a line, without None."""
    known = [(name, value) for name, value in zip(columns, cells(one, columns), strict=True) if value is not None]
    table(heading, [(name, format_value(value)) for name, value in known])


def cells(one: object, columns: Columns) -> list[object]:
    return [field(one) if callable(field) else attrgetter(field)(one) for field in columns.values()]


def draw(part: Table | str) -> None:
    if isinstance(part, str):
        say(part)
        return
    from rich.console import Console

    drawn = io.StringIO()
    Console(file=drawn, force_terminal=sys.stdout.isatty(), width=width(), highlight=False).print(part)
    say("\n".join(line.rstrip() for line in drawn.getvalue().strip("\n").splitlines()))


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    texts = [[format_value(value) for value in row] for row in rows]
    built = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, name in enumerate(columns):
        numbers = bool(texts) and all(row[place].replace(",", "").lstrip("-").isdigit() for row in texts)
        built.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in texts:
        built.add_row(*map(Text, row))
    return built


@contextmanager
def live_display() -> Iterator[Callable[[Sequence[Table | str]], None]]:
    """Draw tables and sentences again and again by the yielded function: in place on a terminal, otherwise in turn."""
    if not sys.stdout.isatty():

        def follow(parts: Sequence[Table | str]) -> None:
            for part in parts:
                draw(part)
            sys.stdout.flush()

        yield follow
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    with writing_output(), Live(console=Console(highlight=False), auto_refresh=False) as live:
        yield lambda parts: live.update(Group(*(Text(part) if isinstance(part, str) else part for part in parts)), refresh=True)


def width() -> int:
    """The width of a line: the terminal's, or in a pipe ``COLUMNS`` or plenty."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return int(os.environ.get("COLUMNS") or _WIDTH_IN_PIPES)


def fit_width(text: str, cells: int) -> str:
    """Text in exactly ``cells`` cells, with an ellipsis after a cut."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= cells:
        return set_cell_size(text, cells)
    return set_cell_size(text, max(cells - 1, 0)) + "…"[:cells]


def format_value(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return time_text(value)
        case timedelta():
            return duration_text(value)
        case _:
            return printable(str(value))


def printable(text: str) -> str:
    """Text without characters that steer a terminal."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "·" for char in text)


def time_text(time: datetime) -> str:
    """A time in milliseconds and UTC, with its zone."""
    time = time.astimezone(UTC)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def duration_text(duration: timedelta) -> str:
    """A duration as ``3d``, ``1h 30m``, ``250ms``."""
    left_ms = round(duration.total_seconds() * 1000)
    parts = []
    for unit, unit_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"


def size_text(size_bytes: float) -> str:
    """A size as ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"


def fields(record: Any) -> dict[str, object]:  # noqa: ANN401 - any dataclass
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


@contextmanager
def progress(doing: str, *, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while the block runs, if a person watches. The yielded function takes the progress."""
    if not stderr_is_terminal():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = [BarColumn(), MofNCompleteColumn()] if total is not None else [TextColumn("{task.completed:,.0f}")]
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn(doing), *columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)
