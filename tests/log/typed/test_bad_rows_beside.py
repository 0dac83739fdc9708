"""What is kept of a bad row in the topic beside: as much as can be, whatever the row holds."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.log.produce.invalid_rows import row_text
from tests.log.typed.lakes import typed_lake

IN_ITSELF: list[Any] = []
IN_ITSELF.append(IN_ITSELF)
DEEP: list[Any] = []
for _ in range(sys.getrecursionlimit()):
    DEEP = [DEEP]


class Unshown:
    """What has no repr."""

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "a\nb\u200b"}, "expected int, found the str 'a"),
        ({"id": "x", 7: 1, (1, 2): 3}, "expected "),
        ({"id": {("no", "name"): 1, "name": 2}}, "expected int, found the dict"),
        ({"id": "\ud800"}, "expected int, found the str"),
        ({"id": IN_ITSELF}, "expected int, found the list [[...]]"),
        ({"id": DEEP}, "expected int, found the list "),
        ({"id": 10**5000}, "expected int, found the int "),
        ({"id": Unshown()}, "expected int, found the Unshown a Unshown that cannot be shown"),
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


def test_what_is_kept_of_a_row_is_json_that_can_be_sent_again() -> None:
    row = {
        "id": "x",
        "f": math.nan,
        "d": Decimal("1.50"),
        "b": b"hi",
        "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "xs": (1, [-math.inf]),
    }
    kept = {"id": "x", "f": "NaN", "d": "1.50", "b": "aGk=", "at": "2026-01-31T12:00:00Z", "xs": [1, ["-Infinity"]]}
    assert json.loads(row_text(row), parse_constant=pytest.fail) == kept
    assert json.loads(row_text({**row, "id": IN_ITSELF})) == {**kept, "id": "[[...]]"}
    assert json.loads(row_text(Unshown())) == {"": "a Unshown that cannot be shown"}
