"""Producers' names: what one may be, and how a process opens one."""

from __future__ import annotations

from .errors import InvalidArgument, LimitExceeded, PenstockError, UnknownOutcome
from .header import Epoch, Opening
from .limits import PRODUCER_NAME_BYTES_MAX
from .pending import Opened
from .topics import Topic

OPENING_ATTEMPTS_MAX = 5
OWN_PREFIX = "%"
"""Of producers' names that no application may take, such as the one under which messages are let go that were due."""


def check_producer_name(name: str | None) -> None:
    """Raise `InvalidArgument` or `LimitExceeded` unless a producer can be called so; None: it has no name."""
    if name is None:
        return
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidArgument("a producer's name must be visible characters", operation="producer", observed=repr(name))
    if len(name.encode()) > PRODUCER_NAME_BYTES_MAX:
        raise LimitExceeded(
            "the producer's name is too long", operation="producer", expected=f"at most {PRODUCER_NAME_BYTES_MAX} bytes"
        )


async def open_name(topic: Topic, name: str, *, generation: int, timeout_s: float, known_sequence: int = -1) -> tuple[Epoch, int]:
    """The epoch and the last sequence of a fresh opening. One whose outcome is unknown is tried again under a new write id.

    ``generation`` is that of the routing by the settings that the caller goes by: in any other the name is not opened (`TopicDeleted`).
    """
    last: PenstockError | None = None
    for _ in range(OPENING_ATTEMPTS_MAX):
        opening = Opening(name, topic.runtime.new_id(), generation, 0, known_sequence)
        outcome = await topic.appender.append_opening(opening, deadline_s=topic.runtime.clock.monotonic_s() + timeout_s)
        if isinstance(outcome, Opened):
            return outcome.epoch, outcome.last_sequence
        assert isinstance(outcome, PenstockError), "an opening is opened or fails"
        if not isinstance(outcome, UnknownOutcome):
            raise outcome
        last = outcome
    raise UnknownOutcome(
        "the producer's name could not be opened: what became of every try is unknown",
        operation="producer",
        object=name,
        expected=f"an answer to one of {OPENING_ATTEMPTS_MAX} tries",
        observed=str(last),
        hint="try again; an opening that did get into the log fences nobody but earlier instances of the name",
    ) from last
