"""Each type and each form of table by both ways: what a capture reads and what the binlog tells are the same, and are the server's own values."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pytest

from tests.cdc.debezium.commands import Commands
from tests.cdc.debezium.conftest import Capturing
from tests.mariadb_server import MariaDBServer

pytestmark = [pytest.mark.mariadb, pytest.mark.slow]

EXACT = Context(prec=80)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - it has no zone
LATER = 1000
"""A row that the binlog tells is a copy of one that is read, with a key so much larger."""

KINDS: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127"),
    "TINYINT UNSIGNED": ("255",),
    "TINYINT(3) UNSIGNED ZEROFILL": ("7",),
    "BOOLEAN": ("TRUE", "5"),
    "SMALLINT": ("-32768",),
    "SMALLINT UNSIGNED": ("65535",),
    "MEDIUMINT": ("-8388608",),
    "MEDIUMINT UNSIGNED": ("16777215",),
    "INT": ("-2147483648",),
    "INT UNSIGNED": ("4294967295",),
    "INT(10) ZEROFILL": ("42",),
    "BIGINT": ("-9223372036854775808",),
    "BIGINT UNSIGNED": ("18446744073709551615", "9223372036854775808"),
    "DECIMAL(65,30)": ("12345678901234567890123456789012345.123456789012345678901234567890",),
    "DECIMAL(10,0)": ("-99",),
    "DECIMAL(12,2) UNSIGNED ZEROFILL": ("1.5",),
    "FLOAT": ("16777217", "0.1", "1.17549e-38", "3.40282e38", "123456.789"),
    "FLOAT(7,3)": ("1234.567",),
    "FLOAT(24) UNSIGNED": ("0.1",),
    "FLOAT(53)": ("0.1",),
    "DOUBLE": ("1.7976931348623157e308", "-5e-324", "1234567.891"),
    "DOUBLE(12,4)": ("12345678.1234",),
    "BIT(1)": ("b'1'", "b'0'"),
    "BIT(9)": ("b'100000001'",),
    "BIT(64)": ("0xFFFFFFFFFFFFFFFF", "1"),
    "YEAR": ("2026", "1901", "2155", "0", "1970"),
    "DATE": ("'2026-01-02'", "'1000-01-01'", "'9999-12-31'", "'0001-01-01'", "'0070-02-03'", "'1582-10-10'"),
    "DATETIME": (
        "'2026-01-02 03:04:05'",
        "'9999-12-31 23:59:59'",
        "'0001-01-01'",
        "'1582-10-10 01:02:03'",
        "'2026-03-29 02:30:00'",
    ),
    "DATETIME(3)": ("'2026-01-02 03:04:05.678'", "'1582-10-14 23:59:59.999'"),
    "DATETIME(6)": ("'2026-01-02 03:04:05.678901'", "'1000-01-01 00:00:00.000001'", "'1582-10-05 00:00:00.000001'"),
    "TIMESTAMP NULL": ("'2026-01-02 03:04:05'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'"),
    "TIMESTAMP(6) NULL": ("'2026-01-02 03:04:05.678901'", "'2026-03-29 02:30:00.5'", "'1970-01-01 00:00:00.5'"),
    "TIME": ("'838:59:59'", "'-838:59:59'", "'-00:00:01'", "'25:00:00'"),
    "TIME(6)": ("'838:59:59.999999'", "'-00:00:00.000001'", "'-100:10:10.5'"),
    "CHAR(5)": ("'ab'", "''"),
    "VARCHAR(20)": ("'a  '", "'😀ä'", "''"),
    "BINARY(5)": ("x'0100000000'", "x'00'", "'a'"),
    "VARBINARY(9)": ("x'00ff00'", "x''"),
    "TINYTEXT": ("'x'",),
    "TEXT": (r"'line\nbreak\\'",),
    "LONGTEXT": ("REPEAT('x', 70000)",),
    "TINYBLOB": ("x'00ff'",),
    "LONGBLOB": ("x'00'",),
    "ENUM('plain','more')": ("'more'",),
    r"""ENUM('a,b','c\\d','e\nf','g''h',"i""j",'k\'l','ü','t  ','')""": ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
    "SET('a','b','c')": ("'a,c'", "''"),
    r"SET('a\\b','c''d','ü')": ("7", "1", "0"),
    "JSON": ("'{\"a\": [1,2.50]}'", "'null'"),
    "UUID": (
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'00000000-0000-0000-0000-000000000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'00001234-4567-189b-92d3-a45642665544'",
        "'123e4567-e89b-42d3-a456-426655000000'",
    ),
    "POINT": ("ST_GeomFromText('POINT(1 2)', 4326)",),
    "GEOMETRY": ("ST_GeomFromText('LINESTRING(0 0,1 1)')", "ST_GeomFromText('POINT(1 2)', 4326)"),
    "POLYGON": ("ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')",),
    "GEOMETRYCOLLECTION": ("ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))')",),
    "MULTIPOINT": ("ST_GeomFromText('MULTIPOINT(1 1,2 2)')",),
}
"""Types, and values of them as SQL has them. Each is also NULL once."""
CHARSETS = {
    "armscii8": "Ա",
    "ascii": "a",
    "big5": "一碁",
    "cp1250": "ž",
    "cp1251": "ж",
    "cp1256": "ع",
    "cp1257": "ž",
    "cp850": "é",
    "cp852": "ž",
    "cp866": "ж²",
    "cp932": "ア①表",
    "dec8": "éŒ",
    "eucjpms": "ア①",
    "euckr": "가갂",
    "gb2312": "一",
    "gbk": "一⊕",
    "geostd8": "ა",
    "greek": "αʽ",
    "hebrew": "א‾",
    "hp8": "éÅ",
    "keybcs2": "éČ",
    "koi8r": "ж",
    "koi8u": "єж",
    "latin1": "€é\x81",
    "latin2": "ž",
    "latin5": "ğ",
    "latin7": "ž",
    "macce": "ž",
    "macroman": "é",
    "sjis": "ア表",
    "swe7": "é",
    "tis620": "ก\x80",
    "ucs2": "\ufeffé",
    "ujis": "ア―",
    "utf16": "\ufeff😀",
    "utf16le": "\ufeff😀",
    "utf32": "\ufeff😀",
    "utf8mb3": "\ufeffé",
    "utf8mb4": "\ufeff😀",
}
"""Character sets, and characters of which some are in no set of Java's at the same place."""


