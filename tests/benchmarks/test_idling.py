"""What an idle consumer costs, in virtual time: the same on every machine, so here the figures are judged."""

from __future__ import annotations

import pytest

from tests.benchmarks.consumers.idling import asked, month_usd
from tests.benchmarks.consumers.worlds import DYNAMODB, ON_S3, Place


@pytest.mark.simulation
@pytest.mark.parametrize("place", [DYNAMODB, ON_S3], ids=lambda place: place.name)
def test_an_idle_consumer_takes_the_long_lease_and_costs_less_than_it_may(place: Place) -> None:
    requests, cells = asked(place, consumers=1, hours=1)
    assert requests.put.requests + cells["put"] < 200, "a heartbeat each 20 s"
    assert month_usd(place, requests, cells, 1) < 1.5
