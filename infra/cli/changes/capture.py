"""`penstock capture`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from ...terminal import output
from ...terminal.session import CommandSession
from . import capture_engine
from .capture_mongodb import mongodb
from .capture_topic import BODY_BYTES, CaptureOutput, answer, capture_options, made_topic, opened_lake, refuse_password

if TYPE_CHECKING:
    from ....aio import Lake
    from ....cdc.postgres import PostgresCapture, PostgresOptions, PostgresProgress
    from ....log.runtime.portal import Portal
    from ....log.schema.fields import Field
    from ....log.schema.topic_schema import TopicSchema

_DSN_VARIABLE = "PENSTOCK_POSTGRES"


_ELSEWHERE = ("sqlserver", "oracle", "db2", "cassandra", "vitess", "spanner")


class _Databases(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _ELSEWHERE:
            raise click.UsageError(
                f"No capture of {cmd_name}: the order of its positions is not known here, so a change could be in the topic twice, or not at all. "
                "Debezium Server brings its events to a Kafka, and Spark from there: see docs/guides/other-databases.md."
            )
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Databases)
def command() -> None:
    """Follow a database's changes into a topic."""


for _one in (
    *(capture_engine.debezium, capture_engine.mariadb, capture_engine.mysql),
    mongodb,
    *(capture_engine.signal, capture_engine.jars),
):
    command.add_command(_one)


@command.command(
    epilog="The password comes from PGPASSWORD, a password file, or the DSN in PENSTOCK_POSTGRES; never from the command line. Runs until Ctrl-C or "
    "SIGTERM, which ends in order; run again, it goes on where it ended."
)
@click.argument("dsn", envvar=_DSN_VARIABLE, metavar="DSN")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="SCHEMA.TABLE",
    help="A table; may be repeated. Default: the publication's, else all.",
)
@click.option("--slot", default="penstock", show_default=True, help="The replication slot; made when there is none.")
@click.option("--publication", default="penstock", show_default=True, help="The publication; made when there is none.")
@click.option(
    "--typed",
    is_flag=True,
    help="One table's changes as typed rows: the topic's schema is made from its columns, and follows them.",
)
@capture_options
def postgres(session: CommandSession, /, *, dsn: str, topic: str, **chosen: Any) -> None:  # noqa: ANN401 - of options
    """Follow a PostgreSQL (13 or newer, wal_level = logical) into a topic by logical decoding, as Debezium envelopes, exactly once.

    DSN is postgresql://user@host:5432/database, or 'host=… dbname=… user=…'. The rows that are there come first, then every change, in
    order by row. Tables need a primary key or a replica identity index; the user needs REPLICATION and SELECT.
    """
    from ....cdc.postgres import PostgresOptions

    refuse_password("dsn", _has_password(dsn), f"set PGPASSWORD, or give the whole DSN as {_DSN_VARIABLE}")
    options = PostgresOptions(**chosen)
    shown = CaptureOutput(session, topic, _lag_text)
    with session.signals.held(), _opened(session, dsn, topic, options) as capture:
        shown.during(capture.run)


def _has_password(dsn: str) -> bool:
    try:
        in_url = "://" in dsn and urlsplit(dsn).password is not None
    except ValueError:
        in_url = False
    return in_url or "password=" in dsn.replace(" ", "")


@contextmanager
def _opened(session: CommandSession, dsn: str, topic: str, options: PostgresOptions) -> Iterator[PostgresCapture]:
    from ....cdc.postgres import PostgresCapture, PostgresStateStore, TypesStore
    from ....cdc.postgres.catalog import Catalog
    from ....cdc.postgres.preflight import CapturePreflight
    from ....cdc.postgres.typed_events import fields_of_table
    from ....log import InvalidArgument, Producer
    from ....log.schema.topic_schema import first_schema

    catalog = Catalog(dsn)
    fields: tuple[Field, ...] = ()
    try:
        checked = answer(session, lambda: CapturePreflight(catalog, options), options)  # before anything is made
        if options.typed:
            (table,) = checked.tables
            fields = fields_of_table(catalog.typed_columns(table.schema, table.name), table.key)
    finally:
        catalog.close()
    with opened_lake(session) as (portal, lake):

        async def opened() -> tuple[Producer, str]:
            record = await made_topic(lake, topic, body_bytes=BODY_BYTES, schema=first_schema(fields) if fields else None)
            if (record.settings.schema is not None) is not options.typed:
                raise InvalidArgument(
                    "the topic has no schema" if options.typed else "the topic has a schema",
                    operation="capture",
                    object=topic,
                    hint="capture into a new topic" if options.typed else "capture with --typed",
                )
            return await lake.producer(topic, name=options.producer_name), record.incarnation

        producer, life = portal.run(opened)
        yield PostgresCapture(
            dsn,
            options,
            producer=producer,
            states=PostgresStateStore(lake.store, portal.run, topic=topic, slot=options.slot),
            life=life,
            clock=lake.runtime.clock,
            pause=time.sleep,
            schema=_TopicSchema(portal, lake, topic) if options.typed else None,
            types=None if options.typed else TypesStore(lake.store, portal.run, topic=topic),
        )


class _TopicSchema:
    def __init__(self, portal: Portal, lake: Lake, topic: str) -> None:
        self._portal, self._lake, self._topic = portal, lake, topic

    def now(self) -> TopicSchema:
        schema = self._portal.run(lambda: self._lake.topic_schema(self._topic))
        assert schema is not None, "it was looked at when the topic was opened"
        return schema

    def evolve(self, fields: tuple[Field, ...]) -> None:
        import pyarrow as pa

        from ....log.schema.arrow_types import arrow_fields

        wanted = pa.schema(arrow_fields(fields))
        self._portal.run(lambda: self._lake.evolve_topic(self._topic, wanted))


def _lag_text(progress: PostgresProgress) -> str:
    return "" if progress.lag_bytes is None else f"; {output.size_text(progress.lag_bytes)} of WAL behind"
