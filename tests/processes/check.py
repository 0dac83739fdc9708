"""What must hold of a log that processes wrote which were killed and paused; by their journals and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.log import queue_of
from tests.processes.worker import message_group_of


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


def check(rows: list[Row], journal: Iterable[list[str]], names: Iterable[str], *queues: int) -> Verdict:
    """Acknowledged messages are once at the acknowledged offset, failed ones absent, others at most once; groups are in order, offsets dense."""
    verdict, whole = Verdict(), Whole(set(names))
    for row in rows:
        whole.add(row)
    verdict.problems += whole.problems()
    check_part(rows, journal, whole.names, queues, verdict)
    return verdict


def numbers_of_queues(first: int, last: int) -> list[int]:
    """Those that a topic had which grew to twice its queues each time."""
    return [first << times for times in range((last // first).bit_length())]


class Whole:
    """What holds of all messages together: dense offsets, numbers of named producers. Takes them by queue and offset, keeps a byte of each."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self._next_offset: Counter[int] = Counter()
        self._wrong: set[int] = set()
        self._twice: set[str] = set()
        self._numbers: dict[str, bytearray] = defaultdict(bytearray)

    def add(self, row: Row) -> None:
        """The next message."""
        if row.offset != self._next_offset[row.queue]:
            self._wrong.add(row.queue)
        self._next_offset[row.queue] = row.offset + 1
        who, number, _ = row.body.split("/")
        if who in self.names:
            seen, place = self._numbers[who], int(number)
            if place >= len(seen):
                seen.extend(bytes(place + 1 - len(seen)))
            if seen[place]:
                self._twice.add(f"{who}/{number}")
            seen[place] = 1

    def problems(self) -> Iterator[str]:
        """When all were added."""
        for queue in sorted(self._wrong):
            yield f"offsets of queue {queue} are not dense, or not in order"
        for sequence in sorted(self._twice):
            yield f"sequence {sequence} is in the log twice"
        for name, seen in self._numbers.items():
            if not all(seen):
                yield f"sequences of {name} have gaps"


def check_part(rows: Sequence[Row], journal: Iterable[list[str]], names: set[str], queues: Sequence[int], verdict: Verdict) -> None:
    """What holds of each message group: to be told all of some of them, by queue and offset, and all that producers wrote of their messages.

    ``queues`` are the numbers of them that the topic had. A growth moves a message group to a later queue, or leaves it where it is, so by queue and
    offset its messages are in the order in which they were stored.
    """
    verdict.problems += places_are_right(rows, queues)
    verdict.problems += answers_were_true(rows, journal, names, verdict)
    verdict.problems += order_is_kept(rows)


def places_are_right(rows: Sequence[Row], queues: Sequence[int]) -> Iterator[str]:
    for body, count in Counter(row.body for row in rows).items():
        if count > 1:
            yield f"{body} is in the log {count} times"
    for row in rows:
        if not any(row.queue == queue_of(row.group, one) for one in queues):
            yield f"{row.body} is in queue {row.queue}"
        if row.group != message_group_of(row.body):
            yield f"{row.body} is in message group {row.group}"


def answers_were_true(rows: Sequence[Row], journal: Iterable[list[str]], names: set[str], verdict: Verdict) -> Iterator[str]:
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
    verdict.unknown_in += len((sent - answered) & places.keys())
    verdict.unknown_out += len((sent - answered) - places.keys())
    for body in places.keys() - sent:
        yield f"{body} was never sent"


def order_is_kept(rows: Sequence[Row]) -> Iterator[str]:
    last: dict[str, int] = {}
    for row in rows:
        number = int(row.body.split("/")[1])
        if number <= last.get(row.group, -1):
            yield f"{row.body} comes behind {last[row.group]} of its group"
        last[row.group] = number
