"""What becomes of a capture's tables, by what the catalogue has of them now. Without a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cdc.postgres.captured_tables import CapturedTables
from penstock.cdc.postgres.catalog_tables import (
    CatalogTable,
    TableChange,
    catalog_table_of,
    change_since,
    is_new_to_capture,
    plan_capture,
    with_life,
)
from penstock.cdc.postgres.pgoutput import Relation, RelationColumn
from penstock.cdc.postgres.state import CapturedTable, Chunk, PostgresState, TableColumn

LIFE = CatalogTable("public", "a", 7, 8, ((9, 10, 3), (11, 12, 4)), "d", ("id",), 13, (1,), 5)
KNOWN = replace(with_life(CapturedTable("public", "a"), LIFE), is_read=True)
NAME = ("public", "a")
WHY = "it has no key"


@pytest.mark.parametrize(
    ("now", "fate"),
    [
        ({}, TableChange.SAME),
        ({"oid": 70}, TableChange.OTHER),
        ({"published": 80}, TableChange.OTHER),
        ({"settings": 50}, TableChange.OTHER),
        ({"name": "b"}, TableChange.OTHER),
        ({"schema": "other"}, TableChange.OTHER),
        ({"index": 130}, TableChange.SAME),
        ({"index": 130, "identity": "f"}, TableChange.OTHER),
        ({"numbers": (2,)}, TableChange.OTHER),
        ({"numbers": (), "key": ()}, TableChange.SAME),
        ({"leaves": (*LIFE.leaves, (20, 21, 6))}, TableChange.GROWN),
        ({"leaves": LIFE.leaves[:1]}, TableChange.OTHER),
        ({"leaves": ((9, 10, 3), (11, 99, 4))}, TableChange.OTHER),
    ],
)
def test_the_fate_of_a_table(now: dict[str, Any], fate: TableChange) -> None:
    assert change_since(KNOWN, replace(LIFE, **now)) is fate


ID, V = TableColumn(1, 700, 23, -1, "id"), TableColumn(2, 701, 1043, 24, "v")
FILES = replace(LIFE, leaves=(), file=50, columns=(ID, V))


@pytest.mark.parametrize(
    ("now", "fate"),
    [
        ({"file": 51}, TableChange.SAME),
        ({"columns": (ID,)}, TableChange.SAME),
        ({"columns": (ID, V._replace(changed=800))}, TableChange.ALTERED),
        ({"columns": (ID, V._replace(changed=800)), "file": 51}, TableChange.FILLED),
        ({"columns": (ID, V._replace(changed=800, modifier=44))}, TableChange.ALTERED),
        ({"columns": (ID, V._replace(changed=800, type=25))}, TableChange.ALTERED),
        ({"columns": (ID, V._replace(changed=800, type=26))}, TableChange.FILLED),
        ({"columns": (ID, V._replace(changed=800, name="w"))}, TableChange.FILLED),
        ({"columns": (ID, V, TableColumn(3, 800, 23, -1, "w"))}, TableChange.ALTERED),
        ({"columns": (ID, V, TableColumn(3, 800, 23, -1, "w")), "filled": frozenset({3})}, TableChange.FILLED),
        ({"columns": (ID, V, TableColumn(3, 800, 23, -1, "")), "filled": frozenset({3})}, TableChange.ALTERED),
        ({"columns": (ID, V, TableColumn(3, 800, 23, -1, "w")), "file": 51}, TableChange.FILLED),
        ({"columns": (ID, TableColumn(3, 800, 1043, 24, "v"))}, TableChange.FILLED),
        ({"columns": (ID, V, TableColumn(4, 800, 23, -1, "w"))}, TableChange.FILLED),
        ({"columns": (ID, V, TableColumn(3, 800, 23, -1, "w"), TableColumn(4, 800, 23, -1, "x"))}, TableChange.ALTERED),
        ({"columns": (ID._replace(changed=800, type=20), V), "file": 51}, TableChange.OTHER),
        ({"columns": (ID._replace(changed=800, name="key"), V)}, TableChange.OTHER),
        ({"columns": (ID, V._replace(changed=800, name="w")), "leaves": ((9, 10, 3),)}, TableChange.FILLED),
        ({"columns": (ID, V._replace(changed=800, modifier=44)), "leaves": ((9, 10, 3),)}, TableChange.GROWN),
    ],
)
def test_the_fate_of_a_table_by_its_columns(now: dict[str, Any], fate: TableChange) -> None:
    known = replace(with_life(CapturedTable("public", "a"), FILES), is_read=True)
    altered = replace(FILES, **now)
    assert change_since(known, altered) is fate
    assert change_since(replace(known, columns=()), altered) in (TableChange.ALTERED, TableChange.GROWN), (
        "an earlier release kept none"
    )
    if fate is TableChange.FILLED:
        plan = plan_of([known], [altered])
        assert (plan.tables, plan.grown) == ((known,), {NAME: (None,)})
    if fate is TableChange.ALTERED:
        (entry,) = plan_of([known], [altered]).tables
        assert change_since(entry, altered) is TableChange.SAME
        again = replace(altered, columns=(*altered.columns[:1], TableColumn(9, 900, 1043, 24, "v")))
        assert change_since(entry, again) is TableChange.FILLED, "rows may still have values by the name of a column that is gone"


@pytest.mark.parametrize(
    ("now", "new"),
    [
        ({}, False),
        ({"index": 130}, True),
        ({"published": 80}, True),
        ({"index": 130, "key": ()}, False),
        ({"index": 130, "name": "b"}, False),
    ],
)
def test_a_table_that_stopped_comes_again_once_it_has_what_it_lacked(now: dict[str, Any], new: bool) -> None:
    assert is_new_to_capture(replace(KNOWN, held=WHY), replace(LIFE, **now)) is new
    assert is_new_to_capture(None, replace(LIFE, **now))
    assert not is_new_to_capture(None, replace(LIFE, published=0))


def test_a_table_without_an_identity_has_no_key() -> None:
    row = ("public", "a", 7, 8, None, "n", ["id", "b"], 13, [2, 1], 5, 9, ["1 700 23 -1 0 id", "2 701 1043 24 1 a b"])
    none, has = catalog_table_of(row), catalog_table_of((*row[:5], "d", *row[6:]))
    assert (none.key, none.index, none.numbers) == ((), 0, ())
    assert (has.key, has.index, has.numbers) == (("id", "b"), 13, (1, 2))
    assert has.file == 9
    assert {*has.filled} == {2}
    assert has.columns == (TableColumn(1, 700, 23, -1, "id"), TableColumn(2, 701, 1043, 24, "a b"))


def plan_of(
    known: Sequence[CapturedTable], now: Sequence[CatalogTable], wanted: dict[tuple[str, str], str | None] | None = None
) -> Any:
    return plan_capture(known, now, {NAME: None} if wanted is None else wanted, "p")


def test_a_table_that_is_as_it_was_goes_on() -> None:
    plan = plan_of([KNOWN], [LIFE])
    assert (plan.tables, plan.stopped, plan.grown) == ((KNOWN,), {}, {})


def test_new_partitions_that_have_files_are_read() -> None:
    plan = plan_of([KNOWN], [replace(LIFE, leaves=(*LIFE.leaves, (20, 21, 6), (22, 0, 6)))])
    assert (plan.tables, plan.grown) == ((KNOWN,), {NAME: (20,)})


def test_a_table_that_is_not_read_yet_is_read_with_all_its_partitions_or_stops() -> None:
    unread = replace(KNOWN, is_read=False)
    now = replace(LIFE, leaves=(*LIFE.leaves, (20, 21, 6)))
    plan = plan_of([unread], [now])
    assert (plan.tables, plan.grown) == ((replace(with_life(unread, now), is_told=True),), {})
    assert plan_of([unread], [LIFE], {NAME: WHY}).stopped == {NAME: WHY}


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (KNOWN, replace(LIFE, oid=70)),
        (replace(KNOWN, is_read=False), replace(LIFE, leaves=LIFE.leaves[:1])),
        (replace(KNOWN, held=WHY), LIFE),
    ],
)
def test_a_table_that_is_another_or_comes_again_is_read_anew_behind_a_truncate(known: CapturedTable, now: CatalogTable) -> None:
    plan = plan_of([known], [now])
    assert plan.tables == (replace(with_life(KNOWN, now), is_read=False, is_told=True),)
    assert not plan.stopped


@pytest.mark.parametrize(
    ("now", "wanted", "why", "kept"),
    [
        ([], {NAME: None}, "was dropped", replace(LIFE, published=0)),
        (
            [replace(LIFE, published=0)],
            {NAME: None},
            "the publication p does not have the table any more",
            replace(LIFE, published=0),
        ),
        ([LIFE], {}, "the publication p does not have the table any more", LIFE),
        ([replace(LIFE, oid=70)], {NAME: WHY}, WHY, replace(LIFE, oid=70)),
        ([replace(LIFE, identity="f", index=0, key=(), numbers=())], {NAME: WHY}, WHY, replace(LIFE, index=0, numbers=())),
        (
            [replace(LIFE, name="b"), replace(LIFE, oid=70, published=0)],
            {NAME: None},
            "was renamed to public.b; another one has its name",
            replace(LIFE, published=0),
        ),
    ],
)
def test_a_table_that_is_gone_stops_once(
    now: list[CatalogTable], wanted: dict[tuple[str, str], str | None], why: str, kept: CatalogTable
) -> None:
    plan = plan_of([KNOWN], now, wanted)
    assert why in plan.stopped[NAME]
    (held,) = plan.tables
    assert held == replace(with_life(KNOWN, kept), is_read=False, is_told=True, held=plan.stopped[NAME])
    assert not any(is_new_to_capture(held, life) for life in now if life.named == NAME and life.oid == held.oid), (
        "nothing has become of it since"
    )
    assert not plan_of([held], now, wanted).stopped, "it is told already"


@pytest.mark.parametrize(
    "meanwhile", [[], [replace(LIFE, name="b")], [replace(LIFE, name="b"), replace(LIFE, oid=70, published=0)]]
)
def test_a_table_that_was_not_there_for_a_while_comes_back_as_it_was(meanwhile: list[CatalogTable]) -> None:
    (held,) = plan_of([KNOWN], meanwhile).tables
    assert held.held is not None
    assert is_new_to_capture(held, LIFE), "unlogged for a while, or by another name"


def test_a_new_table_is_read_if_it_is_published() -> None:
    (new,) = plan_of([], [LIFE]).tables
    assert (new.is_missing, new.is_told, new.oid) == (True, False, 7)
    assert plan_of([], [replace(LIFE, published=0)]).tables == ()
    assert plan_of([], [LIFE], {NAME: WHY}).stopped == {NAME: WHY}


def test_rows_that_are_not_wanted_are_those_of_new_tables_only() -> None:
    new, again, held = (
        CapturedTable("public", "new"),
        replace(KNOWN, is_read=False, is_told=True),
        replace(KNOWN, name="h", is_read=False, held=WHY),
    )
    plan = replace(plan_of([], []), tables=(new, again, held))
    assert plan.unread().tables == (replace(new, is_read=True), again, held)


def test_tables_of_an_earlier_release_are_read_again_where_a_name_stands_for_two() -> None:
    old = [CapturedTable("", name, is_read=True, is_told=True) for name in ("a.b.c", "public.a")]
    two = [replace(LIFE, schema="a", name="b.c", oid=20), replace(LIFE, schema="a.b", name="c", oid=21)]
    plan = plan_of(old, [*two, LIFE], {life.named: None for life in (*two, LIFE)})
    assert [(one.oid, one.is_read, one.is_told) for one in plan.tables] == [(20, False, True), (21, False, True), (7, True, True)]


# --- While the stream is followed ---------------------------------------------------------------------------------------------

OTHER = replace(KNOWN, name="b", oid=70, is_read=False)


class Catalog:
    def __init__(self) -> None:
        self.now: list[CatalogTable] = [LIFE, replace(LIFE, name="b", oid=70)]
        self.locked = list[int]()
        self.asked_locks = list[int]()

    def lives(self, publication: str, oids: Sequence[int] | None = None) -> list[CatalogTable]:
        return [life for life in self.now if oids is None or life.oid in oids]

    def is_locked(self, oids: Sequence[int]) -> bool:
        self.asked_locks = [*oids]
        return bool({*oids} & {*self.locked})


class Followed:
    """A capture that follows these tables."""

    def __init__(self, *tables: CapturedTable, chunk: Chunk | None = None) -> None:
        self.catalog, self.saved = Catalog(), list[PostgresState]()
        catalog: Any = self.catalog
        states: Any = SimpleNamespace(save=self.saved.append)
        self.tables = CapturedTables(catalog, states, "p")
        self.tables.state = PostgresState("l", "s", "d", "p", tables, chunk=chunk)

    @property
    def entry(self) -> CapturedTable:
        return self.tables.known.tables[0]


def relation(oid: int = 7, *, name: str = "a", identity: str = "d", key: bool = True) -> Relation:
    return Relation(oid, "public", name, identity, (RelationColumn("id", 23, key), RelationColumn("v", 25, identity == "f")))


CHUNK = Chunk("public.b", None, ("1",), 1, 2, 70)


@pytest.mark.parametrize(
    ("followed", "told", "key"),
    [
        (Followed(KNOWN), relation(), ("id",)),
        (Followed(KNOWN), relation(name="z"), None),
        (Followed(KNOWN), relation(oid=99), None),
        (Followed(KNOWN), relation(key=False), None),
        (Followed(KNOWN), relation(identity="f"), ("id",)),
        (Followed(replace(KNOWN, index=130)), relation(identity="f"), None),
        (Followed(replace(KNOWN, held=WHY)), relation(), None),
        (Followed(OTHER), relation(70, name="b"), None),
        (Followed(OTHER, chunk=CHUNK), relation(70, name="b"), ("id",)),
    ],
)
def test_which_changes_are_taken(followed: Followed, told: Relation, key: tuple[str, ...] | None) -> None:
    assert followed.tables.key_of(told) == key


def test_a_key_of_columns_that_the_stream_does_not_have_is_none() -> None:
    followed = Followed(KNOWN)
    followed.catalog.now = [replace(LIFE, key=("new",))]
    assert followed.tables.key_of(relation(identity="f")) is None


def test_a_followed_table_whose_change_is_not_taken_is_written_down_to_be_read_again() -> None:
    followed = Followed(KNOWN, chunk=Chunk("public.b", None, ("1",), 1, 2, 7))
    followed.tables.passed_over(relation())
    assert followed.tables.has_changed
    (saved,) = followed.saved
    assert (saved.tables, saved.chunk) == ((replace(KNOWN, is_read=False, is_told=True),), None)


def test_a_table_that_is_not_known_is_looked_for_once() -> None:
    followed = Followed(replace(KNOWN, held=WHY))
    followed.tables.passed_over(relation())
    assert not followed.tables.has_changed, "it is known, and held"
    followed.tables.passed_over(relation(99))
    assert followed.tables.has_changed
    followed.tables.has_changed = False
    followed.tables.passed_over(relation(99))
    assert not followed.tables.has_changed
    assert not followed.saved


def test_what_is_stored_already_is_not_stored_again() -> None:
    followed = Followed(KNOWN)
    followed.tables.keep(followed.tables.known)
    assert not followed.saved
    followed.tables.keep(replace(followed.tables.known, renewing=True))
    assert len(followed.saved) == 1


@pytest.mark.parametrize(
    ("now", "of_all", "same"),
    [
        ([LIFE], False, True),
        ([LIFE], True, True),
        ([], False, False),
        ([replace(LIFE, published=80)], False, False),
        ([LIFE, replace(LIFE, name="b", oid=70)], False, True),
        ([LIFE, replace(LIFE, name="b", oid=70)], True, False),
        ([LIFE, replace(LIFE, name="held", oid=30)], True, True),
        ([LIFE, replace(LIFE, name="held", oid=30, index=31)], True, False),
    ],
)
def test_whether_the_catalogue_is_as_it_was(now: list[CatalogTable], of_all: bool, same: bool) -> None:
    followed = Followed(KNOWN, replace(KNOWN, name="held", oid=30, held=WHY, is_read=False))
    followed.catalog.now = now
    assert followed.tables.are_as_known(of_all=of_all) is same
    assert followed.tables.has_changed is not same


@pytest.mark.parametrize(("locked", "same"), [([7], False), ([11], False), ([99], True)])
def test_a_place_is_not_named_while_somebody_has_a_lock_on_a_table_or_a_partition(locked: list[int], same: bool) -> None:
    followed = Followed(KNOWN)
    followed.catalog.locked = locked
    assert followed.tables.are_as_known() is same
    assert not followed.tables.has_changed, "what becomes of it shows later"
