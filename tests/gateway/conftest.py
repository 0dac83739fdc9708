"""A lake with a gateway, shared by the tests of a file: each has topics and groups of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import penstock
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.raw import RawClient, raw_client
from tests.gateway.sdk import PUSHING, Sdk, sdk

_names = itertools.count()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[penstock.Lake]:
    with penstock.connect(str(tmp_path_factory.mktemp("lake"))) as lake:
        yield lake


@pytest.fixture(scope="module")
def served(lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with gateway(url_of(lake), tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def sdks(served: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sdk]]:
    """A client program in each language whose SDK is there and has push consumers."""
    there = [language for language, where in PUSHING.items() if where.exists()]
    with ExitStack() as stack:
        yield [stack.enter_context(sdk(language, served.endpoints, tmp_path_factory.mktemp(language))) for language in there]


@pytest.fixture
def client(served: RunningGateway) -> Iterator[RawClient]:
    with raw_client(served.endpoints, f"client-{next(_names)}") as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other test of this process uses."""
    return f"n{next(_names)}"


def url_of(lake: penstock.Lake) -> str:
    return lake.url
