"""The GRANTs of roles: what a process needs of a table in PostgreSQL, and nothing else."""

from __future__ import annotations

import asyncpg
import pytest

from penstock.coordinator.tables import CellTable, open_table
from penstock.coordinator.tables.postgres.place import InPostgres
from penstock.coordinator.tables.postgres.statements import CellStatements
from penstock.infra.deploy.access import ProcessRole
from penstock.infra.deploy.grants import grants
from penstock.log import InvalidArgument, Runtime
from penstock.log.errors import PermissionDenied
from penstock.log.stores import MemoryStore
from tests.postgres_server import PostgresServer

PLACE = "postgresql://an%22n@host/db?table=own.cells"
MADE = [
    'CREATE SCHEMA IF NOT EXISTS "own";',
    CellStatements(InPostgres(hosts=(), database="db", schema="own", table="cells")).create_table + ";",
    'GRANT USAGE ON SCHEMA "own" TO "an""n";',
]
READS, WRITES = "SELECT", "SELECT, INSERT, UPDATE, DELETE"


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        (ProcessRole.READER, READS),
        (ProcessRole.CONSUMER, WRITES),
        (ProcessRole.TRANSACTIONS, WRITES),
        (ProcessRole.GATEWAY, WRITES),
        (ProcessRole.SYNC, WRITES),
        (ProcessRole.MAINTENANCE, WRITES),
    ],
)
def test_a_role_gets_what_it_does_with_cells(role: ProcessRole, rights: str) -> None:
    assert grants([role], PLACE) == [*MADE, f'GRANT {rights} ON "own"."cells" TO "an""n";']
    assert grants([ProcessRole.READER, role, ProcessRole.PRODUCER], PLACE) == grants([role], PLACE)


@pytest.mark.parametrize("role", [ProcessRole.PRODUCER, ProcessRole.CAPTURE])
def test_who_uses_no_cells_gets_nothing(role: ProcessRole) -> None:
    assert grants([role], PLACE) == []


def test_a_table_that_has_no_grants_or_no_user_is_refused() -> None:
    for url in (None, "store", "dynamodb://cells"):
        with pytest.raises(InvalidArgument, match="only a table in PostgreSQL has GRANTs"):
            grants([ProcessRole.READER], url)
    with pytest.raises(InvalidArgument, match="names no user to grant to"):
        grants([ProcessRole.READER], "postgresql://host/db")


@pytest.mark.postgres
async def test_under_its_grants_a_consumer_writes_and_a_reader_only_reads(postgres: PostgresServer) -> None:
    def url(user: str) -> str:
        return f"{postgres.dsn.replace('//postgres@', f'//{user}@')}?table=granted.cells&timeout_s=10"

    def opened(user: str) -> CellTable:
        return open_table(url(user), store=MemoryStore(), runtime=Runtime())

    owner = await asyncpg.connect(postgres.dsn)
    for user, role in (("of_reader", ProcessRole.READER), ("of_consumer", ProcessRole.CONSUMER)):
        await owner.execute(f"CREATE ROLE {user} LOGIN")
        for statement in grants([role], url(user)):
            await owner.execute(statement)
    await owner.close()
    reader, consumer = opened("of_reader"), opened("of_consumer")
    version = await consumer.put("k", b"one", expected=None)
    version = await consumer.put("k", b"two", expected=version)
    found = await reader.get("k")
    assert found is not None
    assert (await reader.keys(""), found.data) == (["k"], b"two")
    for refused in (
        reader.put("k", b"", expected=None),
        reader.put("k", b"", expected=version),
        reader.delete("k", expected=version),
    ):
        with pytest.raises(PermissionDenied, match="refuses this use of the table"):
            await refused
    await consumer.delete("k", expected=version)
    await reader.close()
    await consumer.close()
