"""Numbers as a line of bars."""

from __future__ import annotations

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"


def sparkline(counts: Sequence[int]) -> str:
    """One character for each count, the highest for the most; a dot for none."""
    most = max(counts, default=0)
    return "".join(_BARS[(count * len(_BARS) - 1) // most] if count else _NOTHING for count in counts)
