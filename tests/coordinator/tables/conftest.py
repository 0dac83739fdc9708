"""The tables that the contract is checked on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.coordinator.tables import create_table
from tests.coordinator.tables.places import AtUrl, InMemory, InMemoryStore, InStore, Place, postgres_place, sqlite_place
from tests.servers import DYNOXIDE, VERSITYGW, DynamoDBServer, dynoxide_server
from tests.thorough import unless_built

TABLE = "cells"
_numbers = itertools.count()
_served: set[DynamoDBServer] = set()


@pytest.fixture(scope="session")
def dynoxide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBServer]:
    if not DYNOXIDE.exists():
        pytest.skip(f"{DYNOXIDE} is missing: run make setup where Rust is installed")
    with dynoxide_server(tmp_path_factory.mktemp("dynoxide")) as server:
        yield server


def dynamodb_place(server: DynamoDBServer) -> AtUrl:
    """A fresh prefix of a table that the server's first test makes: clients take half a second each."""
    if server not in _served:
        asyncio.run(create_table(server.url(TABLE), options=server.credentials))
        _served.add(server)
    return AtUrl(server.url(TABLE, prefix=f"lakes/{next(_numbers)}"), server.credentials)


def make_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    match kind:
        case "memory":
            return InMemory()
        case "sqlite":
            return sqlite_place(folder / "db")
        case "store on memory":
            return InMemoryStore()
        case "store on files":
            return InStore(str(folder / "lake"))
        case "store on moto" | "store on versitygw":
            server = request.getfixturevalue(kind.rpartition(" ")[2])
            # versitygw reads an object's ETag before it opens the object.
            return InStore(server.url(f"cells/{next(_numbers)}"), server.credentials, reads_tear=kind.endswith("versitygw"))
        case "postgres":
            return postgres_place(request.getfixturevalue("postgres"), f"cells_{next(_numbers)}")
        case "dynamodb on moto":
            return dynamodb_place(DynamoDBServer(request.getfixturevalue("moto").endpoint))
        case _:
            return dynamodb_place(request.getfixturevalue("dynoxide"))


ON_VERSITYGW = pytest.param("store on versitygw", marks=[pytest.mark.s3, pytest.mark.versitygw])
ON_DYNOXIDE = pytest.param("dynamodb on dynoxide", marks=[pytest.mark.dynamodb, pytest.mark.dynoxide])
ON_POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
ALL = [
    "memory",
    "sqlite",
    "store on memory",
    "store on files",
    pytest.param("store on moto", marks=pytest.mark.s3),
    ON_VERSITYGW,
    pytest.param("dynamodb on moto", marks=pytest.mark.dynamodb),
    ON_DYNOXIDE,
    ON_POSTGRES,
]


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of every kind."""
    return make_place(request.param, request, tmp_path)


@pytest.fixture(
    params=[
        *ALL[:4],
        pytest.param("store on moto", marks=[pytest.mark.s3, *unless_built(VERSITYGW)]),
        ON_VERSITYGW,
        pytest.param("dynamodb on moto", marks=[pytest.mark.dynamodb, *unless_built(DYNOXIDE)]),
        ON_DYNOXIDE,
        ON_POSTGRES,
    ]
)
def contended(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Such a place that many contend for."""
    return make_place(request.param, request, tmp_path)


@pytest.fixture(params=["sqlite", "store on files", ON_VERSITYGW, ON_DYNOXIDE, ON_POSTGRES])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Such a place that several processes can open."""
    return make_place(request.param, request, tmp_path)
