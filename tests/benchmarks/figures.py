"""What a benchmark yields, and how it is shown."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Literal

from penstock.log.stores.counting import StoreStatistics


@dataclass(frozen=True, kw_only=True)
class Options:
    """How thorough to be."""

    repeats: int = 5
    small: bool = False
    """Only to see that everything runs: the figures say nothing."""

    def scaled(self, full: int, small: int) -> int:
        return small if self.small else full


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured quantity."""

    name: str
    unit: str
    values: Sequence[float]
    """Of each repeat."""
    better: Literal["higher", "lower"] = "lower"
    target: float | None = None
    """At most this, or at least this where higher is better."""
    requests: Mapping[str, float] = field(default_factory=dict)
    """Of the store, by verb, for what `per` says."""
    per: str = ""
    note: str = ""
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """Runnable processes on the machine, a minute's average, when it was measured."""

    @property
    def best(self) -> float:
        return max(self.values) if self.better == "higher" else min(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        reached = self.median >= self.target if self.better == "higher" else self.median <= self.target
        if reached:
            return "met"
        best = self.best >= self.target if self.better == "higher" else self.best <= self.target
        return "best run only" if best else "missed"

    def document(self) -> dict[str, object]:
        return {**asdict(self), "best": self.best, "median": self.median, "verdict": self.verdict}


def by_verb(requests: StoreStatistics, count: float) -> dict[str, float]:
    """Requests by verb, divided by ``count``."""
    verbs = {"put": requests.put, "get": requests.get, "list": requests.list, "delete": requests.delete}
    return {verb: round(of_verb.requests / max(count, 1e-9), 3) for verb, of_verb in verbs.items() if of_verb.requests}


def table(figures: Sequence[Figure]) -> str:
    """The figures as Markdown."""
    rows: list[tuple[str, ...]] = [("figure", "best", "median", "unit", "target", "", "requests", "load", "note")]
    rows.append(("---",) * len(rows[0]))
    for one in figures:
        sign = "≥" if one.better == "higher" else "≤"
        target = "" if one.target is None else f"{sign} {short(one.target)}"
        requests = ", ".join(f"{verb} {count:g}" for verb, count in one.requests.items())
        requests += f" {one.per}" if requests else ""
        load = f"{one.load:.1f}"
        rows.append((one.name, short(one.best), short(one.median), one.unit, target, one.verdict, requests, load, one.note))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def short(value: float) -> str:
    """Three significant digits, no exponent."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.6f}"


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "load": os.getloadavg()[0],
    }


def as_json(figures: Sequence[Figure]) -> str:
    return json.dumps({"machine": machine(), "figures": [one.document() for one in figures]}, indent=1)
