"""Times of a MongoDB's cluster, and the sequences of change events.

A change stands at (cluster time, order among the events of that time), packed into 63 bits: a transaction has one time, and so
may several inserts of one command. Numbers between transactions are those of `penstock.cdc.capture.positions`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...log.errors import LimitExceeded
from ..capture.positions import CHANGE_BITS, CHANGES, place_number

EPOCH_S = 1_577_836_800
"""2020-01-01: seconds since then fit into 31 bits until 2088."""
SECOND_BITS, ORDINAL_BITS = 31, 18
_ORDER_BITS = 20
_READ = 2
"""The numbers within a cluster time for rows read with all its changes.

Changes beyond a time's numbers take those of the next times, which MongoDB leaves free: a transaction takes a cluster time for
each operation.
"""


class ClusterTime(NamedTuple):
    """A ``Timestamp`` of the cluster's clock."""

    sec: int
    ord: int

    def __str__(self) -> str:
        return f"{self.sec}:{self.ord}"


def _number(time: ClusterTime) -> int:
    """Raises `LimitExceeded`."""
    if not 0 <= time.sec - EPOCH_S < 1 << SECOND_BITS or not 0 <= time.ord < 1 << ORDINAL_BITS:
        raise LimitExceeded(
            "a time of the cluster does not fit into a sequence",
            operation="capture",
            object=str(time),
            expected=f"a second from 2020 to 2088, and fewer than {1 << ORDINAL_BITS:,} operations in it",
        )
    return time.sec - EPOCH_S << ORDINAL_BITS | time.ord


def sequence_of(time: ClusterTime, index: int) -> int:
    """The number of an event, above all earlier ones in the stream. Raises `LimitExceeded`."""
    more, index = divmod(index, CHANGES - _READ)
    return _number(time) + more << CHANGE_BITS | index


def envelope_position(position: int) -> tuple[int, int]:
    """The number in an envelope, as an LSN and an order of PostgreSQL's connector, from which a sync computes it."""
    commit, order = divmod(position, 1 << _ORDER_BITS)
    return commit << 3, order


def read_at(time: ClusterTime, *, emptied: bool = False) -> int:
    """The position of a document read with all changes up to a time, or of the truncate before: above all these changes."""
    return _number(time) << CHANGE_BITS | CHANGES - 1 - emptied


def between(time: ClusterTime, snapshot: int, *, last: int = -1) -> int:
    """The number of the place after a time: above all changes until then, of which ``last`` is the last, and below all others.
    ``snapshot``: the number of the last snapshot.
    """
    return place_number(max(_number(time), last >> CHANGE_BITS), snapshot)


def before(time: ClusterTime) -> ClusterTime:
    return ClusterTime(time.sec, time.ord - 1) if time.ord else ClusterTime(time.sec - 1, (1 << ORDINAL_BITS) - 1)


def time_of(position: int) -> ClusterTime:
    second, ordinal = divmod(position >> CHANGE_BITS, 1 << ORDINAL_BITS)
    return ClusterTime(second + EPOCH_S, ordinal)


def place_text(position: int) -> str:
    """The place of a number between transactions: ``1795803143:6`` for ``Timestamp(1795803143, 6)``."""
    return str(time_of(position))


def time_of_token(token: str) -> ClusterTime | None:
    """The time at a resume token's beginning; None for another form."""
    try:
        found = bytes.fromhex(token[:18])
    except ValueError:
        return None
    if len(found) < 9 or found[0] != 0x82:  # the type of a time, in an index's key
        return None
    return ClusterTime(int.from_bytes(found[1:5]), int.from_bytes(found[5:9]))