@dataclass(frozen=True)
class Told:
    """The rows of a table, by key: read, and by the binlog."""

    read: dict[int, dict[str, Any]]
    streamed: dict[int, dict[str, Any]]
    fields: dict[str, dict[str, Any]]


def told(capture: Capturing) -> dict[str, Told]:
    """What the topic has, by table."""
    found: dict[str, Told] = {}
    for event in capture.events():
        body = json.loads(event.body)["value"]
        (after,) = body["schema"]["fields"]
        table = found.setdefault(event.value["source"]["table"], Told({}, {}, {field["field"]: field for field in after["fields"]}))
        row = event.value["after"]
        if event.op == "r":
            table.read[row["id"]] = row
        elif row is not None:
            table.streamed[row["id"]] = row
    return found


@pytest.fixture(scope="module")
def capture(mariadb: MariaDBServer, commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capturing]:
    """A capture of one database for all tests here, as each run of one takes seconds."""
    mariadb.run("CREATE DATABASE every_kind")
    yield Capturing(mariadb, commands, "every_kind", str(tmp_path_factory.mktemp("values") / "lake"))
    mariadb.run("DROP DATABASE every_kind")


def again(columns: list[str], table: str) -> str:
    """Copies all rows."""
    return f"INSERT INTO {table} (id, {', '.join(columns)}) SELECT id + {LATER}, {', '.join(columns)} FROM {table}"


