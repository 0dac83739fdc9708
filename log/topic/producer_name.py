"""Producers' names, and how a process opens one."""

from __future__ import annotations

from dataclasses import replace

from ..append.in_flight import OpeningResult, as_accepted
from ..errors import InvalidArgument, LimitExceeded, NotWritten, PenstockError, RoutingChanged, UnknownOutcome
from ..format.fold import was_accepted
from ..format.header import Epoch, Opening
from ..format.state import TopicState
from ..limits import PRODUCER_NAME_BYTES_MAX, VALIDITY_ENTRIES
from .topics import Topic

OPENING_ATTEMPTS_MAX = 5
OWN_PREFIX = "%"
"""The prefix of Penstock's own producers' names."""


def check_producer_name(name: str | None) -> None:
    """Raise `InvalidArgument` or `LimitExceeded` unless a producer can have this name."""
    if name is None:
        return
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidArgument("a producer's name must be visible characters", operation="producer", observed=repr(name))
    if len(name.encode()) > PRODUCER_NAME_BYTES_MAX:
        raise LimitExceeded(
            "the producer's name is too long", operation="producer", expected=f"at most {PRODUCER_NAME_BYTES_MAX} bytes"
        )


async def open_name(topic: Topic, name: str, *, generation: int, timeout_s: float, known_sequence: int = -1) -> tuple[Epoch, int]:
    """The epoch and the last sequence of a fresh opening.

    After an unknown outcome the same write id is tried again: under another, a late earlier try would fence its own producer.

    Raises `TopicDeleted` in another routing ``generation`` of which growths are not the only reason.
    """
    last: UnknownOutcome | None = None
    opening = Opening(name, topic.runtime.new_id(), generation, 0, known_sequence)
    first_at = topic.tail.state.entry
    for _ in range(OPENING_ATTEMPTS_MAX):
        at = topic.tail.state.entry
        # After VALIDITY_ENTRIES the state may have forgotten that the opening is in the log, and would count it again.
        if is_spent(opening, topic.tail.state) or at - first_at >= VALIDITY_ENTRIES:
            opening, first_at = replace(opening, write_id=topic.runtime.new_id()), at
        outcome = await topic.appender.append_opening(opening, deadline_s=topic.runtime.clock.monotonic_s() + timeout_s)
        if isinstance(outcome, OpeningResult):
            return outcome.epoch, outcome.last_sequence
        assert isinstance(outcome, PenstockError), "an opening is opened or fails"
        if isinstance(outcome, RoutingChanged):
            opening = replace(opening, generation=topic.tail.state.generation)
        elif isinstance(outcome, UnknownOutcome):
            last = outcome
        elif last is None or not isinstance(outcome, NotWritten):  # a try that was not written tells nothing about earlier tries
            raise outcome
    raise UnknownOutcome(
        "the producer's name could not be opened: what became of every try is unknown",
        operation="producer",
        object=name,
        expected=f"an answer to one of {OPENING_ATTEMPTS_MAX} tries",
        observed=str(last),
        hint=f"try again; should this opening get into the log late, within {VALIDITY_ENTRIES} entries, it fences what has the name then, which "
        "is opened anew",
    ) from last


def is_spent(opening: Opening, state: TopicState) -> bool:
    """Whether an opening is in the log, so that it is never accepted again, and its epoch cannot be known any more."""
    return was_accepted(opening, state.openings) and as_accepted(opening, state) is None
