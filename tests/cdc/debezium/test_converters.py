"""What is converted otherwise than Debezium's connectors do, and what is asked of the server for that, without a Java."""

from __future__ import annotations

import re
import struct

import pytest

from penstock.cdc.debezium.charsets import decoded
from penstock.cdc.debezium.converters import ColumnType, change_of, options_of, with_converter
from penstock.cdc.debezium.java_bridge import CLASS, class_file
from penstock.cdc.debezium.queries import ServerTable, SourceColumn, pattern_of, quoted, rows_query
from penstock.log.errors import NotSupported


@pytest.mark.parametrize(
    ("column", "reads", "change"),
    [
        (ColumnType("UUID", True), True, "uuid"),
        (ColumnType("FLOAT", True), False, None),
        (ColumnType("FLOAT UNSIGNED", True, has_scale=True), False, "single"),
        (ColumnType("DATE", True), False, None),
        (ColumnType("DATE", True), True, "date"),
        (ColumnType("DATE", False), False, "date"),
        (ColumnType("DATETIME", True), False, "datetime"),
        (ColumnType("TIMESTAMP", False), True, "timestamp"),
        (ColumnType("ENUM", True, charset="latin1"), False, "options"),
        (ColumnType("VARCHAR", True, charset="euckr"), False, "text"),
        (ColumnType("VARCHAR", True, charset="euckr"), True, None),  # the driver gives text
        (ColumnType("VARCHAR", True, charset="utf8mb4"), False, None),
        (ColumnType("INT", True), False, None),
        (ColumnType("BIT", True, length=9), True, "bits"),
        (ColumnType("BIT", True, length=9), False, None),
        (ColumnType("BIT", True, length=8), True, None),
    ],
)
def test_which_columns_are_converted_otherwise(column: ColumnType, reads: bool, change: str | None) -> None:
    assert change_of(column, reads=reads) == change


@pytest.mark.parametrize(
    ("literals", "options"),
    [
        (["'a'", "'b c'", "''"], None),
        (["'a,b'"], ("a,b",)),
        (["'g''h'"], ("g'h",)),
        (['"i\'j"'], ("i'j",)),
        (['"i""j"'], ('i"j',)),
        ([r"'k\'l\\'"], (r"k'l" + "\\",)),
        ([r"'\0\n\t\Z\%\_\x'"], ("\0\n\t\x1a\\%\\_x",)),
        (["'t  '", "'a'"], ("t", "a")),
    ],
)
def test_values_of_an_enum_are_those_that_the_server_has(literals: list[str], options: tuple[str, ...] | None) -> None:
    assert options_of(literals) == options


def test_a_value_of_an_enum_that_is_no_literal_is_refused() -> None:
    with pytest.raises(NotSupported, match="x'61'"):
        options_of(["x'61'"])


def test_a_text_is_read_by_a_table_of_characters() -> None:
    table = {bytes((byte,)): chr(byte) for byte in range(128)} | {b"\xa1\xbd": "―", b"\x8f\xa2\xaf": "˘"}
    many = table | {bytes((0xB0, byte)): "一" for byte in range(256)}
    assert decoded(b"a\xa1\xbd\x8f\xa2\xaf\xff\xb0\x41b", many) == "a―˘?一b"
    assert decoded(b"a\xa1b", {b"a": "a", b"\xa1": "¡"}) == "a¡?"


def test_the_users_converters_come_first() -> None:
    found = with_converter({"converters": "mine, other", "mine.type": "x.Y"})
    assert (found["converters"], found["mine.type"], found["penstock.type"]) == ("mine,other,penstock", "x.Y", CLASS)
    assert with_converter({})["converters"] == "penstock"


def test_the_class_begins_as_a_class_does() -> None:
    magic, _, version, count = struct.unpack_from(">IHHH", class_file())
    assert (magic, version) == (0xCAFEBABE, 52)
    assert count > 20


@pytest.mark.parametrize(
    "name", ["plain", "a b", "a.b", "a,b", "a`b", 'a"b', "a'b", "a$b", "a+b(c)[d]{2}|^", "ünï", "a\\b", "a#b-c"]
)
def test_a_pattern_means_one_name_and_has_no_comma(name: str) -> None:
    assert re.fullmatch(pattern_of(name), name)
    assert "," not in pattern_of(name)
    assert not re.fullmatch(pattern_of(name), "x" * len(name))


def test_names_are_quoted_in_the_query_for_rows() -> None:
    assert quoted("a`b") == "`a``b`"
    table = ServerTable("d.b", "a b", (SourceColumn("select", "int"), SourceColumn("u`", "uuid")))
    assert rows_query(table, None) == "SELECT r.`select`, CAST(r.`u``` AS CHAR) AS `u``` FROM `d.b`.`a b` AS r"