@pytest.fixture(scope="module")
def seen(capture: Capturing) -> dict[str, Told]:
    """What a capture tells of these tables: first all rows are read, then each comes once more by the binlog."""
    columns = {f"c{place}": kind for place, kind in enumerate(KINDS)}
    rows = max(map(len, KINDS.values())) + 1
    capture.run(
        f"CREATE TABLE kinds (id INT PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in columns.items())})",
        *(
            f"INSERT INTO kinds VALUES ({row}, {', '.join(values[row] if row < len(values) else 'NULL' for values in KINDS.values())})"
            for row in range(rows)
        ),
        f"CREATE TABLE texts (id INT PRIMARY KEY, {', '.join(f'{name} VARCHAR(9) CHARACTER SET {name}' for name in CHARSETS)})",
    )
    with capture.server.connect(database=capture.database) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO texts VALUES (0, {', '.join(['%s'] * len(CHARSETS))})", [*CHARSETS.values()])
    capture()
    capture.run(again([*columns], "kinds"), again([*CHARSETS], "texts"))
    capture()
    return told(capture)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_the_servers_own_by_both_ways(capture: Capturing, seen: dict[str, Told], kind: str) -> None:
    table, name = seen["kinds"], f"c{[*KINDS].index(kind)}"
    assert table.streamed.keys() == {row + LATER for row in table.read}
    asked = f"CAST({name} AS DOUBLE)" if kind.startswith("FLOAT") else name
    server = dict(capture.server.ask(f"SELECT id, {asked} FROM {capture.database}.kinds WHERE id < {LATER}"))
    assert server.keys() == table.read.keys()
    for row, said in server.items():
        assert table.streamed[row + LATER][name] == table.read[row][name]
        assert value_of(table.read[row][name], table.fields[name]) == (int.from_bytes(said) if said and "BIT" in kind else said)


@pytest.mark.parametrize("charset", CHARSETS)
def test_a_text_is_the_same_in_every_character_set(seen: dict[str, Told], charset: str) -> None:
    assert seen["texts"].read[0][charset] == CHARSETS[charset]
    assert seen["texts"].streamed[LATER][charset] == CHARSETS[charset]


def value_of(value: Any, field: dict[str, Any]) -> Any:
    """A value of an event as the driver of the tests has it."""
    if value is None:
        return None
    match field.get("name", field["type"]):
        case "org.apache.kafka.connect.data.Decimal":
            return Decimal(int.from_bytes(base64.b64decode(value), signed=True)).scaleb(-int(field["parameters"]["scale"]), EXACT)
        case "io.debezium.time.Date":
            return EPOCH.date() + timedelta(days=value)
        case "io.debezium.time.Timestamp":
            return EPOCH + timedelta(milliseconds=value)
        case "io.debezium.time.MicroTimestamp":
            return EPOCH + timedelta(microseconds=value)
        case "io.debezium.time.ZonedTimestamp":
            return datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)
        case "io.debezium.time.MicroTime":
            return timedelta(microseconds=value)
        case "io.debezium.data.Bits":
            return int.from_bytes(base64.b64decode(value), "little")
        case "bytes":
            return base64.b64decode(value)
        case "float":
            return struct.unpack("f", struct.pack("f", value))[0]
        case "io.debezium.data.geometry.Point" | "io.debezium.data.geometry.Geometry":
            return (value["srid"] or 0).to_bytes(4, "little") + base64.b64decode(value["wkb"])
        case _:
            return value


