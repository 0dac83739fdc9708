"""Whether cuts are true: each is compared with the snapshots that the source itself gave. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .books import TABLES, Fingerprint, Rows, broken, fingerprints


@dataclass(frozen=True)
class Seen:
    """A snapshot of the source in short, so that hundreds of them are kept."""

    place: int
    place_text: str
    tables: Mapping[str, Fingerprint]


@dataclass(frozen=True)
class Proof:
    """A cut, and what the source itself says of it."""

    cut: int
    place: str
    tables: Mapping[str, Fingerprint]
    broken: Sequence[str]
    """What is wrong with the books there."""
    misplaced: bool
    """Whether it lacks transactions that had ended before its place, or has some that ended later."""
    snapshot: Seen | None
    """A snapshot of the source with no transaction between it and the cut; None where none was taken."""
    unequal: Sequence[str]
    """The tables that differ from that snapshot."""

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not (self.broken or self.misplaced or self.unequal)

    @property
    def is_proved(self) -> bool:
        """Whether every row of every table was compared, and is equal."""
        return self.holds and self.snapshot is not None


def prove(cut: int, place: int, place_text: str, rows: Rows, snapshots: Iterable[Seen]) -> Proof:
    """Compare a cut with the snapshots.

    Each transaction adds to the ledger, and nothing is taken from it. So the ledger says which transactions a state has: those around
    the cut's place bound it, and one with the same ledger is between the same two transactions. All its other tables have to be equal.
    """
    found = fingerprints(rows)
    ledger = found["ledger"]
    misplaced, snapshot = False, None
    for seen in snapshots:
        entries = seen.tables["ledger"].rows
        misplaced |= entries > ledger.rows if seen.place <= place else entries < ledger.rows
        if seen.tables["ledger"] == ledger:
            snapshot = seen
    unequal = [] if snapshot is None else [name for name in TABLES if snapshot.tables[name] != found[name]]
    return Proof(cut, place_text, found, broken(rows), misplaced, snapshot, unequal)
