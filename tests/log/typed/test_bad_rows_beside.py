"""What is kept of a bad row in the topic beside: as much as can be, whatever the row holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.log.typed.lakes import typed_lake


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a\nb\u200b"}, "expected int, found the str 'a"),
        ({"id": "x", 7: 1, (1, 2): 3}, "expected "),
        ({"id": {("no", "name"): 1, "name": 2}}, "expected int, found the dict"),
        ({"id": "\ud800"}, "expected int, found the str"),
        ({"id": 1, "t": "x" * 5_000_000}, "expected at most 4194304 bytes, found 5000004 bytes"),
    ],
)
def test_a_bad_row_is_there_with_its_reason(row: dict[Any, Any], said: str) -> None:
    with typed_lake("id int, t string") as lake:
        (sent,) = lake.send(row, invalid="topic")
        assert sent.invalid is not None
        (found,) = lake.lake.reader("orders-invalid").messages()
        assert found.properties["penstock-reason"].startswith(said)
        assert found.properties["penstock-reason"].isprintable()
        assert found.body.startswith(b'{"id": ')
        assert lake.values() == []


def test_bad_rows_stand_beside_in_their_order() -> None:
    with typed_lake("id int") as lake:
        lake.send(*({"id": str(number)} for number in range(20)), invalid="topic", linger=0.2)
        assert [one.json()["id"] for one in lake.lake.reader("orders-invalid").messages()] == [str(number) for number in range(20)]
