"""How long queues stand still, in virtual time: the same on every machine, so here the figures are judged."""

from __future__ import annotations

import pytest

from tests.benchmarks.consumers.takeovers import Event, allowed_s, pauses_s
from tests.benchmarks.consumers.worlds import DYNAMODB
from tests.thorough import thoroughly


@pytest.mark.simulation
@pytest.mark.parametrize("event", thoroughly(list(Event), [Event.KILL]))
def test_a_queue_stands_still_no_longer_than_it_may(event: Event) -> None:
    pauses = pauses_s(1, DYNAMODB, event)
    assert len(pauses) >= 3, "queues change hands"
    assert max(pauses) <= allowed_s(DYNAMODB, event), pauses
