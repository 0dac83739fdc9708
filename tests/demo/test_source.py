from __future__ import annotations

import gzip
import io
import json
from itertools import pairwise
from typing import Any, BinaryIO, cast

import pytest

from examples.demo import shipped, source
from examples.demo.tables import SHOP, infer_targets
from penstock.cdc.events.debezium import parse_change
from penstock.infra.labels import InputRecord
from penstock.log.errors import InvalidArgument
from tests.demo.captures import CAPTURE, event, swapped
from tests.thorough import thoroughly


def share(lines: list[bytes], producers: int = 1, producer: int = 0) -> list[InputRecord]:
    return list(source.events(io.BytesIO(b"\n".join(lines)), name="capture", producers=producers, producer=producer))


def test_an_event_is_sent_whole_in_the_group_of_its_row() -> None:
    first, second, *_ = share(CAPTURE)
    assert first.body == CAPTURE[0]
    assert (first.message_group, first.tag, first.keys, first.properties) == ("bills-1", "bills", ("bills-1",), {"op": "c"})
    assert second.message_group == "lines-1-1"


def test_sequences_increase_along_the_capture() -> None:
    sequences = [record.sequence for record in share(CAPTURE)]
    assert all(a is not None and b is not None and a < b < 2**63 for a, b in pairwise(sequences))


def test_producers_share_the_capture_by_row_and_in_order() -> None:
    lines = [event(commit, 1, "bills", "u", {"id": commit % 30}, {}) for commit in range(1, 99)]
    whole, shares = share(lines), [share(lines, 3, producer) for producer in range(3)]
    assert all(shares)
    for group in {record.message_group for record in whole}:
        of_group = [record for record in whole if record.message_group == group]
        assert of_group in [[record for record in one if record.message_group == group] for one in shares]
    assert sum(map(len, shares)) == len(whole)


def test_a_capture_out_of_order_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"not in the order of the source's log.*lines-1-1"):
        share(swapped(0, 4))


def test_an_event_without_a_position_is_refused() -> None:
    line = CAPTURE[0].replace(b'"transaction"', b'"transactions"')
    with pytest.raises(InvalidArgument, match="position"):
        share([line])


def test_targets_are_inferred_from_a_capture() -> None:
    changes = [change for line in CAPTURE if (change := parse_change(json.loads(line)))]
    bills, lines = infer_targets(changes)
    assert (bills.table, bills.key, dict(bills.columns)) == (
        "bills",
        ("id",),
        {"id": "bigint", "amount": "decimal(38,2)", "paid_at": "timestamp", "note": "string"},
    )
    assert (lines.key, dict(lines.columns)) == (("id", "line"), {"id": "bigint", "line": "bigint", "count": "bigint"})


def test_values_of_two_types_need_one_that_holds_both() -> None:
    values: list[list[Any]] = [[1, 1.5, None], ["1.50", "2.5", None], [None, None, None], [True, "yes", None], [1, 2, 3]]
    lines = [event(n, 1, "t", "u", {"id": 1}, {f"c{i}": column[n] for i, column in enumerate(values)}) for n in range(3)]
    [target] = infer_targets(change for line in lines if (change := parse_change(json.loads(line))))
    assert list(target.columns.values()) == ["bigint", "double", "string", "string", "string", "bigint"]


@pytest.mark.slow
def test_the_shipped_capture_is_what_the_declaration_says() -> None:
    with gzip.open(shipped.events_file()) as file:
        records = list(source.events(cast("BinaryIO", file), name="events.jsonl.gz"))
    assert len(records) == 71_828
    inferred = infer_targets(change for record in records[:: thoroughly(1, 5)] if (change := parse_change(json.loads(record.body))))
    assert [(t.table, t.key, list(t.columns)) for t in inferred] == [(t.table, t.key, list(t.columns)) for t in SHOP]
