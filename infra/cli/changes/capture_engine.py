"""`penstock capture debezium`, `mariadb`, `mysql`, `signal` and `jars`, by Debezium's engine."""

from __future__ import annotations

import gc
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import click

from ...terminal import output
from ...terminal.session import CommandSession, command_options, options
from .capture_topic import BODY_BYTES, CaptureOutput, answer, capture_options, made_topic, opened_lake, refuse_password

if TYPE_CHECKING:
    from ....cdc.capture.options import SourceCaptureOptions
    from ....cdc.capture.progress import SourceProgress
    from ....cdc.capture.resources import CaptureResources
    from ....cdc.capture.state import SourceStateStore
    from ....cdc.debezium import EngineCapture, EngineOptions
    from ....log.produce.producer import Producer

States = TypeVar("States", bound="SourceStateStore[Any]")

PASSWORD = "PENSTOCK_DATABASE_PASSWORD"  # noqa: S105 - a variable's name
EPILOG = (
    f"The password comes from {PASSWORD}, or from the whole URL in the variable; never from the command line. Runs until Ctrl-C or SIGTERM, which "
    "ends in order; run again, it goes on where it ended."
)


source_options = options(
    click.option("--name", default="penstock", show_default=True, help="The capture's name: one for a database and a topic."),
    capture_options,
)


_driver = click.option(
    "--driver-jar", metavar="FILE", help="The database's JDBC driver. Default: where the system's package has it."
)


@click.command(epilog=EPILOG)
@click.argument("configuration", metavar="CONFIG.properties", type=click.Path(dir_okay=False, path_type=Path))
@_driver
@source_options
def debezium(
    session: CommandSession,
    /,
    *,
    configuration: Path,
    topic: str,
    driver_jar: str | None,
    **chosen: Any,  # noqa: ANN401 - of options
) -> None:
    """Follow the database that a Debezium configuration names into a topic, exactly once, by Debezium's engine in this process.

    The file names connector.class (MariaDB's or MySQL's), database.hostname and so on, as for Kafka Connect. What the capture sets itself,
    such as snapshot.mode and where offsets are kept, is refused in it. Needs Java 17 or newer, and the database's JDBC driver.
    """
    from ....cdc.debezium import read_properties

    properties = read_properties(configuration)
    if password := os.environ.get(PASSWORD):
        properties.setdefault("database.password", password)
    _capture(session, properties, topic, driver_jar, **chosen)


def _of_url(kind: str, title: str, class_name: str) -> click.Command:
    variable = f"PENSTOCK_{kind.upper()}"

    @click.command(kind, epilog=EPILOG)
    @click.argument("url", envvar=variable, metavar="URL")
    @click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="DATABASE.TABLE",
        help="A table; may be repeated. Default: all of the URL's database.",
    )
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of Debezium's connector; may be repeated. Those that the capture sets itself are refused.",
    )
    @_driver
    @source_options
    def command(
        session: CommandSession,
        /,
        *,
        url: str,
        tables: tuple[str, ...],
        settings: tuple[str, ...],
        topic: str,
        driver_jar: str | None,
        **chosen: Any,  # noqa: ANN401 - of options
    ) -> None:
        properties = {"connector.class": class_name, **_of(url, kind), **_given(settings)}
        if tables:
            from ....cdc.debezium.queries import pattern_of

            properties["table.include.list"] = ",".join(map(pattern_of, tables))
        _capture(session, properties, topic, driver_jar, **chosen)

    command.help = (
        f"Follow a {title} with a row binlog into a topic by Debezium's engine, as Debezium envelopes, exactly once.\n\n"
        f"URL is {kind}://user@host:3306/database. The rows that are there come first, then every change, in order by row. Tables need a "
        "primary key. Needs Java 17 or newer, and the JDBC driver of the database."
    )
    return command


mariadb = _of_url("mariadb", "MariaDB", "io.debezium.connector.mariadb.MariaDbConnector")
mysql = _of_url("mysql", "MySQL", "io.debezium.connector.mysql.MySqlConnector")