NAMES = (
    "a b",
    "a.b",
    "b`t",
    'q"u',
    "q'u",
    "select",
    "ünï",
    "UPPER",
    "dollar$x",
    "br(a)[b]{2}|",
    "back\\slash",
    " lead",
    "star*+",
    "tab\tx",
)
KEYS = {
    "FLOAT": ("1.5", "0.1"),
    "DATE": ("'2026-01-01'", "'1582-10-10'"),
    "DATETIME(6)": ("'2026-01-01'", "'2026-01-01 00:00:00.5'"),
    "TIMESTAMP(6)": ("'2026-01-01 00:00:00.5'", "'2027-01-01'"),
    "TIME(3)": ("'-01:00:00'", "'1:0:0.5'"),
    "YEAR": ("2026", "0"),
    "BIT(17)": ("1", "256"),
    "ENUM('a,b','c')": ("1", "2"),
    "SET('a','b')": ("3", "0"),
    "BINARY(4)": ("'a'", "'b'"),
    "UUID": ("'123e4567-e89b-12d3-a456-426655440000'", "'123e4567-e89b-42d3-a456-426655000000'"),
    "DECIMAL(9,3)": ("1.5", "-2"),
    "CHAR(5) CHARACTER SET cp932": ("'ア'", "'b'"),
    "BIGINT UNSIGNED": ("18446744073709551615", "0"),
}
FORMS = {
    "generated": ("a INT, twice INT AS (a * 2) VIRTUAL, thrice INT AS (a * 3) STORED, z INT", "(a, z) VALUES (5, 7)"),
    "invisible": ("a INT, hidden INT INVISIBLE DEFAULT 5, b INT, later INT INVISIBLE", "(a, hidden, b, later) VALUES (1, 2, 3, 4)"),
    "defaults": (
        "a INT DEFAULT 5, d DATE DEFAULT '2020-01-01', e ENUM('a,b') DEFAULT 'a,b', y YEAR DEFAULT 1999, t TIMESTAMP NULL DEFAULT '2020-01-01'",
        "(a, d, e, y, t) VALUES (NULL, NULL, NULL, NULL, NULL)",
    ),
    "more_defaults": (
        "u UUID DEFAULT '123e4567-e89b-12d3-a456-426655440000', c CHAR(3) CHARACTER SET cp932 DEFAULT 'ア', f FLOAT(7,3) DEFAULT 1.5",
        "(u, c, f) VALUES (NULL, NULL, NULL)",
    ),
    "zeros": (
        "d DATE NOT NULL, t DATETIME(3) NOT NULL, s TIMESTAMP NOT NULL DEFAULT '2000-01-01', f TIMESTAMP(6) NOT NULL DEFAULT 0, n DATE, m DATETIME",
        "(d, t, s, f, n, m) VALUES ('2026-00-00', '2024-01-00', 0, 0, '2024-00-10', '0000-00-00')",
    ),
}


