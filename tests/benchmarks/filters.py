"""Filters: rows a second by kind of condition, beside a plain Arrow filter of one column of the same batches, in turns."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.log.filter.filters import parse_filter
from tests.benchmarks.figures import Figure, Options

_CONDITIONS = {
    "tags": "paid || refunded",
    "text equal": "SQL92: region = 'north'",
    "whole number": "SQL92: price > 500",
    "decimal": "SQL92: weight BETWEEN 0.25 AND 0.75",
    "two properties": "SQL92: price > weight",
    "IN": "SQL92: region IN ('north', 'west')",
    "CONTAINS": "SQL92: region CONTAINS 'or'",
    "IS NULL": "SQL92: coupon IS NULL",
    "the tag": "SQL92: TAGS = 'paid'",
    "five terms": "SQL92: TAGS IN ('paid', 'refunded') AND price > 100 AND region <> 'south' AND (coupon IS NOT NULL OR weight < 0.9)",
}
_BATCH_ROWS = 16_384


def measure(options: Options) -> Iterator[Figure]:
    batches = [_batch(first) for first in range(0, options.scaled(1_600_000, 2 * _BATCH_ROWS), _BATCH_ROWS)]
    rows = sum(batch.num_rows for batch in batches)
    for kind, text in _CONDITIONS.items():
        keep = parse_filter(text)
        ours, plain = [], []
        for _ in range(options.repeats):
            ours.append(rows / _cpu_s(keep.apply, batches))
            plain.append(rows / _cpu_s(lambda batch: batch.filter(pc.equal(batch.column("tag"), "paid")), batches))
        yield Figure(
            name=f"filter by {kind}: rows a second of processor time",
            unit="rows/s",
            values=ours,
            better="higher",
            note=f"a plain Arrow filter by tag {max(plain):,.0f}; {text}",
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    held = sum(batch.nbytes for batch in batches)
    yield Figure(name="peak memory of the process beside the rows it filters", unit="ratio", values=[peak / held])


def _batch(first: int) -> pa.RecordBatch:
    numbers = range(first, first + _BATCH_ROWS)
    properties = [
        [
            ("region", ("north", "south", "west")[n % 3]),
            ("price", str(n * 7919 % 1000)),
            ("weight", f"{n % 997 / 997:.4f}"),
            *([("coupon", "x")] if n % 4 == 0 else []),
        ]
        for n in numbers
    ]
    return pa.RecordBatch.from_pydict(
        {
            "tag": pa.array([("paid", "made", "refunded")[n % 3] for n in numbers]),
            "keys": pa.array([[f"order-{n}"] for n in numbers], pa.list_(pa.string())),
            "properties": pa.array(properties, pa.map_(pa.string(), pa.string())),
            "body": pa.array([b"x" * 100] * _BATCH_ROWS),
        }
    )


def _cpu_s(work: Callable[[pa.RecordBatch], object], batches: list[pa.RecordBatch]) -> float:
    start = time.process_time()
    for batch in batches:
        work(batch)
    return time.process_time() - start
