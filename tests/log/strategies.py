"""Values of the log as hypothesis draws them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.log.format.header import (
    Batch,
    CloseJob,
    Created,
    Deleted,
    Epoch,
    Evolved,
    ForgetJob,
    Header,
    IdempotentRowForm,
    Opening,
    Part,
    ProducerRowForm,
    Repair,
    StateForm,
    VersionForm,
)
from penstock.log.format.schema_form import schema_form
from penstock.log.limits import TIME_MAX_MS
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.schema.sources import fields_of
from penstock.log.schema.topic_schema import first_schema

numbers = st.integers(0, 2**53)
sequences = st.integers(-1, 2**62)
hex_ids = st.integers(0, 2**128 - 1).map(lambda value: f"{value:032x}")
names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
counts = st.dictionaries(st.integers(0, 4095), st.integers(1, 10**6), min_size=1, max_size=5)
parts = st.builds(Part, st.text(min_size=1, max_size=30), numbers, counts, numbers, hex_ids)


@st.composite
def batches(draw: st.DrawFn, /, **fixed: Any) -> Batch:
    rows = draw(counts)
    previous = draw(sequences)
    named = draw(st.booleans())
    begins = None if named else draw(st.none() | st.booleans())
    values: dict[str, Any] = {
        "producer": draw(names),
        "named": named,
        "epoch": Epoch(draw(numbers), draw(st.integers(0, 999))) if named else None,
        "previous": previous,
        "last": previous + sum(rows.values()) + draw(st.integers(0, 1000)),
        "generation": draw(st.integers(0, 1000)),
        "rows": rows,
        "valid_until": draw(numbers),
        "parts": tuple(draw(st.lists(parts, max_size=2))),
        "job": draw(st.none() | hex_ids),
        "schema_version": draw(st.integers(0, 3)),
        "begins": begins,
    }
    return Batch(**{**values, **fixed})


openings = st.builds(Opening, names, hex_ids, st.integers(0, 1000), numbers, sequences)
times_ms = st.integers(0, TIME_MAX_MS)
schema_forms = st.sampled_from(
    [
        schema_form(first_schema(fields_of(text)))
        for text in ("a int", "s struct<x: decimal(5,2) not null, l array<map<string, date>>>")
    ]
)
rows = st.builds(ProducerRowForm, names, sequences, numbers, times_ms, st.none() | numbers, st.none())
state_forms = st.builds(
    StateForm,
    entry=numbers,
    incarnation=hex_ids,
    alive=st.booleans(),
    created_entry=numbers,
    generation=numbers,
    next_offsets=st.lists(numbers, max_size=3).map(tuple),
    unnamed=st.lists(rows, max_size=2).map(tuple),
    named=st.lists(rows, max_size=2).map(tuple),
    openings=st.lists(st.tuples(hex_ids, numbers), max_size=2).map(tuple),
    closed_jobs=st.lists(st.tuples(hex_ids, numbers), max_size=2).map(tuple),
    store_time_ms=times_ms,
    schema=st.none() | schema_forms,
    versions=st.lists(st.builds(VersionForm, numbers, numbers, times_ms, hex_ids, st.just(("added x",))), max_size=2).map(tuple),
    idempotent=st.lists(
        st.builds(IdempotentRowForm, names, st.integers(0, 4095), numbers, numbers, numbers, times_ms), max_size=2
    ).map(tuple),
    idempotent_ms=times_ms,
)
actions = st.one_of(
    st.builds(Created, hex_ids, st.integers(1, 4096), hex_ids, st.none() | schema_forms),
    st.builds(Evolved, numbers, schema_forms, st.lists(names, max_size=2).map(tuple)),
    st.builds(Deleted, hex_ids),
    st.builds(CloseJob, hex_ids),
    st.builds(ForgetJob, hex_ids),
    st.builds(Repair, state_forms, numbers, numbers),
)
headers = st.builds(
    Header,
    entry=numbers,
    write_id=hex_ids,
    append_time_ms=times_ms,
    state_digest=hex_ids,
    bases=counts,
    actions=st.lists(actions, max_size=3).map(tuple),
    openings=st.lists(openings, max_size=3).map(tuple),
    batches=st.lists(batches(), max_size=3).map(tuple),
    combines=st.booleans(),
)


def rows_of(queues: dict[int, int], label: str = "x") -> pa.Table:
    """Rows sorted by queue, each with a body of its own."""
    spread = [queue for queue, count in sorted(queues.items()) for _ in range(count)]
    columns: dict[str, list[Any]] = {
        "queue": spread,
        "message_id": [f"{n:032x}" for n in range(len(spread))],
        "body": [f"{label}/{queue}/{n}".encode() for n, queue in enumerate(spread)],
        "keys": [[] for _ in spread],
        "properties": [[] for _ in spread],
        "born_timestamp": [0 for _ in spread],
        "producer": [label for _ in spread],
    }
    return pa.table(
        [pa.array(columns.get(field.name, [None] * len(spread)), field.type) for field in LOG_SCHEMA], schema=LOG_SCHEMA
    )
