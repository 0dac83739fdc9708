"""A gateway, and Kafka's clients at it, shared by the tests of a file: each has topics and groups of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from tests.gateway.conftest import url_of
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.kafka.clients.playing import Players


@pytest.fixture(scope="module")
def served(lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with gateway(url_of(lake), tmp_path_factory.mktemp("gateway"), protocol="kafka") as running:
        yield running


@pytest.fixture(scope="module")
def players(served: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Players]:
    with Players(served.endpoints, tmp_path_factory.mktemp("clients")) as playing:
        yield playing


@pytest.fixture(scope="module")
def makers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Players]:
    """Clients of another lake, whose gateway makes the topics that they name."""
    folder = tmp_path_factory.mktemp("makers")
    with (
        gateway(str(folder / "lake"), folder / "gateway", "--create-topics", protocol="kafka") as running,
        Players(running.endpoints, folder) as playing,
    ):
        yield playing
