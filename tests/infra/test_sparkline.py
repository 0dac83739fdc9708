from __future__ import annotations

import pytest

from penstock.infra.terminal.sparkline import sparkline


@pytest.mark.parametrize(
    ("counts", "drawn"),
    [
        ((), ""),
        ((0, 0), "··"),
        ((1, 0, 1), "█·█"),
        (range(9), "·▁▂▃▄▅▆▇█"),
        ((1, 1000), "▁█"),
        ((500, 1000), "▄█"),
    ],
)
def test_each_count_is_a_bar(counts: tuple[int, ...], drawn: str) -> None:
    assert sparkline(counts) == drawn
