"""Opens the table that a URL names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from ...log.errors import InvalidArgument, MissingDependency, install_hint
from ...log.limits import plain
from ...log.runtime.runtime import Runtime
from ...log.stores.protocol import HIDDEN_FOLDER, ObjectStore
from ..limits import TABLE_TIMEOUT_S
from .memory import MemoryTable
from .objectstore import ObjectStoreTable
from .postgres.place import OPTIONS, SCHEME, SECRETS, InPostgres, postgres_place
from .protocol import CellTable, check_cell_key
from .sqlite import SqliteTable

if TYPE_CHECKING:
    from .dynamodb import DynamoDBTable
    from .postgres.table import PostgresTable

_CONNECT_TIMEOUT_S = 1.0
_READ_ATTEMPTS = 4
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_DYNAMODB_OPTIONS = ("region", "endpoint", "timeout_s")
_SECRETS = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
}
_KNOWN = ("memory", "sqlite", "dynamodb", SCHEME)
_SCHEMES = "memory://, sqlite:///path, dynamodb://table?region=…, postgresql://user@host/database or store"


@dataclass(frozen=True, slots=True)
class InMemory:
    """A new table in this process."""

    name: str


@dataclass(frozen=True, slots=True)
class InStore:
    """The lake's own object store."""


@dataclass(frozen=True, slots=True)
class InSqlite:
    """A SQLite file."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InDynamoDB:
    """A DynamoDB table, or its cells below ``prefix``."""

    table: str
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    timeout_s: float = TABLE_TIMEOUT_S

    @property
    def url(self) -> str:
        query = urlencode({name: value for name in ("region", "endpoint") if (value := getattr(self, name))})
        return f"dynamodb://{self.table}" + (f"/{self.prefix}" if self.prefix else "") + (f"?{query}" if query else "")


Place: TypeAlias = InMemory | InStore | InSqlite | InDynamoDB | InPostgres


def open_table(url: str | None, *, store: ObjectStore, runtime: Runtime, options: Mapping[str, str] | None = None) -> CellTable:
    """The coordination table of the lake in ``store``.

        =================================  ========================================================================================
        ``None``                           beside a lake in a folder: SQLite, in its hidden folder; else ``store``
        ``store``                          the lake's own object store
        ``sqlite:///path``                 a file on a local file system, for the processes of one machine
        ``dynamodb://table/prefix``        DynamoDB; several lakes may share a table if each has a prefix. Options: ``region``
                                           (default ``AWS_REGION``), ``endpoint`` (default ``AWS_ENDPOINT_URL_DYNAMODB``),
                                           ``timeout_s`` (one request, default 2). `create_table` makes the table.
        ``postgresql://user@host/db``      a table of PostgreSQL, made by the first write where that is allowed. Options: ``table``
                                           (default ``penstock``, or ``schema.name``), ``timeout_s``, libpq's ``sslmode``,
                                           ``sslrootcert``, ``sslcert``, ``sslkey``, ``sslcrl`` and ``passfile``, and ``host``
                                           (a socket's folder). Of several hosts the one that takes writes is used
        ``memory://name``                  a new table in this process; the name is for people
        =================================  ========================================================================================

    Credentials for DynamoDB come from the environment, the machine's role, or ``options`` (``access_key_id``, ``secret_access_key``,
    ``session_token``). PostgreSQL's password comes from ``PGPASSWORD`` or a passfile. All are refused in a URL, which may be logged.

    Raises `InvalidArgument` for a bad URL, and `MissingDependency` without boto3 or asyncpg.
    """
    match table_place(url, store.url):
        case InMemory(name):
            return MemoryTable(name=name)
        case InStore():
            return ObjectStoreTable(store, runtime=runtime)
        case InSqlite(path):
            return SqliteTable(path, runtime=runtime)
        case InDynamoDB() as place:
            return _open_dynamodb(place, runtime, options or {})
        case InPostgres() as place:
            return _open_postgres(place, runtime, options or {})


async def create_table(url: str, *, runtime: Runtime | None = None, options: Mapping[str, str] | None = None) -> None:
    """Make a table for cells in DynamoDB, billed by request, or in PostgreSQL, and wait for it, unless it exists; others are made by their first
    write. Raises `TableMismatch` for another key.
    """
    table: DynamoDBTable | PostgresTable
    match table_place(url, ""):
        case InDynamoDB() as place:
            table = _open_dynamodb(place, runtime or Runtime(), options or {})
        case InPostgres() as place:
            table = _open_postgres(place, runtime or Runtime(), options or {})
        case _:
            raise InvalidArgument(
                "only a table in DynamoDB or PostgreSQL is made by hand",
                operation="create table",
                object=url,
                expected=f"dynamodb://… or {SCHEME}://…",
            )
    try:
        await table.create()
    finally:
        await table.close()


def table_place(url: str | None, store_url: str) -> Place:
    """The place of a lake's cells. Pure."""
    if url is None:
        lake = urlsplit(store_url)
        if lake.scheme == "file":
            return InSqlite(f"{unquote(lake.path).rstrip('/')}/{HIDDEN_FOLDER}/coordination.db")
        # This holds for lakes in memory too: lakes that share a store must share their cells.
        return InStore()
    given: object = url
    if not isinstance(given, str):
        raise InvalidArgument("not a coordination table's URL", operation="connect", observed=plain(given), expected=_SCHEMES)
    if url == "store":
        return InStore()
    parts = urlsplit(url)
    if parts.scheme not in _KNOWN:
        raise InvalidArgument(
            "not a coordination table's URL",
            operation="connect",
            expected=_SCHEMES,
            observed=f"{parts.scheme}://…" if "@" in parts.netloc else url.partition("?")[0],
            hint="machines without AWS share the bucket itself: store",
        )
    if "@" in parts.netloc and parts.scheme != SCHEME:
        raise InvalidArgument("credentials do not belong into a URL", hint="Set them in the environment or pass options")
    if parts.fragment:
        raise InvalidArgument("a coordination URL has no '#'", object=url.partition("?")[0].partition("#")[0])
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    match parts.scheme:
        case "memory":
            _know(url, options, ())
            return InMemory((parts.netloc + parts.path).rstrip("/"))
        case "sqlite":
            _know(url, options, ())
            if parts.netloc or not parts.path.startswith("/") or parts.path.endswith("/"):
                raise InvalidArgument("the URL names no file", object=url, expected="sqlite:///absolute/path")
            return InSqlite(unquote(parts.path))
        case "dynamodb":
            _know(url, options, _DYNAMODB_OPTIONS)
            return _dynamodb_place(url, parts.netloc, unquote(parts.path).strip("/"), options)
        case "postgresql":
            _know(url, options, OPTIONS)
            return postgres_place(url, parts, options, _seconds(options.get("timeout_s")))
        case _:
            raise AssertionError(f"{parts.scheme} is known")


