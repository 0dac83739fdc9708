"""Values of every type, tables of every shape that hold them, and the server's own text of what they hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.sql import SQL, Composable, Identifier, Literal

TYPES_OF_OUR_OWN = """
CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION cube; CREATE EXTENSION isn;
CREATE TYPE mood AS ENUM ('sad', 'so-so', 'x,"y'); CREATE TYPE pair AS (a int, b text, c timestamptz[]);
CREATE DOMAIN positive AS int CHECK (value > 0); CREATE DOMAIN small AS positive CHECK (value < 100);
CREATE DOMAIN price AS numeric(10, 2); CREATE DOMAIN moment AS timestamptz; CREATE DOMAIN raw AS bytea; CREATE DOMAIN flag AS boolean;
CREATE DOMAIN numbers AS int[]; CREATE DOMAIN moods AS mood[]; CREATE DOMAIN ratio AS float8;
CREATE TYPE textrange AS RANGE (subtype = text);
"""
VALUES: dict[str, tuple[str, ...]] = {
    "smallint": ("-32768", "0"),
    "integer": ("2147483647", "-1"),
    "bigint": ("-9223372036854775808", "9007199254740993"),
    "oid": ("4294967295", "1"),
    "real": ("NaN", "0.1", "1e-20", "-Infinity", "16777216"),
    "double precision": ("NaN", "0.1", "1e-300", "Infinity", "-0", "1e22", "123456789012345680"),
    "numeric": ("NaN", "1E-20", "12345678901234567890.50", "1e30"),
    "numeric(38,10)": ("-0.0000000001", "1.5"),
    "numeric(5,2)": ("999.99", "-1"),
    "money": ("-12.50", "1000000"),
    "boolean": ("true", "false"),
    '"char"': ("x", "\\"),
    "char(5)": ("ab", "     "),
    "varchar(20)": ("a,b", ""),
    "text": ('ß"\\\n\t日本, {} NULL', "NULL", ""),
    "name": ("a name", "NULL"),
    "bytea": ("\\x00ff27", "\\x"),
    "bit(3)": ("101", "000"),
    "varbit": ("1", ""),
    "date": ("0099-12-31", "infinity", "0044-03-15 BC"),
    "time": ("24:00:00", "01:02:03.000004"),
    "time(3)": ("23:59:59.999", "00:00:00"),
    "timetz": ("12:00:00+02", "00:00:00.5-03:30"),
    "timestamp": ("2026-11-22 03:04:05.678901", "-infinity", "0044-03-15 12:00:00 BC", "20000-01-01 00:00:00.5"),
    "timestamp(0)": ("2026-11-22 03:04:05", "1970-01-01"),
    "timestamptz": ("2026-11-22 03:04:05.678901+05:30", "infinity", "0044-03-15 12:00:00 BC", "20000-01-01"),
    "interval": ("1 year 2 days -3.5 seconds", "0", "-1 mons"),
    "interval year to month": ("3 years 1 mon", "0"),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"),
    "json": ('{"a":  1.0, "a": "\\u00e4\\n"}', "null", '"text"', "[1E+2]"),
    "jsonb": ('{"b": [1.50, null], "a": "x,\\"y"}', "null", "1e5"),
    "jsonpath": ("$.a[*] ? (@ > 1)", "$"),
    "xml": ("<a b='c'>ß</a>", "text"),
    "inet": ("10.0.0.1", "::1/64"),
    "cidr": ("10.0.0.0/8", "::/0"),
    "macaddr": ("08:00:2b:01:02:03", "00:00:00:00:00:00"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "00:00:00:00:00:00:00:00"),
    "point": ("(1.5,-2)", "(NaN,Infinity)"),
    "line": ("{1,2,3}", "{0,1,0}"),
    "lseg": ("[(0,0),(1,1)]", "[(1,1),(0,0)]"),
    "box": ("(1,1),(0,0)", "(2,2),(0.5,0)"),
    "path": ("[(0,0),(1,1)]", "((0,0),(1,0),(1,1))"),
    "polygon": ("((0,0),(1,0),(1,1))", "((0,0))"),
    "circle": ("<(1,2),3>", "<(0,0),0>"),
    "tsvector": ("'a':1A 'b c':2", ""),
    "tsquery": ("'a' & !'b'", ""),
    "pg_lsn": ("16/B374D848", "0/0"),
    "pg_snapshot": ("10:20:10,14", "1:1:"),
    "txid_snapshot": ("10:20:10,14", "1:1:"),
    "xid": ("4294967295", "3"),
    "xid8": ("18446744073709551615", "3"),
    "cid": ("7", "0"),
    "tid": ("(1,2)", "(0,0)"),
    "regclass": ("pg_class", "1"),
    "regtype": ("integer", "timestamp with time zone"),
    "regproc": ("array_out", "now"),
    "regprocedure": ("abs(integer)", "now()"),
    "regoperator": ("+(integer,integer)", "-(integer,integer)"),
    "regnamespace": ("public", "pg_catalog"),
    "regrole": ("postgres", "pg_monitor"),
    "regconfig": ("english", "simple"),
    "int2vector": ("1 2 3", ""),
    "oidvector": ("1 4294967295", ""),
    "refcursor": ("cursor", ""),
    "aclitem": ("postgres=r/postgres", "=r/postgres"),
    "int4range": ("[1,5)", "empty", "(,)"),
    "int8range": ("[1,5]", "empty"),
    "numrange": ("[1.50,2.0]", "(,1)"),
    "tsrange": ("[2026-01-01 00:00,2026-01-02 00:00)", "(,)"),
    "tstzrange": ("[2026-01-01 00:00+00,2026-01-02 00:00+02)", "empty"),
    "daterange": ("[2026-01-01,2026-01-31]", "(,infinity)"),
    "textrange": ('["a,""b","c d")', "empty"),
    "int4multirange": ("{[1,5),[7,9)}", "{}"),
    "tstzmultirange": ("{[2026-01-01 00:00+00,2026-01-02 00:00+02)}", "{}"),
    "mood": ("sad", 'x,"y'),
    "pair": ('(1,"x,""y","{""2026-01-01 00:00:00+00""}")', "(,,)"),
    "positive": ("7", "2147483647"),
    "small": ("7", "99"),
    "price": ("1.50", "-99999999.99"),
    "moment": ("2026-11-22 03:04:05.678901+05:30", "infinity"),
    "raw": ("\\x00ff", "\\x"),
    "flag": ("true", "false"),
    "ratio": ("0.1", "NaN"),
    "numbers": ("{1,NULL,3}", "{}"),
    "moods": ('{sad,"x,\\"y"}', "{}"),
    "hstore": ('"a"=>"1, 2", "b"=>NULL', ""),
    "citext": ("Ab", "ab"),
    "ltree": ("top.a", ""),
    "lquery": ("top.*", "a"),
    "cube": ("(1, 2),(3, 4)", "(0)"),
    "isbn13": ("978-0-393-04002-9", "978-0-393-05844-4"),
    "integer[][]": ("{{1,2},{3,NULL}}", "[0:1]={1,2}"),
    "double precision[][]": ("{{1e22,-0.1}}", "{{NaN,1e-7},{Infinity,NULL}}"),
    "text[][]": ('{{"a b",NULL},{"\\"",NULL}}', "{}"),
}
"""Texts of values by type. The array of a type has all of them, and NULL."""


@dataclass(frozen=True)
class Typed:
    """A column of the tables."""

    name: str
    type: str
    one: str
    other: str
    element: str | None = None
    """The type of an array's elements."""


