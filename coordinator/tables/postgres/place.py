"""The URL of a table of cells in PostgreSQL. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, unquote, urlencode

from ....log.errors import InvalidArgument
from ...limits import TABLE_TIMEOUT_S

SCHEME = "postgresql"
SSL_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl")
OPTIONS = ("table", "timeout_s", "host", "passfile", *SSL_OPTIONS)
SECRETS = ("password", "sslpassword")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_PORT = 5432
_DEFAULT = "penstock"
_SCHEMA = "public"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_EXPECTED = "postgresql://user@host:5432/database?table=penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class InPostgres:
    """A table of a PostgreSQL database."""

    hosts: tuple[tuple[str, int], ...]
    """Servers, of which the one that takes writes is used. A host that begins with ``/`` is a socket's folder."""
    database: str
    user: str | None = None
    """None: ``PGUSER``, or the operating system's user."""
    schema: str = _SCHEMA
    table: str = _DEFAULT
    ssl: tuple[tuple[str, str], ...] = ()
    """Options as libpq has them."""
    passfile: str | None = None
    """None: ``PGPASSFILE``, or ``~/.pgpass``. The password in ``PGPASSWORD`` comes first."""
    timeout_s: float = TABLE_TIMEOUT_S

    @property
    def url(self) -> str:
        given = {} if (self.schema, self.table) == (_SCHEMA, _DEFAULT) else {"table": self.name}
        return self._url(self.hosts, given)

    @property
    def name(self) -> str:
        return self.table if self.schema == _SCHEMA else f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        """The table in SQL, whatever the search path is."""
        return f'"{self.schema}"."{self.table}"'

    def dsn(self, host: int) -> str:
        """What a client connects to."""
        given = dict(self.ssl) | ({"passfile": self.passfile} if self.passfile else {})
        return self._url((self.hosts[host],), given)

    def _url(self, hosts: tuple[tuple[str, int], ...], given: dict[str, str]) -> str:
        user = "" if self.user is None else f"{quote(self.user, safe='')}@"
        folders = [host for host, _ in hosts if host.startswith("/")]
        named = "" if folders else ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts)
        query = urlencode(given | ({"host": folders[0]} if folders else {}), safe="/")
        return f"{SCHEME}://{user}{named}/{quote(self.database, safe='')}" + (f"?{query}" if query else "")


def postgres_place(url: str, parts: SplitResult, options: Mapping[str, str], timeout_s: float) -> InPostgres:
    """The place that a URL names whose options are known ones. Raises `InvalidArgument`."""
    shown = url.partition("?")[0]
    user, at, place = parts.netloc.rpartition("@")
    if ":" in user:
        raise InvalidArgument(
            "credentials do not belong into a URL",
            operation="connect",
            expected=_EXPECTED,
            hint="Set PGPASSWORD in the environment, or write a passfile (~/.pgpass, PGPASSFILE)",
        )
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise InvalidArgument("the URL names no database", object=shown, expected=_EXPECTED, observed=parts.path)
    schema, _, table = options.get("table", _DEFAULT).rpartition(".")
    for name in (schema or _SCHEMA, table):
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                "the URL names no PostgreSQL table",
                object=shown,
                expected="table=name or table=schema.name, each of 1 to 63 letters, digits, '_' and '$'",
                observed=options.get("table"),
            )
    mode = options.get("sslmode")
    if mode is not None and mode not in _SSL_MODES:
        raise InvalidArgument("bad option", object=shown, expected=", ".join(_SSL_MODES), observed=f"sslmode={mode}")
    return InPostgres(
        hosts=_hosts(shown, place, options.get("host")),
        database=database,
        user=unquote(user) if at and user else None,
        schema=schema or _SCHEMA,
        table=table,
        ssl=tuple((name, options[name]) for name in SSL_OPTIONS if name in options),
        passfile=options.get("passfile"),
        timeout_s=timeout_s,
    )


def _hosts(shown: str, place: str, folder: str | None) -> tuple[tuple[str, int], ...]:
    if folder is not None:
        if place or not folder.startswith("/"):
            raise InvalidArgument(
                "bad option", object=shown, expected="host=/folder/of/the/socket, and no other host", observed=f"host={folder}"
            )
        return ((folder, _PORT),)
    found = []
    for one in place.split(","):
        match = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d{1,5}))?", one)
        port = int((match and match[2]) or _PORT)
        if match is None or not 0 < port < 65_536:
            raise InvalidArgument("the URL names no PostgreSQL server", object=shown, expected=_EXPECTED, observed=one)
        found.append((match[1].strip("[]"), port))
    return tuple(found)