@pytest.mark.thorough
def test_names_keys_and_forms_of_tables_are_the_same_by_both_ways(
    mariadb: MariaDBServer, commands: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In a database whose own name has a dot and a space. No value of a form, nor a default, is made of one that the server has not."""
    mariadb.run("CREATE DATABASE `odd. name`")
    capture = Capturing(mariadb, commands, "`odd. name`", str(tmp_path_factory.mktemp("odd") / "lake"), path="odd.%20name")
    quoted = ["`" + name.replace("`", "``") + "`" for name in NAMES]
    forms = "id INT PRIMARY KEY AUTO_INCREMENT"
    try:
        capture.run(
            "SET sql_mode = ''",
            *(f"CREATE TABLE {name} ({name} INT PRIMARY KEY, v UUID)" for name in quoted),
            *(f"INSERT INTO {name} VALUES (1, '123e4567-e89b-12d3-a456-426655440000')" for name in quoted),
            *(f"CREATE TABLE k{place} (k {kind}, n INT, PRIMARY KEY (k, n))" for place, kind in enumerate(KEYS)),
            *(f"INSERT INTO k{place} VALUES ({one}, 1), ({other}, 2)" for place, (one, other) in enumerate(KEYS.values())),
            *(f"CREATE TABLE {name} ({forms}, {columns})" for name, (columns, _) in FORMS.items()),
            *(f"INSERT INTO {name} {row}" for name, (_, row) in FORMS.items()),
            "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
            "INSERT INTO parts VALUES (1), (2)",
        )
        capture()
        capture.run(
            "SET sql_mode = ''",
            *(f"INSERT INTO {name} SELECT {name} + {LATER}, v FROM {name}" for name in quoted),
            *(f"INSERT INTO k{place} SELECT k, n + {LATER} FROM k{place}" for place in range(len(KEYS))),
            *(f"INSERT INTO {name} {row}" for name, (_, row) in FORMS.items()),
            f"INSERT INTO parts SELECT id + {LATER} FROM parts",
        )
        capture()
        events = capture.events()
    finally:
        mariadb.run("DROP DATABASE `odd. name`")
    assert {event.value["source"]["db"] for event in events} == {"odd. name"}
    ways: dict[str, dict[str, list[str]]] = {}
    for event in events:
        body, table = json.loads(event.body), event.value["source"]["table"]
        number = table if table in NAMES else "n" if table[1:].isdigit() else "id"
        row, key = event.value["after"], body["key"]["payload"]
        same = {**row, "of the key": {**key, number: 0}, number: 0 if table in FORMS else row[number] % LATER}
        ways.setdefault(table, {}).setdefault(event.op, []).append(json.dumps(same, sort_keys=True))
    assert ways.keys() == {*NAMES, *FORMS, "parts", *(f"k{place}" for place in range(len(KEYS)))}
    for table, by_way in ways.items():
        assert sorted(by_way["r"]) == sorted(by_way["c"]), table
    for table in ("defaults", "more_defaults", "zeros"):
        row = json.loads(ways[table]["r"][0])
        assert {row[name] for name in row if name not in ("id", "of the key")} == {None}, row
    assert {name: json.loads(ways["invisible"]["r"][0])[name] for name in ("hidden", "later")} == {"hidden": 2, "later": 4}


@pytest.mark.thorough
def test_a_date_that_no_calendar_has_ends_the_capture_and_is_named(
    mariadb: MariaDBServer, commands: Commands, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mariadb.run("CREATE DATABASE no_day")
    capture = Capturing(mariadb, commands, "no_day", str(tmp_path_factory.mktemp("no_day") / "lake"))
    try:
        capture.run(
            "SET sql_mode = 'ALLOW_INVALID_DATES'",
            "CREATE TABLE t (id INT PRIMARY KEY, d DATE)",
            "INSERT INTO t VALUES (1, '2026-02-31')",
        )
        said = capture.error(code=4)
        assert (said["object"], said["observed"]) == ("no_day.t.d", "2026-02-31")
        assert "UPDATE" in said["hint"]
        capture.run("UPDATE t SET d = '2026-02-28'")
        said = capture.error()
        assert (said["error"], said["object"]) == ("event_unreadable", "no_day.t.d"), "of what was before the UPDATE the log tells"
        assert (said["observed"], "--snapshot again" in said["hint"]) == ("Invalid date 'FEBRUARY 31'", True)
        capture("--snapshot", "again")
        rows = [event.value["after"] for event in capture.events()]
        assert sorted(map(str, rows)) == ["None", *["{'id': 1, 'd': 20512}"] * 2], "emptied between them"
        capture.run(
            "SET sql_mode = 'ALLOW_INVALID_DATES'",
            "CREATE TABLE u (id INT PRIMARY KEY, d DATETIME, e DATE)",
            "INSERT INTO u VALUES (1, '2026-02-28 01:02:03', NULL)",
            "UPDATE t, u SET t.d = '2026-02-27', u.d = '2026-02-31 01:02:03'",
        )
        assert capture.error()["object"] == "no_day.u (d, e)"
    finally:
        mariadb.run("DROP DATABASE no_day")
