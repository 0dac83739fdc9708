"""The connectors' properties: the user's, defaults, and those that a capture sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...log.errors import InvalidArgument, NotSupported


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector whose events have known positions."""

    name: str
    title: str
    class_name: str
    driver_class: str
    driver_name: str
    driver_licence: str
    driver_places: tuple[str, ...]
    driver_hint: str
    protocol: str
    domain: str


MARIADB = Connector(
    name="mariadb",
    title="MariaDB",
    class_name="io.debezium.connector.mariadb.MariaDbConnector",
    driver_class="org.mariadb.jdbc.Driver",
    driver_name="mariadb-java-client",
    driver_licence="LGPL",
    driver_places=("/usr/share/java/mariadb-java-client.jar",),
    driver_hint="Debian and Ubuntu have it as libmariadb-java; elsewhere get mariadb-java-client's JAR, and name it with --driver-jar",
    protocol="mariadb",
    domain="debezium.mariadb",
)
MYSQL = Connector(
    name="mysql",
    title="MySQL",
    class_name="io.debezium.connector.mysql.MySqlConnector",
    driver_class="com.mysql.cj.jdbc.Driver",
    driver_name="mysql-connector-j",
    driver_licence="GPL",
    driver_places=("/usr/share/java/mysql-connector-j.jar", "/usr/share/java/mysql-connector-java.jar"),
    driver_hint="get MySQL's Connector/J, and name its JAR with --driver-jar",
    protocol="mysql",
    domain="debezium.mysql",
)
CONNECTORS = {connector.class_name: connector for connector in (MARIADB, MYSQL)}

RESERVED_PROPERTIES = (
    "name",
    "topic.prefix",
    "offset.storage",
    "schema.history.internal",
    "snapshot.mode",
    "snapshot.include.collection.list",
    "snapshot.select.statement.overrides",
    "signal.enabled.channels",
    "signal.data.collection",
    "transforms",
    "predicates",
    "tombstones.on.delete",
    "key.converter",
    "value.converter",
    "errors.max.retries",
    "connect.keep.alive",
    "skipped.operations",
    "event.processing.failure.handling.mode",
    "event.deserialization.failure.handling.mode",
    "inconsistent.schema.handling.mode",
    "gtid.source",
    "gtid.new.channel.position",
    "snapshot.max.threads",
)
"""Properties, and beginnings of properties, that a capture's guarantees need."""
DEFAULTS = {
    "bigint.unsigned.handling.mode": "precise",
    "include.schema.changes": "true",
    "max.batch.size": "2048",
    "max.queue.size": "4096",  # what waits there outlives Java's young objects, which costs
    "extended.headers.enabled": "false",
    "poll.interval.ms": "100",
}


_PROPERTY = re.compile(r"([^=:\s]*)\s*([=:]?)\s*(.*)")


def connector_of(properties: Mapping[str, str]) -> Connector:
    """The connector that the properties name. Raises `InvalidArgument`, and `NotSupported` for one of unknown positions."""
    name = properties.get("connector.class")
    if not name:
        raise InvalidArgument(
            "the configuration names no connector", operation="capture", object="connector.class", expected=" or ".join(CONNECTORS)
        )
    if (found := CONNECTORS.get(name)) is None:
        raise NotSupported(
            "no such connector is known here: without the order of its positions a change could be in the topic twice, or not at all",
            operation="capture",
            object="connector.class",
            expected=" or ".join(CONNECTORS),
            observed=name,
            hint="for a PostgreSQL and a MongoDB there are `penstock capture postgres` and `mongodb`; others' events come by Debezium's server and a "
            "Kafka",
        )
    return found


def read_properties(path: Path) -> dict[str, str]:
    """The properties of a file as Java writes it. Raises `InvalidArgument`."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            "the configuration cannot be read", operation="capture", object=str(path), observed=str(error)
        ) from error
    return parse_properties(text, str(path))


def parse_properties(text: str, where: str) -> dict[str, str]:
    """Parse ``name=value`` or ``name: value``, a line each; # and ! begin remarks, a backslash at the end goes on. Raises
    `InvalidArgument`.
    """
    found: dict[str, str] = {}
    for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        fits = _PROPERTY.match(line)
        name, separator, value = fits.groups() if fits is not None else ("", "", "")
        if not separator or not name:
            raise InvalidArgument(
                "this is no property",
                operation="capture",
                object=where,
                expected="name=value",
                observed=line.split("=")[0][:80],
                hint='of a Kafka Connect JSON file write what its "config" says, a line each' if line[0] == "{" else None,
            )
        found[name] = re.sub(r"\\(.)", r"\1", value)
    return found


def check_own(properties: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` for a capture's own properties."""
    both = sorted(name for name in properties if any(name == one or name.startswith(f"{one}.") for one in RESERVED_PROPERTIES))
    if both:
        raise InvalidArgument(
            "the capture sets this itself, as each change would not be in the topic once otherwise",
            operation="capture",
            object=", ".join(both),
            expected="a configuration without it",
            hint="take it out",
        )


def case_sensitive(patterns: str) -> str:
    """Patterns that mind case, unlike the connector's."""
    return f"(?-i:{patterns})"


def without_tables(properties: Mapping[str, str], tables: Iterable[str]) -> dict[str, str]:
    names = "|".join(re.escape(table).replace(",", r"\,") for table in sorted(tables))
    if not names:
        return dict(properties)
    names = case_sensitive(names)
    if wanted := properties.get("table.include.list"):
        patterns = (f"(?!{names}$)(?:{pattern.strip()})" for pattern in re.split(r"(?<!\\),", wanted))
        return {**properties, "table.include.list": ",".join(patterns)}
    others = properties.get("table.exclude.list")
    return {**properties, "table.exclude.list": f"{others},{names}" if others else names}


def streaming_properties(
    properties: Mapping[str, str], *, name: str, server_id: int, offsets: Path, history: Path, more: Mapping[str, str]
) -> dict[str, str]:
    return {
        **DEFAULTS,
        "database.server.id": str(server_id),
        **properties,
        "name": name,
        "topic.prefix": name,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": "3600000",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(history),
        # What a parser refuses stops the tables that it is of (`hearing`), and nothing where those are not captured.
        "schema.history.internal.skip.unparseable.ddl": "true",
        # A configuration for Kafka Connect may have others of these, which say nothing of what is captured.
        "heartbeat.interval.ms": "100",  # one tells where a transaction has ended
        "connect.keep.alive.interval.ms": "250",  # the server's own come after 0.8 of it
        "provide.transaction.metadata": "true",
        "tombstones.on.delete": "false",
        "skipped.operations": "none",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "key.converter.replace.null.with.default": "false",
        "value.converter.replace.null.with.default": "false",
        "enable.time.adjuster": "false",  # the year 70 is not 1970
        # A connection that breaks ends the engine's life: the next one begins at a transaction's beginning, which no other place is.
        "connect.keep.alive": "false",
        "errors.max.retries": "0",
        "snapshot.max.threads": "1",
        **more,
    }
