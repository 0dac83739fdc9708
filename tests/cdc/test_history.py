from __future__ import annotations

import json

import pytest

from penstock.cdc.changes import NEVER
from penstock.cdc.events.conversion import KEEP
from penstock.cdc.events.placeholders import PLACEHOLDER
from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.fold import Fold
from penstock.cdc.fold.fold_result import FoldResult, RowVersion
from penstock.cdc.fold.history import chains
from penstock.cdc.fold.plan import FoldPlan
from penstock.cdc.target import Target
from tests.cdc.columns import target_column

SOURCE = TableId("shop", "t")
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Of the years 1 and 9999."""


def folded(*events: tuple[str, int | None, int | None]) -> FoldResult:
    """Of op, id and time in microseconds."""
    fold = Fold(FoldPlan({SOURCE: Target(SOURCE, "t", (target_column("id", "bigint"),), ("id",), history=True)}, truncates="queue"))
    for offset, (op, id_, ts_us) in enumerate(events):
        row = None if id_ is None else {"id": id_}
        source = {"connector": "mysql", "db": "shop", "table": "t", "file": "binlog.1", "pos": offset, "ts_us": ts_us}
        value = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}
        fold.add(0, offset, json.dumps({"key": row, "value": value}).encode(), 50)
    return fold.result()


def version(
    op: str, position: int | None, time_us: int, *values: object, queue: int = 0, key: tuple[object, ...] = (1,)
) -> RowVersion:
    return RowVersion(
        () if op == "t" else key, op, () if op == "t" else values or (None, None), position, time_us, (queue, time_us)
    )


def test_each_version_is_valid_until_the_next_and_lacking_columns_come_from_the_one_before() -> None:
    first, second, third = chains([version("c", 1, 10, 1, "a"), version("u", 2, 20, 1, KEEP), version("d", 3, 30)])
    assert (first.values, first.valid_from_us, first.valid_to_us, first.column_positions) == ((1, "a"), 10, 20, (1, 1))
    assert (second.values, second.valid_to_us, second.column_positions) == ((1, "a"), 30, (2, 1))
    assert (third.op, third.valid_from_us, third.valid_to_us) == ("d", 30, None)


def test_what_only_the_target_knows_is_asked_for_until_a_version_says_it() -> None:
    links = chains([version("u", 1, 10, 1, KEEP), version("u", 2, 20, 1, KEEP), version("u", 3, 30, 1, "x")])
    assert [link.column_positions for link in links] == [(1, NEVER), (2, NEVER), (3, 3)]
    gone = chains([version("d", 1, 10), version("c", 2, 20, 1, KEEP)])
    assert (gone[1].column_positions, gone[1].values) == ((2, 1), (1, None))


def test_versions_that_are_told_again_or_came_by_another_queue_fall_into_place() -> None:
    links = chains([version("u", 5, 50, 1, "b"), version("u", 3, 30, 1, "a", queue=1), version("u", 5, 50, 1, "b", queue=1)])
    assert [(link.position, link.valid_from_us, link.valid_to_us) for link in links] == [(3, 30, 50), (5, 50, None)]


def test_a_truncate_ends_every_row() -> None:
    links = chains([version("c", 1, 10, 1, "a"), version("t", 2, 20), version("c", 3, 30, 2, "b", key=(2,))])
    assert [(link.key, link.op, link.valid_from_us, link.valid_to_us) for link in links] == [
        ((1,), "c", 10, 20),
        ((1,), "d", 20, None),
        ((2,), "d", 20, 30),
        ((2,), "c", 30, None),
    ]


def test_changes_without_positions_by_several_queues_go_by_their_times() -> None:
    links = chains([version("c", None, 50, 1, "a", queue=1), version("t", None, 10, queue=2)])
    assert [(link.op, link.valid_from_us, link.valid_to_us) for link in links] == [("d", 10, 50), ("c", 50, None)]
    of_one_queue = [version("c", None, 50, 1, "a"), version("u", None, 50, 1, "b")]
    assert [link.values for link in chains(of_one_queue)] == [(1, "a"), (1, "b")]


def test_what_is_told_at_one_position_counts_in_its_order_unless_it_says_the_same() -> None:
    """As a compressed transaction of MySQL does, and a connector that tells its last statement again."""
    links = chains(
        [version("u", 5, 1, 1, "a"), version("u", 5, 2, 1, "b"), version("u", 5, 3, 1, "b"), version("u", 5, 4, 1, KEEP)]
    )
    assert [(link.values, link.last) for link in links] == [((1, "a"), False), ((1, "b"), True)]
    links = chains([version("d", 5, 1), version("d", 5, 2), version("c", 5, 3, 1, "a"), version("u", 6, 4, 1, "b")])
    assert [(link.op, link.last) for link in links] == [("d", False), ("c", True), ("u", True)]


def test_positions_go_before_the_clocks_of_what_told_them() -> None:
    links = chains([version("c", 1, 90, 1, "a", queue=1), version("u", 2, 10, 1, "b"), version("u", 3, 20, 1, "c")])
    assert [(link.position, link.values) for link in links] == [(1, (1, "a")), (2, (1, "b")), (3, (1, "c"))]


def test_what_is_told_again_is_passed_over_also_beside_what_has_no_position() -> None:
    links = chains(
        [version("c", 4, 10, 1, "a"), version("u", 5, 20, 1, "b"), version("c", 4, 30, 1, "a"), version("u", None, 40, 1, "c")]
    )
    assert [(link.position, link.values) for link in links] == [(4, (1, "a")), (5, (1, "b")), (None, (1, "c"))]


def test_each_event_of_a_table_with_history_is_a_version() -> None:
    found = folded(("c", 1, 10), ("u", 1, None), ("t", None, 30), ("d", 2, 40))
    assert found.refused == {}
    versions = found.versions[SOURCE]
    assert [(one.op, one.key, one.values, one.time_us) for one in versions] == [
        ("c", (1,), (1,), 10),
        ("u", (1,), (1,), 50),
        ("t", (), (), 30),
        ("d", (2,), (None,), 40),
    ]
    truncate = found.truncates[SOURCE]
    assert (found.counts[SOURCE], truncate.time_us, truncate.position) == (4, 30, versions[2].position)


@pytest.mark.parametrize("row", [{}, {"id": None}, {"id": PLACEHOLDER}, {"id": 1}])
def test_a_version_whose_row_does_not_say_its_key_has_that_of_its_event(row: dict[str, object]) -> None:
    fold = Fold(FoldPlan({SOURCE: Target(SOURCE, "t", (target_column("id", "bigint"),), ("id",), history=True)}))
    value = {"op": "u", "before": None, "after": row, "source": {"db": "shop", "table": "t"}}
    fold.add(0, 0, json.dumps({"key": {"id": 1}, "value": value}).encode(), 50)
    assert [(one.key, one.values) for one in fold.result().versions[SOURCE]] == [((1,), (1,))]


@pytest.mark.parametrize(("time_us", "fits"), [(FIRST_US - 1, False), (FIRST_US, True), (LAST_US, True), (LAST_US + 1, False)])
def test_a_version_begins_in_a_year_from_1_to_9999(time_us: int, fits: bool) -> None:
    found = folded(("c", 1, time_us))
    assert (SOURCE in found.refused) is not fits
    assert (SOURCE in found.versions) is fits
