"""A sync of chosen tables into targets of chosen names, columns and values: by the engine without Spark, whose loop is the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock import SyncOptions, SyncRun, TableOptions, sync
from penstock.cdc.choice.masks import MaskLike, sha256
from penstock.log.errors import InvalidArgument, NotSupported
from tests.cdc.sync.streams import TOPIC, Row, event, rows, send


class Place:
    """A lake, and a folder of targets."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.into = str(folder / "lake"), folder / "targets"

    def send(self, *events: Row) -> None:
        send(self.lake, events, queues=1)

    def sync(self, **options: Any) -> SyncRun:
        """All there is, to the end."""
        run = sync(self.lake, TOPIC, SyncOptions(into=self.into, **options))
        assert run.await_termination()
        return run

    def targets(self) -> Mapping[str, list[Row]]:
        """The rows of all targets."""
        return {path.name: rows(path) for path in sorted(self.into.iterdir())}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def made(table: str, number: int, *, schema: str = "sales", **more: object) -> Row:
    return event("c", table, {"id": number}, {"id": number, **more}, at=number, schema=schema)


def test_patterns_choose_tables_and_what_no_table_has_is_told(place: Place) -> None:
    place.send(made("orders", 1), made("people", 2, schema="crm"), made("old_orders", 3))
    run = place.sync(tables=["sales.ord*", "crm.*", "shop.*.none"])
    assert set(place.targets()) == {"orders", "people"}
    assert run.status.unmatched == ("shop.*.none",)


def test_tables_may_be_left_out_and_come_later(place: Place) -> None:
    place.send(made("orders", 1), made("people", 2, schema="crm"), made("old_orders", 3))
    run = place.sync(tables=["sales.*", "!*.old_*", "!none"])
    assert set(place.targets()) == {"orders"}
    assert run.status.unmatched == ()
    place.sync(tables=["!crm.*"])
    assert set(place.targets()) == {"orders", "old_orders"}
    place.sync()
    assert place.targets() == {"orders": [{"id": 1}], "people": [{"id": 2}], "old_orders": [{"id": 3}]}


def test_what_is_chosen_now_and_was_not_before_is_read_from_the_beginning(place: Place) -> None:
    place.send(made("orders", 1), made("people", 2, schema="crm"))
    place.sync(tables=["sales.*"])
    place.sync(tables=["sales.*", "crm.*"])
    assert place.targets() == {"orders": [{"id": 1}], "people": [{"id": 2}]}


def test_targets_are_called_as_the_user_says(place: Place) -> None:
    place.send(made("orders", 1), made("lines", 2), made("people", 3, schema="crm"), made("people", 4))
    rename = {"*": "{schema}_{table}", "crm.people": "customers", "orders": "{table}"}
    for number in (1, 2):
        assert place.sync(rename=rename).stopped == {}
        assert place.targets() == {
            "customers": [{"id": 3}],
            "orders": [{"id": 1}],
            "sales_lines": [{"id": 2}],
            "sales_people": [{"id": 4}],
        }, number
        place.send(event("d", "orders", {"id": 9}, before={"id": 9}, at=9, schema="sales"))


def test_two_tables_never_share_a_target(place: Place) -> None:
    place.send(made("orders", 1), made("orders", 2, schema="old"), made("all", 3))
    run = place.sync(rename={"*.orders": "all"})
    assert set(run.stopped) == {"old.orders"}
    assert run.stopped["old.orders"][0].reason == (
        "the table's folder is that of another table (operation: sync; object: shop.old.orders; expected: a folder that no other table has, or "
        "could have; observed: all, which is shop.sales.orders's). name its target apart: rename={'TABLE': '{schema}_{table}'} (--rename)"
    )
    assert place.targets() == {"all": [{"id": 1}], "sales.all": [{"id": 3}]}


def test_a_target_that_is_there_is_not_called_otherwise_unless_its_folder_was_renamed(place: Place) -> None:
    place.send(made("orders", 1))
    place.sync()
    place.send(made("orders", 2))
    with pytest.raises(
        InvalidArgument, match=r"the table has a target of another name.*expected: crm; observed: orders.*rename its"
    ):
        place.sync(rename={"orders": "crm"})
    (place.into / "orders").rename(place.into / "crm")
    assert place.sync(rename={"orders": "crm"}).stopped == {}
    assert place.targets() == {"crm": [{"id": 1}, {"id": 2}]}
    assert place.sync(rename={"orders": "crm"}).status.events == 0


