"""A small picture of a run for the terminal: events sent, visible and waiting, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH = 60
_BLOCKS = " ▁▂▃▄▅▆▇█"
_LABEL = 9


@dataclass(frozen=True, slots=True)
class Mark:
    """An event in the life of a process."""

    time_ms: float
    sign: str
    """The sign, one character."""


def picture(stored_ms: np.ndarray, visible_ms: np.ndarray, marks: Sequence[Mark] = (), *, width: int = WIDTH) -> list[str]:
    """Lines of equal time a column: events a second sent, events a second that became visible, events waiting, and the marks.

    ``stored_ms`` and ``visible_ms`` are the times of each event (-1: not visible). Each line is scaled to its own highest value, which
    stands at its end.
    """
    if not len(stored_ms):
        return []
    shown = visible_ms[visible_ms >= 0]
    start, end = float(stored_ms.min()), float(max(stored_ms.max(), shown.max(initial=0)) + 1)
    edges = np.linspace(start, end, width + 1)
    seconds = (edges[1] - edges[0]) / 1000
    sent, visible = np.histogram(stored_ms, edges)[0], np.histogram(np.maximum(shown, start), edges)[0]
    waiting = np.cumsum(sent) - np.cumsum(visible)
    lines = [
        _line("sent", sent / seconds, "/s at most"),
        _line("visible", visible / seconds, "/s at most"),
        _line("waiting", waiting, "at most"),
    ]
    if marks:
        lines.append(f"{'':{_LABEL}}{_signs(marks, start, end, width)}")
    return [*lines, f"{'':{_LABEL}}{_axis((end - start) / 1000, width)}"]


def _line(name: str, values: np.ndarray, unit: str) -> str:
    highest = max(float(values.max()), 1e-9)
    levels = np.ceil(values / highest * (len(_BLOCKS) - 1)).astype(int)
    return f"{name:{_LABEL}}{''.join(_BLOCKS[level] for level in levels)}  {highest:,.0f} {unit}"


def _signs(marks: Sequence[Mark], start: float, end: float, width: int) -> str:
    signs = [" "] * width
    for mark in marks:
        column = int((mark.time_ms - start) / (end - start) * width)
        signs[min(max(column, 0), width - 1)] = mark.sign
    return "".join(signs).rstrip()


def _axis(seconds: float, width: int) -> str:
    end = f"{seconds:.0f} s"
    return f"{'0 s':{width - len(end)}}{end}"
