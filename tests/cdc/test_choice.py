"""What the user chooses about tables: which names mean one, which option counts, and what a target's columns and values become."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import SyncOptions
from penstock.cdc.choice.columns import DisallowedEvent
from penstock.cdc.choice.masks import Mask, MaskLike, last4, sha256
from penstock.cdc.choice.renames import target_folder_of
from penstock.cdc.choice.tables import Choices, TableOptions, choices_of
from penstock.cdc.events.connect import ConnectRowSchema, schema_of_key
from penstock.cdc.events.debezium import ChangeEvent, parse_change
from penstock.cdc.events.placeholders import UnavailablePlaceholder
from penstock.cdc.events.sources import TableId, is_selected, matches_table, merged_declarations, of_table
from penstock.cdc.sync.record import covers
from penstock.cdc.target import TargetRefused
from penstock.log.errors import InvalidArgument
from tests.cdc.sync.streams import event

ORDERS = TableId("sales", "orders", "shop", "pg")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("orders", True),
        ("sales.orders", True),
        ("shop.sales.orders", True),
        ("sales.*", True),
        ("*", True),
        ("ord*", True),
        ("order?", True),
        ("*.orders", True),
        ("sal", False),
        ("sales", False),
        ("sale?.order", False),
        ("Sales.*", False),
        ("[s]ales.orders", False),
    ],
)
def test_a_name_or_a_pattern_means_a_table(name: str, meant: bool) -> None:
    assert matches_table(name, ORDERS) is meant
    assert is_selected(frozenset({name, "other"}), ORDERS) is meant


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        ({"!sales.*"}, False),
        ({"!crm.*"}, True),
        ({"sales.*", "!*.lines"}, True),
        ({"sales.*", "!orders"}, False),
        ({"crm.*", "!*.lines"}, False),
        (set(), False),
    ],
)
def test_tables_may_be_left_out(names: set[str], asked: bool) -> None:
    assert is_selected(frozenset(names), ORDERS) is asked


CHOSEN = st.none() | st.frozensets(st.sampled_from(["a.x", "a.*", "*.y", "x", "!a.x", "!a.*", "!*.y", "!b.y"]), max_size=4)


@given(CHOSEN, CHOSEN)
def test_offsets_that_hold_for_some_tables_hold_for_no_other(chosen: frozenset[str] | None, tables: frozenset[str] | None) -> None:
    if covers(chosen, tables):
        sources = [TableId(schema, table) for schema in "ab" for table in "xyz"]
        assert all(is_selected(chosen, source) for source in sources if is_selected(tables, source))


@given(CHOSEN)
def test_offsets_hold_for_the_tables_that_they_were_made_for(chosen: frozenset[str] | None) -> None:
    assert covers(chosen, chosen)


@given(st.text(min_size=1, max_size=8).filter(lambda name: not name.startswith("!")))
def test_every_name_means_the_table_of_that_name(name: str) -> None:
    """Also one that has the characters of patterns."""
    assert matches_table(name, TableId(None, name))


def test_the_most_exact_name_counts() -> None:
    said = {"*": 1, "sales.*": 2, "sales.ord*": 3, "orders": 4, "sales.orders": 5}
    names = [*said]
    while names:
        assert of_table({name: said[name] for name in names}, ORDERS) == max(said[name] for name in names)
        names.pop()
    assert of_table({"crm.*": 1}, ORDERS) is None
    assert merged_declarations({"*": {"a": "int", "b": "int"}, "orders": {"b": "date"}}, ORDERS) == {"a": "int", "b": "date"}


def test_options_of_several_names_are_joined() -> None:
    choices = choices_of(
        {
            "*": TableOptions(masks={"email": "sha256", "phone": "last4"}, truncates="ignore", target="{schema}_{table}"),
            "orders": TableOptions(masks={"phone": "null"}, history=False),
        },
        {"orders": "ord"},
    )
    found = choices.of(ORDERS)
    assert {name: mask.name for name, mask in found.masks.items() if isinstance(mask, Mask)} == {"email": "sha256", "phone": "null"}
    assert (found.truncates, found.history, found.target) == ("ignore", False, "ord")
    assert choices.folder(TableId("crm", "people")) == "crm_people"


@pytest.mark.parametrize(
    ("template", "folder"),
    [("{schema}_{table}", "sales_orders"), ("crm", "crm"), ("_x", "~5Fx"), ("{server}.{database}", "pg.shop"), ("a/b", "a~2Fb")],
)
def test_a_template_names_a_folder(template: str, folder: str) -> None:
    assert target_folder_of(template, ORDERS) == folder


def test_a_template_needs_what_the_events_say() -> None:
    with pytest.raises(TargetRefused, match="the target's name has the table's schema, and its events do not say it"):
        target_folder_of("{schema}_{table}", TableId(None, "orders"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"target": "{tabel}"}, r"this is no name of a target .*expected: text in which \{server\}, .*observed: '\{tabel\}'"),
        ({"target": "{table!r:>9}"}, "this is no name of a target"),
        ({"target": "{table"}, "this is no name of a target"),
        ({"target": "{}"}, "this is no name of a target"),
        ({"target": ""}, "this is no name of a target"),
        ({"target": 1}, "bad target .*expected: text; observed: 1"),
        ({"key": "id"}, "bad key .*expected: a list of columns; observed: 'id'"),
        ({"key": []}, "bad key"),
        ({"columns": ["amount"]}, "bad columns .*expected: types by column"),
        ({"only_columns": "id"}, "bad only_columns"),
        ({"without_columns": [1]}, "bad without_columns"),
        ({"masks": "sha256"}, "bad masks .*expected: masks by column"),
        (
            {"masks": {"email": "sha265"}},
            r"there is no such mask .*expected: sha256, last4, null, constant:TEXT.*did you mean sha256\?",
        ),
        ({"masks": {"id": "last4"}, "key": ["id"]}, "column id is of the key, and the mask last4 may make one row of two"),
        ({"without_columns": ["i*"], "key": ["id"]}, "column id is of the key, and cannot be left out"),
        ({"history": "yes"}, "bad history .*expected: true or false"),
        ({"truncates": "all"}, "bad truncates .*expected: 'ordered', 'queue' or 'ignore'"),
        ({"unfit_times": 0}, "bad unfit_times"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        choices_of({"orders": TableOptions(**options)}, {})


def test_only_options_are_options() -> None:
    with pytest.raises(InvalidArgument, match=r"bad table_options .*object: orders; expected: TableOptions"):
        choices_of({"orders": {"key": ["id"]}}, {})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="bad rename"):
        SyncOptions(into="t", rename=["orders"])  # type: ignore[arg-type]


# --- Columns and masks ----------------------------------------------------------------------------------------------------------


def applied(one: dict[str, Any], options: TableOptions) -> ChangeEvent:
    change = parse_change(one)
    assert change is not None
    rules = choices_of({"*": options}, {}).rules(change.source, None, UnavailablePlaceholder.of())
    assert rules is not None
    return rules.applied(change)


ANN = {"id": 7, "email": "ann@x", "phone": "0123456789", "note": None}


def test_columns_are_chosen_but_never_without_the_key() -> None:
    told = event("u", "t", {"id": 7}, ANN, before={"id": 7, "email": "old", "phone": "1", "note": "x"})
    only = applied(told, TableOptions(only_columns=["em*"]))
    assert only.row == {"id": 7, "email": "ann@x"}
    assert only.before == {"id": 7, "email": "old"}
    assert applied(told, TableOptions(without_columns=["*e*"])).row == {"id": 7}
    assert applied(told, TableOptions(only_columns=["*"], without_columns=["note"])).row == {
        "id": 7,
        "email": "ann@x",
        "phone": "0123456789",
    }


@pytest.mark.parametrize(
    ("mask", "email"),
    [
        ("sha256", sha256("ann@x")),
        ("last4", "****"),
        ("null", None),
        ("constant:?", "?"),
        (str.upper, "ANN@X"),
        (Mask(len), 5),
    ],
)
def test_masks_take_the_place_of_values(mask: MaskLike, email: object) -> None:
    told = event("u", "t", {"id": 7}, ANN, before=ANN)
    change = applied(told, TableOptions(masks={"em*": mask, "note": mask}))
    assert change.row == {**ANN, "email": email}
    assert change.before == change.row


def test_what_was_not_logged_stays_so() -> None:
    told = event("u", "t", {"id": 7}, {"id": 7, "email": "__debezium_unavailable_value"})
    assert applied(told, TableOptions(masks={"email": "sha256"})).row["email"] == "__debezium_unavailable_value"


def test_a_text_that_only_looks_like_it_is_masked() -> None:
    same = {"id": 7, "email": "__debezium_unavailable_value"}
    told = event("u", "t", {"id": 7}, same)
    told["value"]["source"]["not_sent"] = []
    assert applied(told, TableOptions(masks={"email": "null"})).row["email"] is None


def test_a_masked_column_has_no_longer_the_type_that_its_events_say() -> None:
    fields = [{"field": "id", "type": "int64"}, {"field": "email", "type": "int32"}]
    told = event("u", "t", {"id": 7}, {"id": 7, "email": 5})
    value = {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": told["value"]}
    whole = {"key": {"schema": {"fields": fields[:1]}, "payload": told["key"]}, "value": value}
    hashed = applied(whole, TableOptions(masks={"email": "sha256", "id": "sha256"}))
    assert (hashed.key, hashed.row) == ({"id": sha256(7)}, {"id": sha256(7), "email": sha256(5)})
    assert hashed.schema_of_row == hashed.schema_of_key == ConnectRowSchema({})
    nothing = applied(whole, TableOptions(masks={"email": "null"}))
    assert nothing.schema_of_row == schema_of_key({"fields": fields})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (TableOptions(masks={"id": "last4"}), "column id is of the key, and the mask last4 may make one row of two"),
        (TableOptions(masks={"i*": "null"}), "the mask null may"),
        (TableOptions(masks={"id": str}), "the mask str may"),
        (TableOptions(without_columns=["id"]), "column id is of the key, and cannot be left out"),
        (TableOptions(masks={"email": lambda value: value / 0}), "column email: its mask, .*lambda.*, raised TypeError"),
    ],
)
def test_a_key_is_not_lost_and_an_error_of_a_mask_tells_no_value(options: TableOptions, told: str) -> None:
    with pytest.raises(DisallowedEvent, match=told) as raised:
        applied(event("c", "t", {"id": 7}, ANN), options)
    assert "ann@x" not in str(raised.value)


def test_a_function_of_the_user_s_may_mask_a_key_if_it_keeps_rows_apart() -> None:
    mask = Mask(lambda value: value * 2 + 1, keeps_apart=True)
    change = applied(event("c", "t", {"id": 7}, ANN), TableOptions(masks={"id": mask}))
    assert (change.key, change.row["id"]) == ({"id": 15}, 15)


@given(st.one_of(st.integers(-(10**20), 10**20), st.text(), st.booleans()))
def test_equal_values_have_equal_hashes_however_events_write_them(value: object) -> None:
    assert sha256(value) == sha256(json.loads(json.dumps(value)))
    if isinstance(value, int) and not isinstance(value, bool):
        assert sha256(value) == sha256(Decimal(f"{value}.00")) == sha256(Decimal(f"{value}E0")) == sha256(str(value))


def test_hashes_of_other_values() -> None:
    assert sha256(1.5) == sha256(Decimal("1.50")) == sha256("1.5")
    assert sha256(Decimal("-0.0")) == sha256(0)
    assert sha256(b"ab") == sha256("ab")
    assert sha256({"a": [1]}) == sha256('{"a":[1]}')
    assert len({sha256(one) for one in (1, True, "x", 1.5, [1], None)}) == 6


def test_the_last_four_characters_of_long_values() -> None:
    assert [last4(one) for one in ("4111111111111111", 12345678, "1234567", "")] == ["****1111", "****5678", "****", "****"]


def test_tables_without_choices_have_no_rules() -> None:
    assert Choices().rules(ORDERS, None, UnavailablePlaceholder.of()) is None
    assert choices_of({"crm.*": TableOptions(masks={"a": "null"})}, {}).rules(ORDERS, None, UnavailablePlaceholder.of()) is None
