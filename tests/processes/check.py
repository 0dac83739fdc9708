"""What must hold of a log that processes wrote which were killed and paused; by their journals and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from penstock.log import queue_of


@dataclass(frozen=True, slots=True)
class Row:
    """A message as it was read."""

    queue: int
    offset: int
    body: str
    group: str


@dataclass(slots=True)
class Verdict:
    """What was found."""

    acknowledged: int = 0
    not_written: int = 0
    unknown_in: int = 0
    """Sent without an answer, and in the log."""
    unknown_out: int = 0
    problems: list[str] = field(default_factory=list)


def check(rows: list[Row], journal: Iterable[list[str]], names: Iterable[str], queues: int) -> Verdict:
    """Acknowledged messages are once at the acknowledged offset, failed ones absent, others at most once; groups are in order, offsets dense."""
    verdict = Verdict()
    verdict.problems += places_are_right(rows, queues)
    verdict.problems += answers_were_true(rows, journal, set(names), verdict)
    verdict.problems += order_is_kept(rows, set(names))
    return verdict


def places_are_right(rows: list[Row], queues: int) -> Iterator[str]:
    for body, count in Counter(row.body for row in rows).items():
        if count > 1:
            yield f"{body} is in the log {count} times"
    for queue in range(queues):
        offsets = [row.offset for row in rows if row.queue == queue]
        if offsets != list(range(len(offsets))):
            yield f"offsets of queue {queue} are not dense, or not in order"
    for row in rows:
        if row.queue != queue_of(row.group, queues):
            yield f"{row.body} is in queue {row.queue}"


def answers_were_true(rows: list[Row], journal: Iterable[list[str]], names: set[str], verdict: Verdict) -> Iterator[str]:
    places = {row.body: (row.queue, row.offset) for row in rows}
    sent: set[str] = set()
    answered: set[str] = set()
    for kind, body, *place in journal:
        (sent if kind == "S" else answered).add(body)
        if kind == "A":
            verdict.acknowledged += 1
            if places.get(body) != (int(place[0]), int(place[1])):
                yield f"{body} was acknowledged at {place} and is at {places.get(body)}"
        elif kind == "N" and body.split("/")[0] not in names:  # a named producer sends the same again
            verdict.not_written += 1
            if body in places:
                yield f"{body} was not written, and is at {places[body]}"
    verdict.unknown_in = len((sent - answered) & places.keys())
    verdict.unknown_out = len((sent - answered) - places.keys())
    for body in places.keys() - sent:
        yield f"{body} was never sent"


def order_is_kept(rows: list[Row], names: set[str]) -> Iterator[str]:
    last: dict[str, int] = {}
    numbers: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        who, number, _ = row.body.split("/")
        numbers[who].append(int(number))
        if int(number) <= last.get(row.group, -1):
            yield f"{row.body} comes behind {last[row.group]} of its group"
        last[row.group] = int(number)
    for name in names & numbers.keys():
        if sorted(numbers[name]) != list(range(len(numbers[name]))):
            yield f"sequences of {name} have gaps"
