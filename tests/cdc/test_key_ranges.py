"""The keys of a batch in ranges, and which files of a target a merge then reads."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from penstock import SyncOptions, sync
from penstock.cdc.changes import ALWAYS, Key, NetChange
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets, key_condition
from penstock.cdc.delta.key_ranges import RANGES_MAX, KeyRanges, Range, joined_ranges, key_ranges_of, table_of
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold_result import FoldResult, LastTruncate
from penstock.cdc.sync.backends.fold_tasks import FoldOutput
from penstock.cdc.sync.backends.merge_rows import batch_of, rows_schema
from penstock.cdc.target import Target, TargetOwner
from tests.cdc.columns import target_column
from tests.cdc.sync.streams import TOPIC, event, send

OWNER = TargetOwner("changes", 1, "s")
INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-50, 50)


def ranges(values: list[Any], kind: pa.DataType | None = None) -> list[Range]:
    return list(key_ranges_of(pa.table({"id": pa.array(values, kind)}), ["id"])["id"])


def test_integers_are_divided_where_there_is_a_gap() -> None:
    assert ranges([7]) == [(7, 7)]
    assert ranges([1, 2, 3]) == [(1, 3)]
    assert ranges([5, 900, 901, 899, 5]) == [(5, 5), (899, 901)]
    assert ranges([-(2**63), 0, 2**63 - 1]) == [(-(2**63), -(2**63)), (0, 0), (2**63 - 1, 2**63 - 1)]
    assert ranges([-128, 127], pa.int8()) == [(-128, -128), (127, 127)]


def test_keys_that_are_scattered_evenly_are_one_range() -> None:
    assert ranges(list(range(0, 100_000, 7))) == [(0, 99_995)]


def test_a_gap_of_a_hundredth_divides_and_a_smaller_one_does_not() -> None:
    assert ranges([*range(901), 909, *range(910, 1_001)]) == [(0, 1_000)]
    assert ranges([*range(901), 910, *range(911, 1_001)]) == [(0, 900), (910, 1_000)]


def test_of_many_gaps_the_widest_divide() -> None:
    values = [place * 100 + (5 if place > 3 else 0) for place in range(RANGES_MAX + 2)]
    found = ranges(values)
    assert len(found) == RANGES_MAX
    assert 405 in {start for start, _ in found}, "the widest of all"
    assert {start for start, _ in found} <= {*values}
    assert found[0][0] == values[0]
    assert found[-1][1] == values[-1]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["b", "a", "z"], ("a", "z")),
        ([date(2024, 1, 2), date(2020, 1, 1)], (date(2020, 1, 1), date(2024, 1, 2))),
        ([Decimal("1.5"), Decimal("-9.0")], (Decimal("-9.0"), Decimal("1.5"))),
        ([True, False], (False, True)),
        ([b"x", b"a"], (b"a", b"x")),
    ],
)
def test_other_values_are_one_range(values: list[Any], found: Range) -> None:
    assert ranges(values) == [found]
    assert joined_ranges([{"id": [found]}, {"id": [found]}]) == {"id": [found]}


def test_no_rows_tell_nothing() -> None:
    assert key_ranges_of(pa.table({"id": pa.array([], pa.int64())}), ["id"]) == {}
    assert joined_ranges([]) == joined_ranges([{}, {}]) == {}
    assert joined_ranges([{}, {"id": [(1, 2)]}]) == {"id": [(1, 2)]}


def test_what_tasks_tell_is_joined_by_table() -> None:
    orders, bills = TableId("s", "orders"), TableId("s", "bills")
    parts = [
        FoldOutput(FoldResult(), {}, {}, reach)
        for reach in ({orders: {"id": [(1, 3)]}, bills: {}}, {}, {orders: {"id": [(900, 901)]}})
    ]
    assert FoldOutput.of(parts).reach == {orders: {"id": [(1, 3), (900, 901)]}, bills: {}}


@given(st.lists(st.lists(INT64 | NEAR, min_size=1, max_size=60), min_size=1, max_size=4))
def test_every_key_is_in_a_range_and_ranges_begin_and_end_with_keys(parts: list[list[int]]) -> None:
    whole = [value for part in parts for value in part]
    for found in (ranges(whole), joined_ranges([{"id": ranges(part)} for part in parts])["id"]):
        assert len(found) <= RANGES_MAX
        assert all(any(low <= value <= high for low, high in found) for value in whole)
        assert {end for one in found for end in one} <= {*whole}
        assert all(before[1] < after[0] for before, after in pairwise(found))


def test_conditions_are_of_integers_and_text() -> None:
    reach: KeyRanges = {
        "id": [(1, 2), (9, 9)],
        'a"b': [("it's", "x")],
        "on": [(True, True)],
        "at": [(date(2020, 1, 1), date(2020, 1, 1))],
    }
    assert list(key_condition(reach, "t.")) == [
        '(t."id" BETWEEN 1 AND 2 OR t."id" BETWEEN 9 AND 9)',
        """(t."a""b" BETWEEN 'it''s' AND 'x')""",
    ]


# --- In merges ------------------------------------------------------------------------------------------------------------------

ROWS = 100


@pytest.fixture
def tables(tmp_path: Path) -> DeltalakeTargets:
    return DeltalakeTargets(str(tmp_path), by_position=False)


def target(kind: str) -> Target:
    return Target(TableId("s", "t"), "t", (target_column("v", "bigint"), target_column("id", kind)), ("id",))


def net(value: int, key: Key, *, put: bool = True) -> tuple[Key, NetChange]:
    return key, NetChange(put=put, values=(value, *key), column_positions=None, position=None, applies_up_to=ALWAYS, place=(0, 0))


def merge(
    tables: DeltalakeTargets, into: Target, nets: list[tuple[Key, NetChange]], *, truncate: LastTruncate | None = None
) -> Target:
    after = into.reached({0: into.progress.commits + 1}, None)
    schema = rows_schema(after, by_position=False)
    assert tables.merge(
        after, pa.Table.from_batches([batch_of(after, schema, nets)], schema), OWNER, partial=False, truncate=truncate
    )
    return after


def in_files(tables: DeltalakeTargets, into: Target, keys: list[list[Key]]) -> Target:
    """A target with a file for each list of keys."""
    tables.create(into, OWNER)
    for part in keys:
        into = merge(tables, into, [net(0, key) for key in part])
    return into


def spoil(tables: DeltalakeTargets, place: int) -> None:
    """Make a file unreadable, the one that was written at that place."""
    files = sorted(Path(tables.path("t")).glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    files[place].write_bytes(b"nothing")


def test_a_merge_reads_no_file_between_its_keys(tables: DeltalakeTargets) -> None:
    into = in_files(tables, target("bigint"), [[(part * 1_000 + n,) for n in range(ROWS)] for part in range(3)])
    spoil(tables, 1)
    merge(tables, into, [net(7, (5,)), net(7, (2_005,)), net(7, (9_000,)), net(0, (2_006,), put=False)])
    spoiled = next(file for file in Path(tables.path("t")).glob("*.parquet") if file.stat().st_size < ROWS)
    others = [file for file in DeltaTable(tables.path("t")).file_uris() if not file.endswith(spoiled.name)]
    rows = pa.concat_tables([pa.parquet.read_table(file) for file in others]).to_pylist()
    assert sorted(row["id"] for row in rows if row["v"] == 7) == [5, 2_005, 9_000]
    assert len(rows) == 2 * ROWS


def test_a_truncate_reaches_rows_that_no_key_does(tables: DeltalakeTargets) -> None:
    into = in_files(tables, target("bigint"), [[(part * 1_000 + n,) for n in range(ROWS)] for part in range(3)])
    merge(tables, into, [net(7, (5,)), net(7, (2_005,))], truncate=LastTruncate(ALWAYS, 0))
    assert sorted(row["id"] for row in DeltaTable(tables.path("t")).to_pyarrow_table().to_pylist()) == [5, 2_005]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [("bigint", [[1], [1_000], [9_000]]), ("string", [["a'b", "b"], ["c"], ["d"]]), ("date", [[date(2020, 1, 1)]])],
)
def test_rows_are_looked_up_where_they_may_be(tables: DeltalakeTargets, kind: str, keys: list[list[Any]]) -> None:
    into = in_files(tables, target(kind), [[(key,) for key in part] for part in keys])
    if len(keys) > 1:
        spoil(tables, -1)
    wanted = (keys[0][0],)
    assert {key: old.values for key, old in tables.rows(into, [wanted]).items()} == {wanted: (0, *wanted)}


def test_all_rows_that_are_wanted_are_looked_up(tables: DeltalakeTargets) -> None:
    into = in_files(tables, target("bigint"), [[(1,)], [(1_000,)], [(9_000,)]])
    assert tables.rows(into, [(9_000,), (1,), (5_000,)]).keys() == {(1,), (9_000,)}


def test_keys_become_a_table_of_their_columns() -> None:
    both = Target(TableId("s", "t"), "t", (target_column("b", "string"), target_column("a", "int")), ("a", "b"))
    assert table_of(both, [(1, "x"), (2, "y")]).to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_a_sync_merges_scattered_keys_of_a_row_of_files(tmp_path: Path) -> None:
    lake, into = str(tmp_path / "lake"), tmp_path / "targets"
    for first in (0, 1_000, 2_000, -5_000):
        send(lake, [event("c", "t", {"id": n}, {"id": n, "v": 0}) for n in range(first, first + 20)], queues=1)
        assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    keys = [-5_000, 19, 1_000, 2_019]
    send(lake, [event("u", "t", {"id": n}, {"id": n, "v": 1}) for n in keys], queues=1)
    send(lake, [event("d", "t", {"id": 0}, None, before={"id": 0})], queues=1)
    assert sync(lake, TOPIC, SyncOptions(into=into)).await_termination()
    rows = DeltaTable(str(into / "t")).to_pyarrow_table().to_pylist()
    assert len(rows) == 79
    assert sorted(row["id"] for row in rows if row["v"] == 1) == keys
