from __future__ import annotations

import pytest

from penstock.cdc.events.sources import TableId
from penstock.cdc.fold.observed_columns import ObservedColumns
from penstock.cdc.fold.shape import TableShape, new_columns
from penstock.cdc.target import TableDeclarations, Target, TargetRefused
from tests.cdc.columns import target_column, target_types

SOURCE = TableId("public", "users")
TARGET = Target(SOURCE, "users", (target_column("id", "bigint"), target_column("name", "string")), ("id",))


def shape(**columns: str) -> TableShape:
    return TableShape.of(SOURCE, ObservedColumns({**target_types(columns)}, ("id",)), TableDeclarations())


def test_columns_that_a_target_lacks_are_new() -> None:
    assert new_columns(TARGET, shape(name="string", mail="string")) == [target_column("mail", "string")]


def test_a_column_renamed_by_case_only_is_refused_not_left_out() -> None:
    with pytest.raises(
        TargetRefused, match=r"differ in case only .*public\.users; observed: name in the target, Name in the event"
    ):
        new_columns(TARGET, shape(Name="string"))
    with pytest.raises(TargetRefused, match=r"differ in case only.*observed: mail, Mail"):
        shape(mail="string", Mail="string")


def test_names_of_the_sync_s_own_columns_are_refused() -> None:
    with pytest.raises(TargetRefused, match=r"names that begin with __ are the sync's own.*observed: __position"):
        shape(__position="bigint")
