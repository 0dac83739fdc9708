from __future__ import annotations

import json

import pytest

from penstock.cdc.delta.commit_retry import commit_with_retry
from penstock.cdc.events.sources import TableId
from penstock.cdc.target import TableDeclarations, TargetRefused, folder_name, target_names
from penstock.log.errors import InvalidArgument, RetryError
from tests.cdc.applied import Memory
from tests.cdc.reference import Message


def test_events_with_positions_count_after_a_truncate_without_one() -> None:
    """As when a connector's transaction metadata is switched on later, or a transaction has more events than positions have numbers."""

    def message(offset: int, op: str, key: dict[str, int] | None, position: int | None) -> Message:
        source = {"connector": "mysql", "db": "shop", "table": "t"}
        place = {} if position is None else {"file": "binlog.1", "pos": position, "row": 0}
        value = {"op": op, "before": None, "after": key, "source": {**source, **place}}
        return Message(0, offset, json.dumps({"key": key, "value": value}).encode())

    tables = Memory()
    for one in (message(0, "c", {"id": 1}, 5), message(1, "t", None, None), message(2, "c", {"id": 2}, 9)):
        tables.apply([one])
    assert tables.rows()["t"].keys() == {(2,)}


@pytest.mark.parametrize("key", ["id", [], ()])
def test_a_key_is_a_list_of_columns(key: object) -> None:
    with pytest.raises(InvalidArgument, match="a key is a list of columns"):
        TableDeclarations.of(None, {"t": key})  # type: ignore[dict-item]


def test_a_table_keeps_its_folder_and_takes_none_that_may_be_taken_for_another_s() -> None:
    mine, other = TableId("b", "t"), TableId("a", "t")
    assert target_names(mine, {}) == ["t", "b.t"]
    assert target_names(mine, {"t": mine, "a.t": other}) == ["t", "b.t"]
    assert target_names(mine, {"t": other}) == ["b.t"]
    assert target_names(mine, {"a.t": other}) == ["b.t"]
    with pytest.raises(TargetRefused, match="folder is that of another table"):
        target_names(TableId(None, "t"), {"t": mine})


@pytest.mark.parametrize("name", ["t" * 255, "ß" * 127])
def test_a_folder_has_as_long_a_name_as_folders_may(name: str) -> None:
    assert folder_name(name) == name
    with pytest.raises(TargetRefused, match="cannot be a folder's"):
        folder_name(name + "ß")


def test_a_merge_that_others_keep_from_being_committed_gives_up_and_says_how_often_it_tried() -> None:
    tried, checked = [], []

    def commit(wins_at: int) -> str:
        tried.append(1)
        if len(tried) < wins_at:
            raise KeyError("another commit")
        return "committed"

    assert commit_with_retry(lambda: commit(10), KeyError, "t", check=lambda: checked.append(1)) == "committed"
    assert len(checked) == len(tried) == 10
    tried.clear()
    with pytest.raises(RetryError, match="observed: 10 attempts, the last one: KeyError") as raised:
        commit_with_retry(lambda: commit(12), KeyError, "t", check=lambda: None)
    assert raised.value.object == "t"
    assert len(tried) == 10
    with pytest.raises(ZeroDivisionError):
        commit_with_retry(lambda: 1 // 0, KeyError, "t", check=lambda: None)
