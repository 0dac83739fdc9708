"""Places in PostgreSQL's write-ahead log, and the one number that says where an event stands in the stream of changes.

That number is the sequence under which the event is sent, and the position that its envelope tells: `position_of` computes the same number
from it. It is ``commit LSN / 8 << 20 | number within the transaction``: commits come in the order of their LSNs, which are multiples of 8.

No event has the number 0. So a position with that number lies between transactions, and names a place in the log.
"""

from __future__ import annotations

from ...log.errors import InvalidArgument, LimitExceeded

ORDER_BITS = 20
"""The bits of an event's number within its transaction. A larger transaction borrows numbers of the log's next bytes."""
_ORDER = (1 << ORDER_BITS) - 1


def lsn_of(text: str) -> int:
    """``16/B374D848`` as a number. Raises `InvalidArgument`."""
    high, slash, low = text.partition("/")
    try:
        return int(high, 16) << 32 | int(low if slash else "", 16)
    except ValueError:
        raise InvalidArgument("this is no place in the log", expected="such as 16/B374D848", observed=text) from None


def lsn_text(lsn: int) -> str:
    """The number as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def base_of(lsn: int) -> int:
    """All events of transactions whose commit lies at ``lsn`` or behind have positions above this number."""
    return lsn >> 3 << ORDER_BITS


def after(position: int) -> int:
    """The least position above this one that an event may have."""
    return position + 1 if (position + 1) % (1 << ORDER_BITS) else position + 2


def is_between(position: int) -> bool:
    """Whether this position is no event's, but lies between transactions: all that end before its place are told by then, and no other."""
    return position > 0 and position % (1 << ORDER_BITS) == 0


def split(position: int) -> tuple[int, int]:
    """The LSN and the order that an envelope tells, from which `position_of` makes this number again."""
    return position >> ORDER_BITS << 3, position & _ORDER


class PositionCounter:
    """Counts along the stream, from a place in the log at which it may begin.

    The same stream gives the same numbers, wherever it begins among the places that `may_begin_at` allowed: that makes them usable as
    sequences. A transaction of more than a million events runs into numbers of later commits, which then are pushed behind it. Until the
    log has caught up with its numbers, no beginning is allowed.
    """

    def __init__(self) -> None:
        self._last = -1

    def begin(self, commit_lsn: int) -> None:
        """Note that a transaction begins."""
        self._last = max(self._last, base_of(commit_lsn))

    def next(self) -> int:
        """The position of the transaction's next event. Raises `LimitExceeded` where numbers end, in a log of 64 TiB."""
        self._last = after(self._last)
        if self._last >= 1 << 63:
            raise LimitExceeded("the source's log is too long to number its events", expected="less than 64 TiB")
        return self._last

    def may_begin_at(self, end_lsn: int) -> bool:
        """Whether a stream that begins there gets the same numbers as now. All events counted before must lie before it."""
        return base_of(end_lsn) >= self._last
