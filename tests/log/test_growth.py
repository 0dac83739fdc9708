"""Queues and their former queues, and what lies between routing generations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.format.growth import Growth, former_queue, former_queues, has_only_grown, is_sequence, may_grow
from penstock.log.message.routing import queue_of
from penstock.log.message.routing_type import Routing

TWICE = (Growth(5, 2, (3, 7)), Growth(9, 3, (4, 8, 1, 0)))
"""From 2 to 4 to 12 queues."""


@pytest.mark.parametrize(
    ("queue", "former"),
    [(0, []), (1, []), (2, [(0, 3)]), (3, [(1, 7)]), (4, [(0, 4)]), (6, [(2, 1), (0, 3)]), (11, [(3, 0), (1, 7)])],
)
def test_a_queue_s_former_queues_lead_back_to_the_beginning(queue: int, former: list[tuple[int, int]]) -> None:
    assert list(former_queues(TWICE, queue)) == former


@given(st.text(min_size=1), st.sampled_from(list(Routing)))
def test_a_message_group_comes_from_the_former_queue_of_its_queue(group: str, routing: Routing) -> None:
    for now, before in ((12, 4), (4, 2)):
        queue, was = queue_of(group, now, routing), queue_of(group, before, routing)
        growths = TWICE if now == 12 else TWICE[:1]
        assert queue == was or former_queue(growths, queue) == (was, growths[-1].marks[was])


@pytest.mark.parametrize(
    ("before", "now", "grown"),
    [(1, 2, True), (1, 3, True), (2, 3, True), (2, 2, False), (3, 2, False), (2, 4, False), (0, 2, False)],
)
def test_only_growths_lie_between_generations(before: int, now: int, grown: bool) -> None:
    assert has_only_grown(TWICE, before, now) is grown


def test_a_topic_grows_to_greater_multiples_alone() -> None:
    assert [queues for queues in range(14) if may_grow(queues, 3, 12)] == [6, 9, 12]
    assert is_sequence(TWICE, 12)
    assert not is_sequence(TWICE, 4)
    assert not is_sequence(TWICE, 10)
    assert is_sequence((), 5)
