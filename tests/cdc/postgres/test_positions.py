"""Positions rise along a stream, and are the same wherever it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cdc.events.debezium import position_of
from penstock.cdc.postgres import positions
from penstock.cdc.postgres.positions import PositionCounter, base_of, is_between, lsn_of, lsn_text, split
from penstock.log import InvalidArgument, LimitExceeded

BITS = positions.ORDER_BITS


def numbered(stream: list[tuple[int, int, int]], counting: PositionCounter | None = None) -> list[list[int]]:
    """The positions of each transaction (commit, end, events)."""
    counting = counting or PositionCounter()
    numbers = []
    for commit, _, events in stream:
        counting.begin(commit)
        numbers.append([counting.next() for _ in range(events)])
    return numbers


@given(st.integers(0, 2**64 - 1))
def test_places_are_written_as_the_server_does(lsn: int) -> None:
    assert lsn_of(lsn_text(lsn)) == lsn


@pytest.mark.parametrize("text", ["", "16", "16/", "x/y", "/"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(InvalidArgument):
        lsn_of(text)


@given(st.integers(0, 2**63 - 1))
def test_the_envelope_tells_the_position(position: int) -> None:
    lsn, order = split(position)
    assert position_of({"sequence": f'["{lsn}","5"]'}, {"total_order": order}) == position


def test_the_first_event_of_a_transaction_is_number_one() -> None:
    assert numbered([(0x139DDCC8, 0x139DDCF8, 2)]) == [[(0x139DDCC8 >> 3 << 20) + 1, (0x139DDCC8 >> 3 << 20) + 2]]


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 40)), min_size=1, max_size=12), st.data())
def test_a_stream_has_the_same_positions_from_wherever_it_may_begin(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    # Transactions so large, or so close to one another, that they run into the numbers of the next ones.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "ORDER_BITS", 3)
        lsn, stream = 64, []
        for gap, events in steps:
            stream.append((lsn, lsn + 8 * gap, events))
            lsn += 8 * gap
        whole = numbered(stream)
        flat = [number for numbers in whole for number in numbers]
        assert flat == sorted(set(flat))
        counting, beginnings = PositionCounter(), [0]
        for index, one in enumerate(stream):
            numbered([one], counting)
            if counting.may_begin_at(one[1]):
                beginnings.append(index + 1)
        begin = data.draw(st.sampled_from(beginnings))
        assert numbered(stream[begin:]) == whole[begin:]
        assert all(number > base_of(stream[begin - 1][1]) for numbers in whole[begin:] for number in numbers if begin)


def test_no_beginning_behind_a_transaction_of_more_than_a_million_events() -> None:
    counting = PositionCounter()
    counting.begin(800)
    for _ in range((1 << BITS) + 1):
        counting.next()
    assert not counting.may_begin_at(808)
    assert counting.may_begin_at(824)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 40)), min_size=1, max_size=12))
def test_no_event_has_a_position_between_transactions(steps: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(positions, "ORDER_BITS", 3)
        lsn, counting = 64, PositionCounter()
        for gap, events in steps:
            last = [*numbered([(lsn, lsn + 8 * gap, events)], counting)[0], 0][-1 if not events else -2]
            lsn += 8 * gap
            assert not is_between(last)
            if counting.may_begin_at(lsn):
                assert last < base_of(lsn)  # so there is room for the place itself
                assert is_between(base_of(lsn))


def test_a_log_of_64_tib_is_too_long() -> None:
    counting = PositionCounter()
    counting.begin((1 << 46) - 8)
    assert counting.next() < 1 << 63
    counting.begin(1 << 46)
    with pytest.raises(LimitExceeded):
        counting.next()


def test_the_last_number_of_all_is_given_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "ORDER_BITS", 3)
    counting = PositionCounter()
    counting.begin((1 << 63) - 8)
    assert [counting.next() for _ in range(7)][-1] == (1 << 63) - 1
    with pytest.raises(LimitExceeded):
        counting.next()


def test_a_stream_may_begin_where_the_numbers_of_a_large_transaction_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "ORDER_BITS", 3)
    stream = [(800, 808, 7), (816, 824, 2)]
    counting = PositionCounter()
    numbered(stream[:1], counting)
    assert counting.may_begin_at(808)
    assert not counting.may_begin_at(800)
    assert numbered(stream)[1] == numbered(stream[1:])[0]
