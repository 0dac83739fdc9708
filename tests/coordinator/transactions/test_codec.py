"""Member cells and sets of names, to bytes and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordinator.limits import CELL_BYTES_MAX
from penstock.coordinator.transactions.members.codec import decode_member, encode_member
from penstock.coordinator.transactions.members.producer_groups import decode_names, encode_names
from penstock.coordinator.transactions.members.state import (
    Decider,
    Decision,
    Destination,
    HalfPart,
    LinkResult,
    MemberCell,
    TransactionRow,
)
from penstock.log.errors import DataDamaged, LimitExceeded, NewerFormatError
from penstock.log.limits import TIME_MAX_MS
from tests.thorough import examples

numbers = st.integers(0, 2**53)
times = st.integers(0, TIME_MAX_MS)
ids = st.binary(min_size=16, max_size=16).map(bytes.hex)
parts = st.builds(HalfPart, numbers, ids, numbers)
offsets = st.dictionaries(st.integers(0, 4095), st.tuples(numbers, numbers).map(lambda pair: (pair[0], sum(pair))), max_size=3)
links = st.none() | st.just(LinkResult(gone=True)) | st.builds(LinkResult, st.none() | numbers, st.none() | offsets)
destinations = st.builds(
    Destination, st.sampled_from(["orders", "bookings", "ünïcode"]), ids, st.lists(parts, max_size=3).map(tuple), links
)
rows = st.builds(
    TransactionRow,
    id=ids,
    created_ms=times,
    next_check_ms=st.none() | times,
    checks=st.integers(0, 16),
    decision=st.sampled_from(Decision),
    by=st.sampled_from(Decider),
    claimed=st.booleans(),
    finished_ms=times,
    destinations=st.lists(destinations, max_size=3).map(tuple),
)
cells = st.builds(
    MemberCell,
    group=st.text(max_size=5),
    used_ms=times,
    left=st.booleans(),
    rows=st.lists(rows, max_size=4, unique_by=lambda row: row.id).map(lambda found: {row.id: row for row in found}),
)


@given(cells)
@settings(max_examples=examples(100), deadline=None)
def test_a_cell_comes_back_as_it_was(cell: MemberCell) -> None:
    assert decode_member(encode_member(cell), where="here") == cell


@given(cells, st.data())
@settings(max_examples=examples(50), deadline=None)
def test_a_cell_that_is_cut_off_or_has_more_is_damaged(cell: MemberCell, data: st.DataObject) -> None:
    whole = encode_member(cell)
    with pytest.raises(DataDamaged):
        decode_member(whole[: data.draw(st.integers(1, len(whole) - 1))], where="here")
    with pytest.raises(DataDamaged, match="more to them"):
        decode_member(whole + b"\0", where="here")


def test_a_later_format_is_refused() -> None:
    with pytest.raises(NewerFormatError, match=r"later version.*format 1; observed: 2"):
        decode_member(b"\2", where="here")
    with pytest.raises(NewerFormatError, match="later version"):
        decode_names(b"\2", where="here")


def test_hundreds_of_open_transactions_fit_in_a_cell() -> None:
    one = (Destination("orders", "f" * 32, (HalfPart(2000, "ab" * 16, 1),)),)
    found = {
        f"{number:032x}": TransactionRow(
            id=f"{number:032x}", created_ms=1_700_000_000_000, next_check_ms=1_700_000_060_000, destinations=one
        )
        for number in range(1000)
    }
    assert len(encode_member(MemberCell(group="shop", rows=found))) < CELL_BYTES_MAX


@given(st.frozensets(st.text(max_size=9)))
def test_names_come_back(names: frozenset[str]) -> None:
    assert decode_names(encode_names(names, where="here"), where="here") == names


def test_too_many_names_are_refused() -> None:
    with pytest.raises(LimitExceeded, match=r"too many producer groups, or members of one.*9999 names.*penstock maintain"):
        encode_names(frozenset(f"{number:016x}" for number in range(9999)), where="producers/shop")


def test_names_of_another_are_damage() -> None:
    with pytest.raises(DataDamaged, match="no text"):
        decode_names(b"\1\1\1\xff", where="here")
    with pytest.raises(DataDamaged, match="more behind"):
        decode_names(encode_names(frozenset(), where="") + b"\0", where="here")