def _of(url: str, kind: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme != kind or not host:
        raise click.UsageError(f"No URL of a database: expected {kind}://user@host:3306/database")
    refuse_password("url", parts.password is not None, f"set {PASSWORD}, or give the whole URL as PENSTOCK_{kind.upper()}")
    password = unquote(parts.password) if parts.password is not None else os.environ.get(PASSWORD)
    found = {"database.hostname": host, "database.port": str(port or 3306)}
    if parts.username:
        found["database.user"] = unquote(parts.username)
    if password:
        found["database.password"] = password
    if database := unquote(parts.path.strip("/")):
        from ....cdc.debezium.queries import pattern_of

        found["database.include.list"] = database if database.replace("-", "_").isidentifier() else pattern_of(database)
    return found


def _given(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name:
            raise click.UsageError(f"No property: expected --set NAME=VALUE, got {setting!r}")
        if name == "database.password":
            raise click.UsageError(f"No password on the command line: set {PASSWORD}.")
        found[name] = value
    return found


def _capture(session: CommandSession, properties: dict[str, str], topic: str, driver_jar: str | None, **chosen: Any) -> None:  # noqa: ANN401 - of options
    from ....cdc.debezium import EngineOptions

    options = EngineOptions(**chosen)
    shown = CaptureOutput(session, topic, place_text)
    with session.signals.held(), _opened(session, properties, topic, options, driver_jar) as capture:
        _spare_imports()
        shown.during(capture.run)


def place_text(progress: SourceProgress) -> str:
    return f"; at {progress.position}" if progress.position else ""


def _spare_imports() -> None:
    """Exempt the present objects from Python's garbage collection: with each of Java's, JPype runs Python's, for some 45 ms."""
    gc.collect()
    gc.freeze()


@contextmanager
def _opened(
    session: CommandSession, properties: dict[str, str], topic: str, options: EngineOptions, driver_jar: str | None
) -> Iterator[EngineCapture]:
    from ....cdc.debezium import EngineCapture, EngineStateStore, connector_of
    from ....cdc.debezium.configuration import check_own
    from ....cdc.debezium.engine import start_java
    from ....cdc.debezium.jars import ensure, find_driver
    from ....cdc.debezium.source import BinlogServer

    connector = connector_of(properties)
    check_own(properties)
    driver = find_driver(connector, driver_jar)
    start_java([*ensure(connector), driver])
    server = BinlogServer(connector, properties)
    try:
        answer(session, server.check, options)  # before anything is made
    finally:
        server.close()
    with opened_topic(session, topic, options, EngineStateStore) as resources:
        yield EngineCapture(connector, properties, options, resources)


@contextmanager
def opened_topic(
    session: CommandSession, topic: str, options: SourceCaptureOptions, states: type[States], *, body_bytes: int = BODY_BYTES
) -> Iterator[CaptureResources[States]]:
    """A capture's topic, made if missing, and its producers, until the block ends. Raises `InvalidArgument` for a topic with a schema.
    ``body_bytes``: the limit of a new topic.
    """
    from ....cdc.capture.resources import CaptureResources
    from ....log import InvalidArgument

    with opened_lake(session) as (portal, lake):

        async def opened() -> tuple[Producer, Producer, str]:
            record = await made_topic(lake, topic, body_bytes=body_bytes)
            if record.settings.schema is not None:
                raise InvalidArgument("the topic has a schema", operation="capture", object=topic, hint="capture into a new topic")
            # The order matters: whoever opens the producer of changes fences the capture that ran, and only then looks at its rows.
            producer = await lake.producer(topic, name=options.producer_name)
            return producer, await lake.producer(topic, name=options.rows_producer_name), record.incarnation

        producer, rows_producer, life = portal.run(opened)
        yield CaptureResources(
            producer=producer,
            rows_producer=rows_producer,
            states=states(lake.store, portal.run, topic=topic, name=options.name),
            life=life,
            clock=lake.runtime.clock,
            pause=time.sleep,
        )


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="DATABASE.TABLE…")
@click.option("--topic", required=True, help="The capture's topic.")
@click.option("--name", default="penstock", show_default=True, help="The capture's name.")
@command_options
@click.pass_obj
def signal(session: CommandSession, /, *, tables: tuple[str, ...], topic: str, name: str) -> None:
    """Ask a capture of a MariaDB, a MySQL or a MongoDB to read these tables' rows once more.

    It takes the signal within seconds, or when it runs next: it stops following for as long as it reads, then goes on. Rows come beside those
    that are in the topic; none is removed.
    """
    from ....cdc.debezium import EngineStateStore
    from ....cdc.mongodb.state import MongoStateStore
    from ....log import InvalidArgument

    with opened_lake(session) as (portal, lake):
        kept = (states(lake.store, portal.run, topic=topic, name=name) for states in (EngineStateStore, MongoStateStore))
        found = [states for states in kept if states.load() is not None]
        if not found:
            raise InvalidArgument(
                "no such capture has begun",
                operation="signal",
                object=f"{topic}/{name}",
                hint="see --topic and --name of the capture",
            )
        bad = [table for table in tables if "." not in table]
        if bad:
            raise InvalidArgument("this names no table", operation="signal", expected="DATABASE.TABLE", observed=bad[0])
        for states in found:
            states.signal(uuid.uuid4().hex, tables)
    output.say(f"{', '.join(tables)}: asked for")


@click.command()
@click.argument("connector", type=click.Choice(["mariadb", "mysql"]), default="mariadb")
@command_options
@click.pass_obj
def jars(session: CommandSession, /, *, connector: str) -> None:
    """Fetch the JARs of Debezium's engine into the cache, so that captures need no network for them."""
    from ....cdc.debezium.configuration import CONNECTORS
    from ....cdc.debezium.jars import ensure

    (wanted,) = (one for one in CONNECTORS.values() if one.name == connector)
    files = ensure(wanted)
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    output.say(f"{len(files)} JARs, {size_mb:.0f} MB, in {files[0].parent}")
