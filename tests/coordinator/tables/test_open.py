"""From a URL to a table, and what is wrong with a URL."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.coordinator.tables import MemoryTable, ObjectStoreTable, SqliteTable, create_table, open_table
from penstock.coordinator.tables.open import InDynamoDB, InMemory, InSqlite, InStore, Place, table_place
from penstock.coordinator.tables.postgres.place import InPostgres
from penstock.log.errors import InvalidArgument
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore, open_store


@pytest.mark.parametrize(
    ("url", "lake", "place"),
    [
        (None, "file:///data/my%20lake", InSqlite("/data/my lake/.penstock/coordination.db")),
        (None, "file:///", InSqlite("/.penstock/coordination.db")),
        (None, "s3://bucket/lake?region=eu-west-1", InStore()),
        (None, "gs://bucket/lake", InStore()),
        (None, "memory://lake", InStore()),
        ("store", "file:///lake", InStore()),
        ("memory://", "file:///lake", InMemory("")),
        ("memory://name", "file:///lake", InMemory("name")),
        ("sqlite:///var/cells%20of%20mine.db", "s3://bucket", InSqlite("/var/cells of mine.db")),
        ("dynamodb://Cells.of_mine-1", "s3://bucket", InDynamoDB(table="Cells.of_mine-1")),
        (
            "dynamodb://cells/lakes/one?region=eu-west-1&endpoint=http://127.0.0.1:8000&timeout_s=0.5",
            "s3://bucket",
            InDynamoDB(table="cells", prefix="lakes/one", region="eu-west-1", endpoint="http://127.0.0.1:8000", timeout_s=0.5),
        ),
        ("postgresql://host/db", "s3://bucket", InPostgres(hosts=(("host", 5432),), database="db")),
        (
            "postgresql://an%40n@one:1,[::1]:2,three/d%20b?table=own.Cells&sslmode=verify-full&sslrootcert=/ca.pem&passfile=/p&timeout_s=1",
            "s3://bucket",
            InPostgres(
                hosts=(("one", 1), ("::1", 2), ("three", 5432)),
                database="d b",
                user="an@n",
                schema="own",
                table="Cells",
                ssl=(("sslmode", "verify-full"), ("sslrootcert", "/ca.pem")),
                passfile="/p",
                timeout_s=1.0,
            ),
        ),
        ("postgresql:///db?host=/run/postgresql", "s3://bucket", InPostgres(hosts=(("/run/postgresql", 5432),), database="db")),
    ],
)
def test_a_url_names_a_place(url: str | None, lake: str, place: Place) -> None:
    assert table_place(url, lake) == place


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "",
            r"not a coordination table's URL.*expected: memory://, sqlite:///path, dynamodb://table\?region=…, postgresql://.* or store",
        ),
        ("mysql://ann:hush@host/db", r"not a coordination table's URL.*observed: mysql://…\).*share the bucket"),
        ("redis://host", r"not a coordination table's URL.*observed: redis://host"),
        ("cells.db", "not a coordination table's URL"),
        ("sqlite://cells.db", r"names no file.*expected: sqlite:///absolute/path"),
        ("sqlite:///", "names no file"),
        ("sqlite:///folder/", "names no file"),
        ("sqlite:cells.db", "names no file"),
        ("sqlite:///cells.db?timeout=1", "sqlite:// has no such option.*expected: no options; observed: timeout"),
        ("memory://?x=1", "memory:// has no such option"),
        ("dynamodb://", "names no DynamoDB table"),
        ("dynamodb://ab", "names no DynamoDB table.*3 to 255"),
        ("dynamodb://cells:8000", "names no DynamoDB table"),
        ("dynamodb://cells/a//b", "bad key"),
        ("dynamodb://cells?regoin=x", r"dynamodb:// has no such option.*expected: region, endpoint, timeout_s; observed: regoin"),
        ("dynamodb://cells?endpoint=localhost:8000", "the endpoint is no URL"),
        ("dynamodb://cells?timeout_s=0", r"bad option.*seconds, above 0 and at most 60.*timeout_s=0"),
        ("dynamodb://cells?timeout_s=soon", "bad option"),
        ("dynamodb://id:hush@cells", "credentials do not belong into a URL"),
        ("dynamodb://cells?secret_access_key=hush", "credentials do not belong into a URL.*observed: secret_access_key"),
        ("dynamodb://cells?endpoint=http://id:hush@db.example", "credentials do not belong into a URL.*observed: endpoint"),
        ("dynamodb://cells#part", "has no '#'"),
        ("postgresql://ann:hush@host/db", r"credentials do not belong into a URL.*PGPASSWORD.*passfile"),
        ("postgresql://host/db?password=hush", "credentials do not belong into a URL.*observed: password"),
        ("postgresql://host/db?sslpassword=hush", "credentials do not belong into a URL.*observed: sslpassword"),
        ("postgresql://host", "names no database.*postgresql://user@host:5432/database"),
        ("postgresql://host/a/b", "names no database"),
        ("postgresql:///db", "names no PostgreSQL server"),
        ("postgresql://one,,two/db", "names no PostgreSQL server"),
        ("postgresql://host:0/db", "names no PostgreSQL server.*observed: host:0"),
        ("postgresql://host:65536/db", "names no PostgreSQL server"),
        ("postgresql://host/db?host=/run", "bad option.*no other host"),
        ("postgresql:///db?host=run", "bad option"),
        ('postgresql://host/db?table=a"b', "names no PostgreSQL table.*letters, digits"),
        ("postgresql://host/db?table=a.b.c", "names no PostgreSQL table"),
        ("postgresql://host/db?table=", "names no PostgreSQL table"),
        ("postgresql://host/db?table=" + "t" * 64, "names no PostgreSQL table"),
        ("postgresql://host/db?sslmode=verify", "bad option.*verify-full.*observed: sslmode=verify"),
        ("postgresql://host/db?connect_timeout=1", "postgresql:// has no such option.*table.*observed: connect_timeout"),
        ("postgresql://host/db?timeout_s=61", "bad option.*timeout_s=61"),
        ("postgres://host/db", "not a coordination table's URL"),
    ],
)
def test_a_bad_url_is_refused_with_what_is_wrong(url: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as raised:
        table_place(url, "s3://bucket")
    assert "hush" not in str(raised.value)


def test_a_place_is_opened_without_touching_it(tmp_path: Path) -> None:
    folder = open_store(tmp_path / "lake")
    beside = open_table(None, store=folder, runtime=Runtime())
    assert isinstance(beside, SqliteTable)
    assert beside.url == f"sqlite://{tmp_path}/lake/.penstock/coordination.db"
    assert isinstance(open_table("store", store=folder, runtime=Runtime()), ObjectStoreTable)
    assert isinstance(open_table("memory://x", store=folder, runtime=Runtime()), MemoryTable)
    assert os.listdir(tmp_path) == []


def test_a_dynamodb_table_shows_its_place_without_secrets() -> None:
    options = {"access_key_id": "id-7", "secret_access_key": "hush"}
    url = "dynamodb://cells/one?region=eu-west-1"
    assert open_table(url, store=MemoryStore(), runtime=Runtime(), options=options).url == url
    with pytest.raises(InvalidArgument, match=r"a coordination table has no such option.*expected: access_key_id.*observed: token"):
        open_table(url, store=MemoryStore(), runtime=Runtime(), options={"token": "x"})


def test_a_table_in_postgresql_shows_its_place_without_options_that_say_how_to_come_there() -> None:
    url = "postgresql://ann@one:5432,[::1]:2/d%20b?table=own.cells"
    assert open_table(f"{url}&sslmode=require&passfile=/hush", store=MemoryStore(), runtime=Runtime()).url == url
    place = table_place("postgresql://ann@one,two:2/db?sslmode=require&passfile=/hush&table=cells", "s3://bucket")
    assert isinstance(place, InPostgres)
    assert place.dsn(1) == "postgresql://ann@two:2/db?sslmode=require&passfile=/hush"
    socket = table_place("postgresql:///db?host=/run/postgresql", "s3://bucket")
    assert isinstance(socket, InPostgres)
    assert socket.url == socket.dsn(0) == "postgresql:///db?host=/run/postgresql"


def test_only_a_table_of_a_service_is_made_by_hand(tmp_path: Path) -> None:
    for url in ("store", "memory://", f"sqlite://{tmp_path}/cells.db"):
        with pytest.raises(InvalidArgument, match="only a table in DynamoDB or PostgreSQL is made by hand"):
            asyncio.run(create_table(url))
    assert os.listdir(tmp_path) == []


async def test_cells_beside_a_folder_are_hidden_from_the_lake(tmp_path: Path) -> None:
    store = open_store(tmp_path / "lake")
    table = open_table(None, store=store, runtime=Runtime())
    await table.put("k", b"one", expected=None)
    assert await store.list("") == []
    assert await store.list_folders("") == []
    await table.close()
    await store.close()


async def test_lakes_that_share_a_store_in_memory_share_their_cells() -> None:
    store = MemoryStore()
    one, two = (open_table(None, store=seen, runtime=Runtime()) for seen in (store, CountingStore(store)))
    await one.put("k", b"one", expected=None)
    found = await two.get("k")
    assert found is not None
    assert found.data == b"one"
