"""The last hour as small charts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise

from ..lakes.history import HOUR_S, MetricsPoint

WIDTH, HEIGHT = 240, 48
_EDGE = 3
THIN_S = 30.0
"""The time of one point, the greatest value in it: two points of the picture."""
GAP_S = 300.0
"""The time without a look that breaks a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartValue:
    """One value of a chart."""

    at: datetime
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure over the last hour."""

    name: str
    unit: str
    values: tuple[ChartValue, ...]
    last: float | None
    most: float
    axes: str
    """What the axes show, or when there will be something."""
    lines: tuple[str, ...]
    """Points of SVG polylines, in a box of 240 by 48. Five minutes without a look end a line."""


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    unit: str
    of: Callable[[MetricsPoint], float]
    is_rate: bool = False


FIGURES = (
    _Figure("lag", "messages", lambda point: point.lag),
    _Figure("oldest message", "s", lambda point: point.oldest_ms / 1000),
    _Figure("stored", "messages a second", lambda point: point.stored, is_rate=True),
    _Figure("settled", "messages a second", lambda point: point.settled, is_rate=True),
    _Figure("parked", "message groups", lambda point: point.parked),
    _Figure("delayed", "messages", lambda point: point.timers),
)


def charts(points: Sequence[MetricsPoint]) -> tuple[Chart, ...]:
    return tuple(_chart(figure, points) for figure in FIGURES)


def _chart(figure: _Figure, points: Sequence[MetricsPoint]) -> Chart:
    if figure.is_rate:
        found = [(now, rate) for before, now in pairwise(points) if (rate := _rate(figure, before, now)) is not None]
    else:
        found = [(point, float(figure.of(point))) for point in points]
    most = max((value for _, value in found), default=0.0)
    return Chart(
        name=figure.name,
        unit=figure.unit,
        values=tuple(ChartValue(at=point.at, value=_rounded(value)) for point, value in found),
        last=_rounded(found[-1][1]) if found else None,
        most=_rounded(most),
        axes=_axes(figure, drawn=bool(found)),
        lines=lines(thin_out([(point.at_s, value) for point, value in found]), most),
    )


def _axes(figure: _Figure, *, drawn: bool) -> str:
    if drawn:
        return "upwards from 0, across from 1 h ago to now"
    if figure.is_rate:
        return f"nothing yet: a rate follows from two looks, at most {GAP_S / 60:.0f} min apart"
    return "nothing yet: it begins with the first look"


def _rounded(value: float) -> float:
    return int(value) if value.is_integer() else round(value, 2)


def _rate(figure: _Figure, before: MetricsPoint, now: MetricsPoint) -> float | None:
    """The rate between two points. None: after a deletion, or a long time without a look."""
    took_s, count = now.at_s - before.at_s, figure.of(now) - figure.of(before)
    return None if count < 0 or not 0 < took_s < GAP_S else count / took_s


def thin_out(values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The greatest value of each span of `THIN_S`, and the last one of all."""
    spans = groupby(values[:-1], key=lambda one: one[0] // THIN_S)
    return [max(span, key=lambda one: one[1]) for _, span in spans] + list(values[-1:])


def lines(values: Sequence[tuple[float, float]], most: float) -> tuple[str, ...]:
    """The points of polylines: the last hour from left to right, 0 at the bottom, the most at the top."""
    if not values:
        return ()
    end_s = values[-1][0]
    found: list[list[str]] = []
    last_s = float("-inf")
    for at_s, value in values:
        if at_s - last_s >= GAP_S:
            found.append([])
        x = _EDGE + (WIDTH - 2 * _EDGE) * max(0.0, 1 - (end_s - at_s) / HOUR_S)
        y = HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * (value / most if most else 0.0)
        found[-1].append(f"{x:.1f},{y:.1f}")
        last_s = at_s
    return tuple(" ".join(one if len(one) > 1 else 2 * one) for one in found)  # one point alone is drawn as nothing


def polyline(counts: Sequence[int]) -> str:
    """The points of a polyline with a step for each count."""
    most, width = max(counts, default=0), (WIDTH - 2 * _EDGE) / max(1, len(counts))
    heights = [HEIGHT - _EDGE - (HEIGHT - 2 * _EDGE) * (count / most if most else 0.0) for count in counts]
    ends = ((x, y) for at, y in enumerate(heights) for x in (_EDGE + at * width, _EDGE + (at + 1) * width))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in ends)
