"""What a person sees while it runs: a picture in a terminal, or a line every few seconds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

STRIP = 60
WHOLE, BROKEN, KILLED = "·", "✗", {"capture": "c", "sync": "s"}


@dataclass(frozen=True)
class Look:
    """One look at the lake, and who was killed since the one before."""

    cut_broken: tuple[str, ...]
    newest_broken: tuple[str, ...]
    killed: str = ""
    """`capture` or `sync`."""


@dataclass(frozen=True)
class State:
    """How far everything is."""

    source: str
    now_s: float
    seconds: float
    phase: str
    transactions: int
    events: int
    place: str
    """Of the source."""
    cut: int | None
    cut_place: str
    behind_s: float | None
    kills: Mapping[str, int]
    rows_source: Mapping[str, int]
    rows_newest: Mapping[str, int]
    rows_cut: Mapping[str, int]
    looks: Sequence[Look]
    is_open: bool
    """Whether the tills trade."""

    @property
    def cut_broken(self) -> int:
        return sum(bool(look.cut_broken) for look in self.looks)

    @property
    def newest_broken(self) -> int:
        return sum(bool(look.newest_broken) for look in self.looks)


def line(state: State) -> str:
    """One line, for output that is no terminal."""
    cut = "no cut yet" if state.cut is None else f"cut {state.cut} at {state.cut_place}, {behind(state.behind_s)}"
    kills = ", ".join(f"{name} {count}" for name, count in state.kills.items())
    return (
        f"{state.now_s:5.0f} s  {state.transactions:,} transactions, {state.events:,} events, {cut}; killed: {kills}; "
        f"books in {len(state.looks)} looks: {state.cut_broken} broken at the cut, {state.newest_broken} without"
    )


def behind(seconds: float | None) -> str:
    """How old the newest cut is, beside the newest transaction."""
    if seconds is None:
        return ""
    return "level with the source" if seconds < 0.05 else f"{seconds:.1f} s behind"


def picture(state: State) -> RenderableType:
    """The whole picture: 20 lines of 78 characters."""
    rate = f"{state.transactions / state.now_s:.0f}/s" if state.is_open and state.now_s > 0 else ""
    head = Table.grid(padding=(0, 2))
    head.add_row("source", f"{state.transactions:,} transactions", f"log at {state.place}", rate)
    head.add_row("topic", f"{state.events:,} events")
    if state.cut is None:
        head.add_row("cut", "none yet")
    else:
        head.add_row("cut", f"number {state.cut}", f"log at {state.cut_place}", behind(state.behind_s))
    head.add_row("kill -9", *(f"{name} {count}" for name, count in state.kills.items()))
    clock = f"{state.now_s:.0f} of {state.seconds:.0f} s" if state.is_open else f"{state.now_s:.0f} s"
    title = Text.assemble((state.source, "bold"), f" into Delta tables, live   {clock}")
    return Group(title, Text(state.phase, style="dim"), Text(), head, Text(), _tables(state), Text(), *_books(state))


def _tables(state: State) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("rows")
    for title in ("at the source", "newest version", "at the cut"):
        table.add_column(title, justify="right")
    for name in state.rows_source:
        counts = (_count(rows, name) for rows in (state.rows_source, state.rows_newest, state.rows_cut))
        table.add_row(name, *counts)
    return table


def _count(rows: Mapping[str, int], name: str) -> str:
    return f"{rows[name]:,}" if name in rows else "–"


def _books(state: State) -> list[Text]:
    shown = state.looks[-STRIP:]
    cut, newest, killed = Text("at the cut  "), Text("newest      "), Text("killed      ", style="dim")
    for look in shown:
        cut.append(*_mark(look.cut_broken))
        newest.append(*_mark(look.newest_broken))
        killed.append(KILLED.get(look.killed, " "))
    cut.append(f"  {state.cut_broken} broken", style="green" if not state.cut_broken else "bold red")
    newest.append(f"  {state.newest_broken} broken", style="yellow" if state.newest_broken else "")
    last = next((look.newest_broken for look in reversed(state.looks) if look.newest_broken), ())
    more = f", and {len(last) - 1} more" if len(last) > 1 else ""
    return [
        Text(
            f"Are the shop's books right? {len(state.looks)} looks: {WHOLE} yes, {BROKEN} no; c capture killed, s sync",
            style="bold",
        ),
        cut,
        newest,
        killed,
        Text(f"newest, when last broken: {last[0]}{more}" if last else "", style="dim"),
    ]


def _mark(found: Sequence[str]) -> tuple[str, str]:
    return (BROKEN, "red") if found else (WHOLE, "green")