def columns(server_version: int) -> list[Typed]:
    """A column for each type and for each type's array."""
    found = []
    for number, (type_, texts) in enumerate(VALUES.items()):
        if server_version < 140000 and ("multirange" in type_ or type_ == "text"):
            continue
        found.append(Typed(f"v{number}", type_, texts[0], texts[1]))
        if not type_.endswith("[]"):
            whole = "ARRAY[" + ", ".join([*(f"{literal(text)}::{type_}" for text in texts), "NULL"]) + f"]::{type_}[]"
            part = f"ARRAY[{literal(texts[-1])}::{type_}]::{type_}[]"
            found.append(Typed(f"a{number}", f"{type_}[]", whole, part, type_))
    return found


def literal(text: str) -> str:
    return Literal(text).as_string(None)


def value(column: Typed, *, other: bool = False) -> str:
    """SQL of one of a column's values."""
    said = column.other if other else column.one
    return said if column.element is not None else f"{literal(said)}::{column.type}"


def by_output(expression: Composable) -> Composable:
    """SQL of a value's text as its type writes it. A cast may write it otherwise: of inet, boolean and char. A row of NULLs IS NULL."""
    return SQL("CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END").format(expression)


def elements(column: str, dimensions: int = 1) -> Composable:
    """SQL of an array as JSON of its elements' texts."""
    if dimensions == 1:
        each = by_output(SQL("{}[i]").format(Identifier(column)))
        return SQL("(SELECT coalesce(json_agg({0} ORDER BY i), '[]') FROM generate_subscripts({1}, 1) i)").format(
            each, Identifier(column)
        )
    each = by_output(SQL("{}[i][j]").format(Identifier(column)))
    inner = SQL("(SELECT json_agg({0} ORDER BY j) FROM generate_subscripts({1}, 2) j)").format(each, Identifier(column))
    return SQL("(SELECT coalesce(json_agg({0} ORDER BY i), '[]') FROM generate_subscripts({1}, 1) i)").format(
        inner, Identifier(column)
    )


