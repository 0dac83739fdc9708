"""RocketMQ's delay levels."""

from __future__ import annotations

from datetime import timedelta

from ..errors import InvalidArgument

_MINUTES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)
DELAY_LEVELS = (*(timedelta(seconds=s) for s in (1, 5, 10, 30)), *(timedelta(minutes=m) for m in _MINUTES))


def delay_level(level: int) -> timedelta:
    """The delay of a level: 1 s, 5 s, 10 s, 30 s, 1 to 10 min by the minute, 20 min, 30 min, 1 h and 2 h.

    Raises `InvalidArgument` for other numbers, also for 0 and above 18, which RocketMQ accepts.
    """
    if not isinstance(level, int) or isinstance(level, bool) or not 1 <= level <= len(DELAY_LEVELS):
        raise InvalidArgument("there is no such delay level", expected=f"1 to {len(DELAY_LEVELS)}", observed=repr(level))
    return DELAY_LEVELS[level - 1]
