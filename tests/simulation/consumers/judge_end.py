"""What the judge of consumers looks at when all has come to rest: what became of every message and every dead letter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from penstock.coordinator.queues.cell import QueueCell
from tests.simulation.consumers.books import Queue
from tests.simulation.consumers.judge_former import is_parked_before
from tests.simulation.consumers.records import History, Line
from tests.simulation.consumers.standing import Where


def judge_end(history: History, queues: Mapping[Line, Queue]) -> Iterator[str]:
    """What is wrong in the end, in words."""
    for queue in queues.values():
        yield from _judge_queue(history, queues, queue)
    yield from _judge_sends(history, queues)
    yield from _judge_letters(history, queues)


def _judge_queue(history: History, queues: Mapping[Line, Queue], queue: Queue) -> Iterator[str]:
    group, topic, number = queue.line

    def cell_of(other: int) -> QueueCell | None:
        found = queues.get((group, topic, other))
        return None if found is None else found.cell

    cell = queue.cell
    if cell is None:
        return
    position = queue.positions.get(cell.generation, 0)
    for offset, stands in queue.stands.items():
        waits = stands.where is not Where.DONE and not stands.parked
        if offset >= position and waits and not is_parked_before(history.growths, cell_of, number, queue.places[offset]):
            yield f"C1 {queue.line}: offset {offset} is {stands}"
    if cell.dead_letters.assigned:
        yield f"C10 {queue.line}: these are not known to be dead letters: {cell.dead_letters.assigned}"


def _judge_sends(history: History, queues: Mapping[Line, Queue]) -> Iterator[str]:
    for send in history.sends:
        if send.place is not None:
            stored = history.stored.get(send.place)
            if stored is None or stored.body != send.body:
                yield f"C3 {send.body!r} was sent to {send.place}, where {stored} is stored"
    lines = {(topic, number) for topic, number, _ in history.stored}
    for group in history.settings:
        for line in lines:
            if (group, *line) not in queues:
                yield f"C1 {(group, *line)} was never taken"


def _judge_letters(history: History, queues: Mapping[Line, Queue]) -> Iterator[str]:
    for group, letters in history.letters.items():
        found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for letter in letters:
            topic, number, offset = letter.origin
            found[topic, number].append((letter.sequence, offset))
            stored = history.stored.get(letter.origin)
            queue = queues.get((group, topic, number))
            given = queue.letters.get(letter.sequence) if queue is not None else None
            undone = queue is not None and (letter.sequence, offset) in queue.undone
            if (
                stored is None
                or stored.message_id != letter.message_id
                or stored.body != letter.body
                or (given != offset and not undone)
            ):
                yield f"C8 dead letter {letter} of {group} is not the message {stored} that it was given to ({given})"
        for (of, topic, number), queue in queues.items():
            if of != group:
                continue
            stand, expected = [sequence for sequence, _ in found[topic, number]], sorted(queue.letters)
            if not queue.put_back:
                if stand != expected:
                    yield f"C8 {queue.line}: dead letters {stand} stand, and {expected} were given"
                continue
            if stand != sorted(set(stand)):
                yield f"C8 {queue.line}: dead letters {stand} stand twice or out of order"
            if missing := queue.letters.items() - set(found[topic, number]):
                yield f"C8 {queue.line}: the dead letters {sorted(missing)} do not stand, but {found[topic, number]}"