def _dynamodb_place(url: str, table: str, prefix: str, options: dict[str, str]) -> InDynamoDB:
    if not _TABLE_NAME.fullmatch(table):
        raise InvalidArgument(
            "the URL names no DynamoDB table",
            object=url.partition("?")[0],
            expected="dynamodb://table, of 3 to 255 letters, digits, '_', '-' and '.'",
            observed=table,
        )
    if prefix:
        check_cell_key(prefix)
    endpoint = options.get("endpoint")
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise InvalidArgument("the endpoint is no URL", observed=endpoint, expected="http://… or https://…")
    return InDynamoDB(
        table=table,
        prefix=prefix,
        region=options.get("region"),
        endpoint=endpoint,
        timeout_s=_seconds(options.get("timeout_s")),
    )


def _know(url: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    scheme = url.partition("://")[0]
    for name, value in options.items():
        if name in (*_SECRETS, *SECRETS) or (name == "endpoint" and "@" in urlsplit(value).netloc):
            raise InvalidArgument(
                "credentials do not belong into a URL", observed=name, hint="Set them in the environment or pass options"
            )
        if name not in known:
            raise InvalidArgument(f"{scheme}:// has no such option", observed=name, expected=", ".join(known) or "no options")


def _seconds(value: str | None) -> float:
    try:
        seconds = TABLE_TIMEOUT_S if value is None else float(value)
        if not 0 < seconds <= 60:
            raise ValueError
    except ValueError:
        raise InvalidArgument("bad option", observed=f"timeout_s={value}", expected="seconds, above 0 and at most 60") from None
    return seconds


def _check_options(options: Mapping[str, str]) -> None:
    for name in options.keys() - _SECRETS.keys():
        raise InvalidArgument("a coordination table has no such option", observed=name, expected=", ".join(_SECRETS))


@cache
def _service_data(path: str | None) -> object:
    """Reads what botocore knows of services, once a process: a session of its own takes a tenth of a second for it."""
    from botocore.loaders import create_loader

    return create_loader(path)


def _open_dynamodb(place: InDynamoDB, runtime: Runtime, options: Mapping[str, str]) -> DynamoDBTable:
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session, get_session
    except ImportError as error:
        raise MissingDependency(
            "cells in DynamoDB need boto3",
            operation="open",
            object=place.url,
            observed=str(error),
            hint=install_hint("dynamodb"),
        ) from error
    from .dynamodb import THREADS, DynamoDBClient, DynamoDBTable
    from .dynamodb_errors import translate

    _check_options(options)

    def client(session: Session, attempts: int) -> DynamoDBClient:
        made: DynamoDBClient = session.create_client(
            "dynamodb",
            region_name=place.region or os.environ.get("AWS_REGION"),
            endpoint_url=place.endpoint,
            config=Config(
                connect_timeout=min(_CONNECT_TIMEOUT_S, place.timeout_s),
                read_timeout=place.timeout_s,
                max_pool_connections=THREADS,
                tcp_keepalive=True,
                retries={"total_max_attempts": attempts, "mode": "standard"},
            ),
            **{_SECRETS[name]: value for name, value in options.items()},
        )
        return made

    def clients() -> tuple[DynamoDBClient, DynamoDBClient]:
        session = get_session()  # a separate one: one is not safe between threads, and knows old credentials
        session.register_component("data_loader", _service_data(session.get_config_variable("data_path")))
        return client(session, _READ_ATTEMPTS), client(session, 1)

    try:
        reader, writer = clients()
    except (BotoCoreError, ValueError) as error:
        if isinstance(error, BotoCoreError):
            raise translate(error, operation="open", object=place.url) from error
        raise InvalidArgument("the table's options do not fit", object=place.url, observed=str(error)) from error
    return DynamoDBTable(place.url, place.table, prefix=place.prefix, reader=reader, writer=writer, runtime=runtime, renew=clients)


def _open_postgres(place: InPostgres, runtime: Runtime, options: Mapping[str, str]) -> PostgresTable:
    try:
        from .postgres.connection import connect
        from .postgres.table import PostgresTable
    except ImportError as error:
        raise MissingDependency(
            "cells in PostgreSQL need asyncpg",
            operation="open",
            object=place.url,
            observed=str(error),
            hint=install_hint("postgresql-cells"),
        ) from error
    _check_options(options)
    return PostgresTable(place, connect=connect, runtime=runtime)
