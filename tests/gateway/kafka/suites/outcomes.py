"""What became of the tests of a suite, beside what is expected of them."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected.toml"


class Result(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """What became of a test."""

    name: str
    result: Result
    took_s: float
    said: str = ""
    """Why it failed, in a line."""


@dataclass(frozen=True)
class Expectation:
    """What a gateway of today makes of a test."""

    result: Result
    why: str = ""


def expectations(suite: str) -> dict[str, Expectation]:
    """The tests of a suite that are run, by name. In the file a result may be followed by its reason."""
    told: Mapping[str, str] = tomllib.loads(EXPECTED.read_text())[suite]
    split = {name: one.partition(": ") for name, one in told.items()}
    return {name: Expectation(Result(result), why) for name, (result, _, why) in split.items()}


def is_worse(outcome: Outcome, expected: Expectation) -> bool:
    return expected.result is Result.PASSED and outcome.result is not Result.PASSED


def table(outcomes: Iterable[Outcome], expected: Mapping[str, Expectation]) -> Sequence[str]:
    """A line for each test, and one of sums."""
    lines, sums = [], Counter[Result]()
    for one in outcomes:
        sums[one.result] += 1
        wanted = expected[one.name]
        as_expected = "" if one.result is wanted.result else f"  expected: {wanted.result}"
        reason = wanted.why if one.result is wanted.result else one.said
        lines.append(f"{one.result:8}{one.took_s:7.1f} s  {one.name}{as_expected}{f'  ({reason})' if reason else ''}")
    return [*lines, ", ".join(f"{sums[result]} {result}" for result in Result)]
