"""Is a history of one cell linearizable? Wing and Gong's search: put the calls in an order that one cell could have answered.

A call may be placed anywhere between its start and its end. Calls without a known outcome may be placed anywhere after their start, or
nowhere. Known states of the search are not entered twice (Lowe), so thousands of calls by eight threads take a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    DONE = "done"
    REFUSED = "refused"
    NOT_DONE = "not done"
    """Refused for whatever reason: it says nothing about what the cell held."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Call:
    """One call: a read when ``outcome`` is None, else a write of ``value`` on the condition that the cell holds ``expected``.

    Values are what the cell holds, None for no cell; no two writes of a history have the same value, but for deletes.
    """

    start: int
    end: int
    value: bytes | None
    expected: bytes | None = None
    outcome: Outcome | None = None

    def after(self, held: bytes | None) -> list[bytes | None]:
        """What the cell may hold once this call took effect where it held ``held``; nothing when the answer contradicts that."""
        match self.outcome:
            case None:
                return [held] if held == self.value else []
            case Outcome.DONE:
                return [self.value] if held == self.expected else []
            case Outcome.REFUSED:
                return [held] if held != self.expected else []
            case Outcome.NOT_DONE:
                return [held]
            case Outcome.UNKNOWN:
                return [self.value] if held == self.expected else []


def is_linearizable(history: Sequence[Call], held: bytes | None = None) -> bool:
    """Whether one cell that first held ``held`` could have answered so."""
    known = sorted((call for call in history if call.outcome is not Outcome.UNKNOWN), key=lambda call: call.start)
    unknown = [call for call in history if call.outcome is Outcome.UNKNOWN]
    everything = (1 << len(known)) - 1
    start = (0, 0, held)
    entered, open_states = {start}, [start]
    while open_states:
        placed, guessed, held = open_states.pop()
        if placed == everything:
            return True
        choices, deadline = _next(known, placed)
        following = [
            (placed | 1 << number, guessed, after) for number in choices for after in known[number].after(held)
        ] + [
            (placed, guessed | 1 << number, after)
            for number, call in enumerate(unknown)
            if not guessed >> number & 1 and call.start <= deadline
            for after in call.after(held)
        ]  # fmt: skip
        for state in following:
            if state not in entered:
                entered.add(state)
                open_states.append(state)
    return False


def _next(known: Sequence[Call], placed: int) -> tuple[list[int], int]:
    """The calls that may come next: those that started before any call that is still to be placed ended; and when that was."""
    number = ((placed + 1) & ~placed).bit_length() - 1  # the first that is not placed
    choices: list[int] = []
    deadline = known[number].end
    while number < len(known) and known[number].start <= deadline:
        if not placed >> number & 1:
            choices.append(number)
            deadline = min(deadline, known[number].end)
        number += 1
    return [choice for choice in choices if known[choice].start <= deadline], deadline