def server_rows(connection: psycopg.Connection[Any], table: Composable, typed: list[Typed]) -> dict[str, dict[str, Any]]:
    """What the server says of a table's own rows, in the form of events, by its column id. It knows nothing of how a capture reads."""
    connection.execute(
        "SET datestyle = ISO; SET intervalstyle = postgres; SET timezone = UTC; SET extra_float_digits = 3; SET jit = off"
    )
    asked: list[Composable] = []
    for column in typed:
        name = Identifier(column.name)
        if column.element is not None or column.type in ("numbers", "moods"):
            asked.append(SQL("CASE WHEN {0} IS NOT NULL THEN {1}::text END").format(name, elements(column.name)))
        elif column.type.endswith("[][]"):
            deep = SQL("CASE WHEN array_ndims({0}) = 2 THEN {1} ELSE {2} END")
            made = deep.format(name, elements(column.name, 2), elements(column.name))
            asked.append(SQL("CASE WHEN {0} IS NOT NULL THEN {1}::text END").format(name, made))
        else:
            asked.append(by_output(name))
    query = SQL("SELECT {} , {} FROM {}").format(by_output(Identifier("id")), SQL(", ").join(asked), table)
    return {
        row[0]: {column.name: _as_event(column, text) for column, text in zip(typed, row[1:], strict=True)}
        for row in connection.execute(query)
    }


def _as_event(column: Typed, text: str | None) -> Any:
    if text is None:
        return None
    base = {"numbers": "integer", "moods": "text"}.get(column.type, column.element or column.type.removesuffix("[][]"))
    convert = _FORMS.get(base, str)
    if column.element is not None or column.type in ("numbers", "moods", "integer[][]", "text[][]", "double precision[][]"):
        return _each(json.loads(text), convert)
    return convert(text)


def _each(found: Any, convert: Callable[[str], Any]) -> Any:
    return [_each(one, convert) for one in found] if isinstance(found, list) else None if found is None else convert(found)


def _iso(text: str) -> str:
    day, _, rest = text.partition(" ")
    return text if not rest or text.endswith("BC") or len(day) > len("2026-01-01") else f"{day}T{rest}"


def _utc(text: str) -> str:
    return _iso(text).replace("+00", "Z") if text.endswith("+00") else text


def _number(text: str) -> float | str:
    return text if text.lstrip("-") in ("NaN", "Infinity") else float(text)


_FORMS: Mapping[str, Callable[[str], Any]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "oid", "positive", "small"), int),
    **dict.fromkeys(("real", "double precision", "ratio"), _number),
    **dict.fromkeys(("boolean", "flag"), lambda text: {"t": True, "f": False}[text]),
    **dict.fromkeys(("bytea", "raw"), lambda text: base64.b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()),
    **dict.fromkeys(("timestamp", "timestamp(0)"), _iso),
    **dict.fromkeys(("timestamptz", "moment"), _utc),
    "numbers": {"{1,NULL,3}": [1, None, 3], "{}": []}.__getitem__,
    "moods": {'{sad,"x,\\"y"}': ["sad", 'x,"y'], "{}": []}.__getitem__,
}
"""The form of a type's values in an event, where it is not the server's text: the table of `values.py`, said once more."""
