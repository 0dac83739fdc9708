"""Times of a MongoDB's cluster, and the one number under which an event of its change stream is sent.

A change stands at (cluster time, order among the events of that time): a transaction has one time, and so may several inserts of one command.
Both are packed into 63 bits. Numbers between transactions are those of `penstock.cdc.capture.readings`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...log.errors import LimitExceeded
from ..capture.readings import CHANGE_BITS, CHANGES, place_number

EPOCH_S = 1_577_836_800
"""2020-01-01. The seconds since fit into 31 bits until 2088."""
SECOND_BITS, ORDINAL_BITS = 31, 18
_ORDER_BITS = 20
_READ = 2
"""How many of the numbers within a cluster time are kept for rows that were read with all changes of that time.

Changes that have no number within their time take those of the next cluster times. MongoDB leaves those free: a transaction takes a cluster time
for each of its operations.
"""


class ClusterTime(NamedTuple):
    """A time of the cluster's clock, as MongoDB's ``Timestamp`` has it."""

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
    """The number of an event, above that of every one before it in the stream. Raises `LimitExceeded`."""
    more, index = divmod(index, CHANGES - _READ)
    return _number(time) + more << CHANGE_BITS | index


def envelope_position(position: int) -> tuple[int, int]:
    """The number as an envelope tells it, from which a sync makes it again: as PostgreSQL's connector tells a commit's LSN, and the order in it."""
    commit, order = divmod(position, 1 << _ORDER_BITS)
    return commit << 3, order


def read_at(time: ClusterTime, *, emptied: bool = False) -> int:
    """The position of a document that was read with all changes up to a time, or that of the truncate before: above that of each such change."""
    return _number(time) << CHANGE_BITS | CHANGES - 1 - emptied


def between(time: ClusterTime, reading: int, *, last: int = -1) -> int:
    """The number of the place behind a time: above that of every change until then, the ``last`` of which is given, and below every other's.

    ``reading`` is the number of the last reading of collections.
    """
    return place_number(max(_number(time), last >> CHANGE_BITS), reading)


def before(time: ClusterTime) -> ClusterTime:
    """The time before a time."""
    return ClusterTime(time.sec, time.ord - 1) if time.ord else ClusterTime(time.sec - 1, (1 << ORDINAL_BITS) - 1)


def time_of(position: int) -> ClusterTime:
    """The time that a number has."""
    second, ordinal = divmod(position >> CHANGE_BITS, 1 << ORDINAL_BITS)
    return ClusterTime(second + EPOCH_S, ordinal)


def place_text(position: int) -> str:
    """The place of a number that lies between transactions, such as ``1795803143:6``: ``Timestamp(1795803143, 6)``."""
    return str(time_of(position))


def time_of_token(token: str) -> ClusterTime | None:
    """The time that a resume token begins with; None where it has another form."""
    try:
        found = bytes.fromhex(token[:18])
    except ValueError:
        return None
    if len(found) < 9 or found[0] != 0x82:  # the type of a time, in an index's key
        return None
    return ClusterTime(int.from_bytes(found[1:5]), int.from_bytes(found[5:9]))
