"""Whether a run kept what is promised: nothing lost, order, attempts counted, dead letters once. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from tests.gateway.chaos.facts import ASKED, ATTEMPTS, PUSHED, Facts, Run, Stored, is_poison

_BATCH: Final = 32


def judge(facts: Facts) -> list[str]:
    """What is wrong."""
    return [
        *_lost(facts),
        *(problem for group in (PUSHED, ASKED) for problem in _of_group(facts, group)),
        *_attempts_of_places(facts),
    ]


def _lost(facts: Facts) -> Iterator[str]:
    """Each load ended, so each of its sends was answered OK."""
    stored = {one.body for one in facts.stored}
    for load in facts.loads:
        if missing := [body for body in load.bodies() if body not in stored]:
            yield f"{len(missing)} messages of {load.name} were answered OK, and are not stored: {missing[:5]}"
    for group, left in facts.unsettled.items():
        yield f"group {group} did not get through: {left}"


def _of_group(facts: Facts, group: str) -> Iterator[str]:
    runs = facts.runs[group]
    first_s: dict[str, float] = {}
    for run in sorted(runs):
        if not run.failed:
            first_s.setdefault(run.body, run.at_s)
    copies, letters = Counter(one.body for one in facts.stored), Counter(body for body, _ in facts.letters[group])
    for body, count in copies.items():
        if is_poison(body):
            if letters[body] != count:
                yield f"{group}: {body} is stored {count} times, and is {letters[body]} dead letters"
        elif letters[body]:
            yield f"{group}: {body} is a dead letter, and no poison; attempts {[run.attempt for run in runs if run.body == body]}"
        elif body not in first_s:
            yield f"{group}: {body} was never handled"
    yield from _inversions(group, facts.stored, first_s)
    by_body: defaultdict[str, list[Run]] = defaultdict(list)
    for run in sorted(runs):
        by_body[run.body].append(run)
    for body, those in by_body.items():
        if copies[body] == 1:
            yield from _attempts(group, those)


def _inversions(group: str, stored: Iterable[Stored], first_s: dict[str, float]) -> Iterator[str]:
    """First successes of a message group come in the order in which its messages were stored first."""
    before: dict[str, tuple[float, str]] = {}
    seen: set[str] = set()
    for one in sorted(stored):
        if one.body in seen or one.body not in first_s:
            continue
        seen.add(one.body)
        last_s, last = before.get(one.group, (0.0, ""))
        if first_s[one.body] < last_s:
            yield f"{group}: {one.body} succeeded {last_s - first_s[one.body]:.3f} s before the earlier {last} of its message group"
        before[one.group] = max((first_s[one.body], one.body), (last_s, last))


def _attempts(group: str, runs: list[Run]) -> Iterator[str]:
    """No attempt goes to two clients. One that tries again by itself counts for itself meanwhile, so messages that fail are left out."""
    body, whose = runs[0].body, dict[int, str]()
    for run in () if any(one.failed for one in runs) else runs:
        if whose.setdefault(run.attempt, run.who) != run.who:
            yield f"{group}: attempt {run.attempt} of {body} went to {run.who} and {whose[run.attempt]}"


def _attempts_of_places(facts: Facts) -> Iterator[str]:
    """Each receive counts one attempt, and nothing else does. A message that always fails is given up in time."""
    yield from facts.twice
    if (missed := gaps(facts)) > _BATCH * facts.lost_receives:
        yield f"{missed} attempts were counted that nobody saw, and only {facts.lost_receives} answers were lost"
    strikes = Counter(run.place for run in facts.runs[ASKED] if is_poison(run.body))
    for place, count in strikes.items():
        if count > ATTEMPTS:
            yield f"the message at {place} failed {count} times, of {ATTEMPTS}"


def gaps(facts: Facts) -> int:
    """The attempts of messages that nobody saw: their answers were lost."""
    return sum(max(receives) - len(receives) for receives in facts.given.values())
