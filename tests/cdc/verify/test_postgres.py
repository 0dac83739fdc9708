"""Which tables of a PostgreSQL are compared, and how their columns are read. Without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from penstock.cdc.postgres.values import PostgresType
from penstock.cdc.verify import postgres
from penstock.cdc.verify.postgres import PostgresRows, open_tables
from penstock.log.errors import InvalidArgument

FOUND = [
    ("public", "t", False, "id", 23, True),
    ("public", "t", False, "tags", 1009, False),
    ("public", "t", False, "photo", 17, False),
    ("audit", "t", False, "id", 23, True),
    ("public", "u", True, "a", 23, False),
]


class Server:
    """Says which columns there are, and gives CSV to whoever copies."""

    where = "somewhere"

    def __init__(self, csv: bytes = b"") -> None:
        self._csv = csv
        self.query = ""

    def connect(self) -> Self:
        return self

    def close(self) -> None:
        pass

    def describe_type(self, oid: int) -> PostgresType:
        return PostgresType(oid, element=25 if oid == 1009 else 0)

    cursor = connect

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, _: str) -> Any:
        return SimpleNamespace(fetchall=lambda: FOUND)

    def copy(self, query: Any) -> Self:
        self.query = query.as_string(None)
        return self

    def read(self) -> bytes:
        given, self._csv = self._csv, b""
        return given


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ((), ["audit.t", "public.t", "public.u"]),
        (("t",), ["audit.t", "public.t"]),
        (("audit.t", "u"), ["audit.t", "public.u"]),
        (("public.t",), ["public.t"]),
    ],
)
def test_tables_are_those_that_are_named(monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], found: list[str]) -> None:
    monkeypatch.setattr(postgres, "Catalog", lambda dsn: Server())
    with open_tables("dsn", asked) as tables:
        assert sorted(f"{one.schema}.{one.table}" for one in tables) == found


def test_a_column_is_read_as_a_capture_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "Catalog", lambda dsn: Server())
    with open_tables("dsn", ["public.t"]) as (table,):
        assert (table.columns(), table.key) == (["id", "tags", "photo"], ("id",))
        assert (table.types["id"], table.types["tags"]) == ("{0}", "{0}")
        assert table.arrays["tags"]('{a,NULL,"b,c"}') == ["a", None, "b,c"]
        assert set(table.arrays) == {"tags"}
        assert "base64" in table.types["photo"]


@pytest.mark.parametrize(("asked", "named"), [(("t", "gone"), "gone"), (("public.gone", "u"), "public.gone"), (("x.t",), "x.t")])
def test_a_table_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], named: str) -> None:
    monkeypatch.setattr(postgres, "Catalog", lambda dsn: Server())
    with pytest.raises(InvalidArgument, match="there is no such table") as raised, open_tables("dsn", asked):
        pass
    assert raised.value.expected == named


@pytest.mark.parametrize(("columns", "names"), [(None, ["id", "v"]), (["v", "other"], ["v"])])
def test_only_the_columns_that_are_asked_for_are_read(columns: list[str] | None, names: list[str]) -> None:
    server: Any = Server((",".join(names) + "\n" + ",".join("1" for _ in names) + "\n").encode())
    rows = PostgresRows("public", "t", {"id": "{0}", "v": "{0}"}, ("id",), server, "somewhere")
    assert [row for batch in rows.batches(columns) for row in batch.to_pylist()] == [dict.fromkeys(names, "1")]
    assert ('"id"' in server.query) == ("id" in names)
    assert 'FROM ONLY "public"."t"' in server.query, "rows of tables that inherit from it are theirs"
