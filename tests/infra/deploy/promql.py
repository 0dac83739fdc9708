"""Prometheus's rules for what our alerts are written in: series from scrapes, the part of PromQL that they use, and ``for``.

A text that it does not know is refused. On the scenarios of `test_alerts.py` promtool 2.42 found the same alerts at the same times.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Value: TypeAlias = "Vector | float"

NAME = "__name__"
LOOKBACK_S = 300.0
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_][A-Za-z0-9_]*)|(\[\d+[smh]\])|(==|!=|>=|<=|[-+*/()<>,]))")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else float("nan") if not left else float("inf"),
}
_AGGREGATIONS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "max": max,
    "min": min,
    "sum": sum,
    "count": len,
}
_RANGES = {"increase", "rate"}


class Unknown(Exception):
    """A construct that is not known here."""


@dataclass
class Storage:
    """What Prometheus has scraped."""

    series: dict[str, dict[Labels, list[tuple[float, float | None]]]] = field(default_factory=dict)
    """The samples of each series, by its name. None: it was not in the scrape any more."""
    _shown: dict[str, set[Labels]] = field(default_factory=dict)

    def scrape(self, at_s: float, instance: str, text: str) -> None:
        """Take what a target showed; nothing where it did not answer."""
        shown: set[Labels] = set()
        for family in text_string_to_metric_families(text):
            for row in family.samples:
                labels = frozenset({**row.labels, NAME: row.name, "instance": instance}.items())
                self.series.setdefault(row.name, {}).setdefault(labels, []).append((at_s, row.value))
                shown.add(labels)
        for gone in self._shown.get(instance, set()) - shown:
            self.series[dict(gone)[NAME]][gone].append((at_s, None))
        self._shown[instance] = shown

    def instant(self, name: str, at_s: float) -> Vector:
        found: Vector = {}
        for labels, samples in self.series.get(name, {}).items():
            last = next(
                ((when, value) for when, value in reversed(samples) if when <= at_s),
                None,
            )
            if last is not None and last[1] is not None and at_s - last[0] < LOOKBACK_S:
                found[labels] = last[1]
        return found

    def window(self, name: str, start_s: float, end_s: float) -> dict[Labels, list[tuple[float, float]]]:
        return {
            labels: [(when, value) for when, value in samples if start_s <= when <= end_s and value is not None]
            for labels, samples in self.series.get(name, {}).items()
        }


class Query:
    """One evaluation of an expression."""

    def __init__(self, text: str, storage: Storage, at_s: float) -> None:
        self._tokens = _tokens(text)
        self._storage = storage
        self._at_s = at_s

    def value(self) -> Value:
        found = self._or()
        if self._tokens:
            raise Unknown(f"not understood: {' '.join(self._tokens)}")
        return found

    # --- By precedence, the loosest first -----------------------------------------------------------------------------------------

    def _or(self) -> Value:
        left = self._and()
        while self._take("or"):
            first, second = _vector(left), _vector(self._and())
            known = {_without(labels) for labels in first}
            left = first | {labels: value for labels, value in second.items() if _without(labels) not in known}
        return left

    def _and(self) -> Value:
        left = self._comparison()
        while self._take("and"):
            first, second = (
                _vector(left),
                {_without(labels) for labels in _vector(self._comparison())},
            )
            left = {labels: value for labels, value in first.items() if _without(labels) in second}
        return left

    def _comparison(self) -> Value:
        left = self._sum()
        while (sign := self._one_of(_COMPARISONS)) is not None:
            holds, right = _COMPARISONS[sign], self._sum()
            left = {labels: value for labels, (value, other) in _pairs(left, right).items() if holds(value, other)}
        return left

    def _sum(self) -> Value:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> Value:
        return self._arithmetic(("*", "/"), self._primary)

    def _arithmetic(self, signs: Sequence[str], operand: Callable[[], Value]) -> Value:
        left = operand()
        while (sign := self._one_of(signs)) is not None:
            right = operand()
            if isinstance(left, float) and isinstance(right, float):
                left = _ARITHMETIC[sign](left, right)
            else:
                pairs = _pairs(left, right)
                left = {_without(labels): _ARITHMETIC[sign](*pair) for labels, pair in pairs.items()}
        return left

    def _primary(self) -> Value:
        token = self._next()
        if token == "(":
            found = self._or()
            self._expect(")")
            return found
        if re.fullmatch(r"[\d.]+", token):
            return float(token)
        if token in _AGGREGATIONS:
            return self._aggregation(token)
        if token == "absent":
            return {} if _vector(self._argument()) else {frozenset[tuple[str, str]](): 1.0}
        if token in _RANGES:
            return self._range(token)
        if not re.fullmatch(r"(rocketmq|penstock)_[a-z_]+", token) or (self._tokens and self._tokens[0] == "("):
            raise Unknown(f"neither a metric of ours nor known here: {token}")
        return self._storage.instant(token, self._at_s)

    def _argument(self) -> Value:
        self._expect("(")
        found = self._or()
        self._expect(")")
        return found

    def _aggregation(self, name: str) -> Vector:
        kept: set[str] = set()
        if self._take("by"):
            self._expect("(")
            while not self._take(")"):
                kept.add(self._next())
                self._take(",")
        groups: dict[Labels, list[float]] = {}
        for labels, value in _vector(self._argument()).items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in kept), []).append(value)
        return {labels: float(_AGGREGATIONS[name](values)) for labels, values in groups.items()}

    def _range(self, name: str) -> Vector:
        self._expect("(")
        metric, length = self._next(), self._next()
        self._expect(")")
        match = re.fullmatch(r"\[(\d+)([smh])\]", length)
        if match is None:
            raise Unknown(f"{name} of no range: {length}")
        range_s = float(match[1]) * _UNITS_S[match[2]]
        found: Vector = {}
        for labels, samples in self._storage.window(metric, self._at_s - range_s, self._at_s).items():
            if len(samples) > 1:
                grown = increased(samples, self._at_s - range_s, self._at_s)
                found[_without(labels)] = grown / range_s if name == "rate" else grown
        return found

    # --- Tokens -------------------------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        if not self._tokens:
            raise Unknown("the expression ends too early")
        return self._tokens.pop(0)

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def _one_of(self, signs: Mapping[str, object] | Sequence[str]) -> str | None:
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in signs else None

    def _expect(self, token: str) -> None:
        if (found := self._next()) != token:
            raise Unknown(f"{found} in place of {token}")


@dataclass
class Alert:
    """One alert of a file of rules, and since when it is active for which labels."""

    name: str
    expression: str
    for_s: float
    _since: dict[Labels, float] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: Mapping[str, object]) -> Alert:
        match = re.fullmatch(r"(\d+)([smh])", str(rule.get("for", "0s")))
        if match is None:
            raise Unknown(f"for: {rule['for']}")
        return cls(str(rule["alert"]), str(rule["expr"]), float(match[1]) * _UNITS_S[match[2]])

    def evaluate(self, storage: Storage, at_s: float) -> dict[Labels, float]:
        """What fires now, with its value."""
        active = _vector(Query(self.expression, storage, at_s).value())
        self._since = {labels: self._since.get(labels, at_s) for labels in active}
        return {labels: value for labels, value in active.items() if at_s - self._since[labels] >= self.for_s}


def increased(samples: Sequence[tuple[float, float]], start_s: float, end_s: float) -> float:
    """How much a counter grew, as Prometheus reckons it: over the whole range, by what was seen in it. A counter that fell began anew."""
    (first_s, first), (last_s, last) = samples[0], samples[-1]
    resets = sum(before for (_, before), (_, after) in itertools.pairwise(samples) if after < before)
    grown, seen_s = last - first + resets, last_s - first_s
    between_s = seen_s / (len(samples) - 1)
    before_s, after_s = first_s - start_s, end_s - last_s
    if grown > 0 and first >= 0:
        before_s = min(before_s, seen_s * first / grown)  # a counter is never below 0
    reached_s = seen_s + sum(gap_s if gap_s < 1.1 * between_s else between_s / 2 for gap_s in (before_s, after_s))
    return grown * reached_s / seen_s


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unknown(f"not understood: {text[at:]}")
        found.append(next(group for group in match.groups() if group is not None))
        at = match.end()
    return found


def _vector(value: Value) -> Vector:
    if isinstance(value, float):
        raise Unknown("a number where series are wanted")
    return value


def _pairs(left: Value, right: Value) -> dict[Labels, tuple[float, float]]:
    """The values that belong together; series by all their labels but the name."""
    if isinstance(left, float):
        if isinstance(right, float):
            raise Unknown("two numbers are compared")
        return {labels: (left, value) for labels, value in right.items()}
    if isinstance(right, float):
        return {labels: (value, right) for labels, value in left.items()}
    second = {_without(labels): value for labels, value in right.items()}
    if len(second) != len(right) or len({_without(labels) for labels in left}) != len(left):
        raise Unknown("several series for the same labels")
    return {labels: (value, second[_without(labels)]) for labels, value in left.items() if _without(labels) in second}


def _without(labels: Labels) -> Labels:
    return frozenset(pair for pair in labels if pair[0] != NAME)
