"""Places in PostgreSQL's write-ahead log, and events' positions in the stream of changes, which are the sequences they are sent
under.

A position is ``commit LSN / 8 << 20 | number within the transaction``: LSNs rise with commits, and are multiples of 8.
`position_of` computes it from an envelope. No event has the number 0, which lies between transactions and names a place in the
log.
"""

from __future__ import annotations

from ...log.errors import InvalidArgument, LimitExceeded

ORDER_BITS = 20
"""The bits of an event's number in its transaction. A larger transaction borrows numbers of the log's next bytes."""
_ORDER = (1 << ORDER_BITS) - 1


def lsn_of(text: str) -> int:
    """The number of ``16/B374D848``. Raises `InvalidArgument`."""
    high, slash, low = text.partition("/")
    try:
        return int(high, 16) << 32 | int(low if slash else "", 16)
    except ValueError:
        raise InvalidArgument("this is no place in the log", expected="such as 16/B374D848", observed=text) from None


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def base_of(lsn: int) -> int:
    """The number below all events of transactions that commit at ``lsn`` or later."""
    return lsn >> 3 << ORDER_BITS


def after(position: int) -> int:
    return position + 1 if (position + 1) % (1 << ORDER_BITS) else position + 2


def is_between(position: int) -> bool:
    """Whether the position lies between transactions: all that end before its place come earlier, and no other."""
    return position > 0 and position % (1 << ORDER_BITS) == 0


def split(position: int) -> tuple[int, int]:
    """The LSN and the order in an envelope, the input of `position_of`."""
    return position >> ORDER_BITS << 3, position & _ORDER


class PositionCounter:
    """Counts along the stream, from a place where it may begin.

    The numbers are the same from every place that `may_begin_at` allowed, as sequences have to be. More than a million events
    in a transaction take numbers of later commits, which move up. No beginning is allowed before the log has caught up.
    """

    def __init__(self) -> None:
        self._last = -1

    def begin(self, commit_lsn: int) -> None:
        self._last = max(self._last, base_of(commit_lsn))

    def next(self) -> int:
        """The next event's position. Raises `LimitExceeded` in a log of 64 TiB."""
        self._last = after(self._last)
        if self._last >= 1 << 63:
            raise LimitExceeded("the source's log is too long to number its events", expected="less than 64 TiB")
        return self._last

    def may_begin_at(self, end_lsn: int) -> bool:
        """Whether a stream from there gets the same numbers: all events counted so far have to lie before it."""
        return base_of(end_lsn) >= self._last
