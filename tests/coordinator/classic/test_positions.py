"""The positions of a group of Kafka's clients, and what resets and new lives do to them."""

from __future__ import annotations

import pytest

from penstock.coordinator.classic.positions import (
    CommittedPosition,
    CommittedPositions,
    caught_up,
    committed,
    decode_positions,
    encode_positions,
    has_room,
)
from penstock.coordinator.groups.record import GroupProtocol, GroupRecord, GroupSettings
from penstock.log.errors import DataDamaged, NewerFormatError

BEGUN = GroupRecord(settings=GroupSettings(), protocol=GroupProtocol.KAFKA).begun("orders", (0, 0, 0), 7)
POSITION = BEGUN.positions["orders"]


def test_a_topic_that_was_begun_has_no_positions() -> None:
    assert caught_up(CommittedPositions(), POSITION).queues == {}


def test_positions_stay_while_nothing_is_ordered() -> None:
    found = committed(caught_up(CommittedPositions(), POSITION), {1: CommittedPosition(5, 2, 1_000, "a note")})
    assert caught_up(found, POSITION) is found


def test_a_reset_is_carried_out_once() -> None:
    found = committed(caught_up(CommittedPositions(), POSITION), {0: CommittedPosition(9), 1: CommittedPosition(5)})
    ordered = BEGUN.reset("orders", {1: 2, 2: 3}).positions["orders"]
    reset = caught_up(found, ordered)
    assert {queue: one.offset for queue, one in reset.queues.items()} == {0: 9, 1: 2, 2: 3}
    later = committed(reset, {1: CommittedPosition(4)})
    assert caught_up(later, ordered) is later


def test_a_topic_that_grows_keeps_its_positions_and_has_none_on_new_queues() -> None:
    found = committed(caught_up(CommittedPositions(), POSITION), {1: CommittedPosition(5)})
    grown = BEGUN.extended("orders", 6)
    after = caught_up(found, grown.positions["orders"])
    assert {queue: one.offset for queue, one in after.queues.items()} == {1: 5}
    assert len(after.generations) == 6
    later = committed(after, {5: CommittedPosition(2)})
    assert decode_positions(encode_positions(later), where="cell") == later
    assert caught_up(later, POSITION) is later  # of whoever has not seen the new queues
    reset = caught_up(later, grown.reset("orders", {4: 3}).positions["orders"])
    assert {queue: one.offset for queue, one in reset.queues.items()} == {1: 5, 4: 3, 5: 2}


def test_a_topic_that_was_made_again_has_no_positions() -> None:
    found = committed(caught_up(CommittedPositions(), POSITION), {1: CommittedPosition(5)})
    again = BEGUN.begun("orders", (0, 0), 8).positions["orders"]
    assert caught_up(found, again).queues == {}
    assert len(caught_up(found, again).generations) == 2


def test_a_group_that_was_made_again_has_no_positions() -> None:
    found = committed(caught_up(CommittedPositions(epoch=4), POSITION), {1: CommittedPosition(5)})
    again = BEGUN.gone().begun("orders", (0, 0, 0), 7).positions["orders"]
    assert caught_up(found, again).queues == {}
    assert caught_up(found, again).epoch == 4


def test_they_are_read_as_they_were_written() -> None:
    found = committed(caught_up(CommittedPositions(epoch=3), POSITION), {1: CommittedPosition(5, 2, 1_000, "naïve 📦")})
    assert decode_positions(encode_positions(found), where="there") == found


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"queues":{"1":[5,0,0,""]}}', b'{"epoch":-1}', b'{"queues":{"0":[-5,0,0,""]},"generations":[0]}']
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(DataDamaged):
        decode_positions(data, where="there")


def test_a_later_format_is_told() -> None:
    with pytest.raises(NewerFormatError):
        decode_positions(b'{"format":2,"new":1}', where="there")


def test_a_cell_has_room_for_so_much() -> None:
    many = {queue: CommittedPosition(1, metadata="x" * 4096) for queue in range(64)}
    assert not has_room(CommittedPositions(generations=(0,) * 64, queues=many))
    assert has_room(CommittedPositions(generations=(0,) * 64, queues=dict(list(many.items())[:40])))
