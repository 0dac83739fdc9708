from __future__ import annotations

import pytest

from penstock.consumers.ranges.offsets import ResumePosition, StreamOffset, TopicSnapshot, continued, within
from penstock.log import DataDamaged, OffsetOutOfRange, TopicDeleted

STANDING = TopicSnapshot("orders", 40, {0: (10, 20), 1: (0, 5)})


def test_an_offset_is_flat_json_by_queue_with_the_life_of_its_topic() -> None:
    offset = StreamOffset(40, {10: 3, 2: 7})
    assert list(offset.to_json().items()) == [("life", 40), ("2", 7), ("10", 3)]
    assert StreamOffset.from_json(offset.to_json()) == offset
    assert STANDING.end == StreamOffset(40, {0: 20, 1: 5})


@pytest.mark.parametrize(
    "document",
    [
        {"0": 5},
        {"life": 1, "a": 5},
        {"life": 1, "0": None},
        {"life": 1, "0": 1.5},
        {"life": 1, "0": -1},
        {"life": True},
        {"life": 1, "01": 2},
        {"logOffset": 3},
    ],
)
def test_offsets_of_another_source_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(DataDamaged, match="not of this source"):
        StreamOffset.from_json(document)


def test_what_is_there_is_taken_as_it_is() -> None:
    assert continued(STANDING, StreamOffset(40, {0: 10, 1: 5}), fail_on_data_loss=True) == ResumePosition({0: 10, 1: 5})
    assert continued(STANDING, StreamOffset(40, {0: 20}), fail_on_data_loss=True) == ResumePosition({0: 20, 1: 0})


def test_lost_rows_are_an_error_whose_text_says_all() -> None:
    with pytest.raises(OffsetOutOfRange) as raised:
        continued(STANDING, StreamOffset(40, {0: 9, 1: 5}), fail_on_data_loss=True)
    text = str(raised.value)
    assert "\n" not in text
    for fact in ("orders, queue 0", "offset 9", "10 (the earliest kept)", "20 (the next", "failOnDataLoss=false"):
        assert fact in text


def test_or_are_told_and_reading_goes_on_at_the_nearest() -> None:
    moved = within(STANDING, {0: 3, 1: 9}, fail_on_data_loss=False)
    assert moved.queues == {0: 10, 1: 5}
    assert moved.losses == (
        "queue 0: offset 3 is not kept, reading goes on at 10",
        "queue 1: offset 9 is not kept, reading goes on at 5",
    )


def test_another_topic_of_the_name_is_not_gone_on_with() -> None:
    with pytest.raises(TopicDeleted, match=r"entry 7.*entry 40.*new checkpointLocation.*failOnDataLoss=false"):
        continued(STANDING, StreamOffset(7, {0: 12, 1: 1}), fail_on_data_loss=True)
    moved = continued(STANDING, StreamOffset(7, {0: 12, 1: 1}), fail_on_data_loss=False)
    assert (moved.queues, len(moved.losses)) == ({0: 10, 1: 0}, 1)
    with pytest.raises(TopicDeleted):  # a stale view of the topic: never go back to a former life
        continued(STANDING, StreamOffset(41, {0: 12}), fail_on_data_loss=False)
