"""Merges by deltalake read no more of a target than a batch's keys call for, and give what a dict would."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cdc.changes import Key, NetChange
from penstock.cdc.delta.deltalake_targets import DeltalakeTargets
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold_result import LastTruncate
from penstock.cdc.sync.backends.merge_rows import batch_of, rows_schema
from penstock.cdc.target import Target, TargetOwner, TargetProgress
from tests.cdc.columns import target_column
from tests.thorough import examples, thoroughly

OWNER = TargetOwner("changes", 1, "s")


class Merged:
    """A target with a key of these types and a number beside it."""

    def __init__(self, folder: Path, *kinds: str) -> None:
        columns = [*(target_column(f"k{number}", kind) for number, kind in enumerate(kinds)), target_column("v", "bigint")]
        self.tables = DeltalakeTargets(str(folder), by_position=True)
        self.target = Target(TableId("s", "t"), "t", tuple(columns), tuple(column.name for column in columns[:-1]))
        self.tables.create(self.target, OWNER)
        self.path = str(folder / "t")
        self.merges = 0

    def merge(self, rows: Mapping[Key, int | None], *, truncate: bool = False) -> None:
        """Put rows by key; None removes one."""
        import pyarrow as pa

        self.merges += 1
        nets = [
            (key, NetChange(value is not None, (*key, value), None, self.merges, self.merges, (0, self.merges)))
            for key, value in rows.items()
        ]
        schema = rows_schema(self.target, by_position=True)
        table = pa.Table.from_batches([batch_of(self.target, schema, nets)] if nets else [], schema)
        target = replace(self.target, progress=TargetProgress(commits=self.merges))
        above = LastTruncate(self.merges, 0) if truncate else None
        assert self.tables.merge(target, table, OWNER, truncate=above, partial=False)

    def rows(self) -> dict[Key, int]:
        columns = DeltaTable(self.path).to_pyarrow_table().select([column.name for column in self.target.columns]).to_pydict()
        return {tuple(row[:-1]): row[-1] for row in zip(*columns.values(), strict=True)}


def test_files_without_the_keys_of_a_batch_are_not_read(tmp_path: Path) -> None:
    merged = Merged(tmp_path, "bigint")
    merged.merge({(number,): number for number in range(10)})
    (oldest,) = (tmp_path / "t").glob("*.parquet")
    for first in (100, 200):
        merged.merge({(number,): number for number in range(first, first + 10)})
    whole = oldest.read_bytes()
    oldest.write_bytes(bytes(len(whole)))
    merged.merge({(105,): -1, (109,): None, (150,): 150})
    oldest.write_bytes(whole)
    numbers = [*range(10), *range(100, 109), 150, *range(200, 210)]
    assert merged.rows() == {(number,): -1 if number == 105 else number for number in numbers}


LONG = "x" * 40
KEYS: dict[tuple[str, ...], st.SearchStrategy[Key]] = {
    ("bigint",): st.tuples(st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])),
    ("string",): st.tuples(st.sampled_from(["", "a", "b", "ß", "\U0010ffff", LONG, LONG + "a", LONG + "b", "\U0010ffff" * 40])),
    ("decimal(38,10)",): st.tuples(st.sampled_from([Decimal("1e-10"), Decimal(0), Decimal(-1), Decimal("9" * 28)])),
    ("double",): st.tuples(st.sampled_from([0.0, 1e-300, -1.5, 1e300, float("inf"), float("-inf")])),
    ("boolean",): st.tuples(st.booleans()),
    ("binary",): st.tuples(st.sampled_from([b"", b"a", b"\xff", b"x" * 40, b"x" * 40 + b"a"])),
    ("date",): st.tuples(st.sampled_from([date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 1), date(9999, 12, 31)])),
    ("timestamp",): st.tuples(
        st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=us) for us in (-1, 0, 1, 999, 1000, 10**12)])
    ),
    ("bigint", "string"): st.tuples(st.integers(0, 2), st.sampled_from(["", "a", LONG + "b"])),
}
USUAL: list[tuple[str, ...]] = [("string",), ("timestamp",), ("bigint", "string")]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", thoroughly(list(KEYS), USUAL), ids=" ".join)
def test_merges_give_what_a_dict_would(kinds: tuple[str, ...]) -> None:
    batch = st.tuples(
        st.dictionaries(KEYS[kinds], st.none() | st.integers(0, 9), max_size=4), st.sampled_from([False] * 5 + [True])
    )

    @settings(max_examples=examples(6))
    @given(st.lists(batch, min_size=2, max_size=6))
    def check(batches: list[tuple[dict[Key, int | None], bool]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            merged, expected = Merged(Path(folder), *kinds), dict[Key, int]()
            for rows, truncate in batches:
                merged.merge(rows, truncate=truncate)
                before = {} if truncate else expected
                expected = {key: value for key, value in {**before, **rows}.items() if value is not None}
            assert merged.rows() == expected

    check()