def test_a_renamed_target_that_has_gone_is_made_again_under_its_new_name(place: Place) -> None:
    place.send(made("orders", 1))
    place.sync()
    (place.into / "orders").rename(place.into.parent / "elsewhere")
    place.sync(rename={"orders": "crm"})
    assert place.targets() == {"crm": [{"id": 1}]}


def test_masks_and_left_out_columns_end_to_end(place: Place) -> None:
    ann = {"id": 1, "email": "ann@x", "phone": "0123456789", "note": "secret", "age": 7}
    place.send(
        event("c", "people", {"id": 1}, ann, at=1),
        event("u", "people", {"id": 1}, {**ann, "email": "__debezium_unavailable_value", "age": 8}, at=2),
        event("u", "people", {"id": 2}, {**ann, "id": 2}, before={**ann, "age": 8}, at=3),
    )
    masks: dict[str, MaskLike] = {"email": "sha256", "phone": "last4", "id": "sha256", "age": lambda value: value // 5 * 5}
    options = TableOptions(masks=masks, without_columns=["no*"])
    assert place.sync(table_options={"people": options}).stopped == {}
    kept = {"email": sha256("ann@x"), "phone": "****6789", "age": 5}
    assert place.targets() == {"people": [{"id": sha256(2), **kept}]}


def test_what_the_events_own_schema_says_of_a_masked_column_does_not_count(place: Place) -> None:
    fields = [{"field": "id", "type": "int64"}, {"field": "age", "type": "int32"}, {"field": "none", "type": "int32"}]
    told = event("c", "people", {"id": 1}, {"id": 1, "age": 7, "none": 1, "more": 1}, at=1)
    told["value"] = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": told["value"]}
    place.send(told)
    masks: dict[str, MaskLike] = {"id": "sha256", "age": "constant:x", "none": "null"}
    assert place.sync(table_options={"*": TableOptions(masks=masks, without_columns=["more"])}).stopped == {}
    assert place.targets() == {"people": [{"id": sha256(1), "age": "x", "none": None}]}


def test_a_column_of_an_option_that_no_event_has_is_told(place: Place) -> None:
    place.send(made("people", 1, email="ann@x"))
    options = TableOptions(masks={"e-mail": "null", "em*": "null"}, without_columns=["tmp_*", "email"], only_columns=["id", "mail"])
    chosen = {"people": options, "peolpe": TableOptions(masks={"email": "null"})}
    assert place.sync(table_options=chosen).status.unmatched == (
        "peolpe",
        "people.e-mail",
        "people.mail",
        "people.tmp_*",
    )
    assert place.sync(table_options=chosen).status.unmatched == ("peolpe",)  # no event came, so nothing is known of columns


def test_a_mask_that_would_make_rows_one_stops_the_table(place: Place) -> None:
    place.send(made("people", 1, email="ann@x"), made("orders", 1))
    run = place.sync(table_options={"people": TableOptions(masks={"*": "constant:x"})})
    assert "column id is of the key, and the mask constant:x may make one row of two" in run.stopped["sales.people"][0].reason
    assert place.targets() == {"orders": [{"id": 1}]}


def test_a_mask_of_a_column_that_was_not_masked_before_stops_the_table_at_its_type(place: Place) -> None:
    place.send(made("people", 1, age=7))
    place.sync()
    place.send(made("people", 2, age=8))
    run = place.sync(table_options={"people": TableOptions(masks={"age": "sha256"})})
    assert f"column age: '{sha256(8)[:50]}" in run.stopped["sales.people"][0].reason


def test_truncates_unfit_times_keys_and_types_of_single_tables(place: Place) -> None:
    send(
        place.lake,
        [
            made("a", 1, at="infinity"),
            event("t", "a", None, schema="sales"),
            made("b", 1, code="x", at="1"),
            event("t", "c", None, schema="sales"),
            made("c", 1),
        ],
    )
    run = place.sync(
        table_options={
            "*": TableOptions(columns={"at": "timestamp"}),
            "a": TableOptions(truncates="ignore", unfit_times="null"),
            "b": TableOptions(key=["code"], columns={"at": "int"}),
        }
    )
    assert set(run.stopped) == {"sales.c"}
    assert "it empties the table and has no position" in run.stopped["sales.c"][0].reason
    assert place.targets()["a"] == [{"id": 1, "at": None}]
    assert place.targets()["b"] == [{"code": "x", "id": 1, "at": 1}]


def test_history_of_a_single_table_needs_spark(place: Place) -> None:
    with pytest.raises(NotSupported, match="keeps no history"):
        place.sync(table_options={"orders": TableOptions(history=True)})
    with pytest.raises(InvalidArgument, match=r"bad tables .*expected: a list of names or patterns; observed: 'orders'"):
        place.sync(tables="orders")
