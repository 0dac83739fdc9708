"""What a listener makes of a message, by the message alone: every process decides alike, and so does the check."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum


class Fate(StrEnum):
    """How a message fares."""

    FINE = "fine"
    FLAKY = "flaky"
    """Its first attempt, or its first two, fail."""
    POISON = "poison"
    """It raises, or fails, each time."""
    REJECTED = "rejected"
    """The listener says at once that it can never succeed."""
    KILLER = "killer"
    """It ends the process, each time."""

    @property
    def is_poison(self) -> bool:
        return self in (Fate.POISON, Fate.REJECTED, Fate.KILLER)


@dataclass(frozen=True, slots=True)
class Fates:
    """Of the messages of one run. Shares are of 10,000."""

    flaky: int = 60
    poison: int = 12
    rejected: int = 6
    slow: int = 40
    killers: tuple[str, ...] = ()
    """Bodies without their last part: ``producer/number``."""

    def of(self, body: str) -> Fate:
        """What becomes of the message with this body."""
        if body.rpartition("/")[0] in self.killers:
            return Fate.KILLER
        place = zlib.crc32(body.encode()) % 10_000
        for fate, share in ((Fate.POISON, self.poison), (Fate.REJECTED, self.rejected), (Fate.FLAKY, self.flaky)):
            if place < share:
                return fate
            place -= share
        return Fate.FINE

    def succeeds(self, body: str, attempt: int) -> bool:
        """Whether an attempt does, of a message that is no poison."""
        return self.of(body) is Fate.FINE or attempt > 1 + zlib.crc32(body.encode(), 1) % 2

    def seconds(self, body: str) -> float:
        """How long its handler takes: mostly no time, some a few milliseconds, few longer."""
        chance = zlib.crc32(body.encode(), 2) % 10_000
        if chance < self.slow:
            return 0.05 + chance / 100
        return chance % 10 / 1_000 if chance < 2_000 else 0.0
