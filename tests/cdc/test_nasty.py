"""The nasty stream, which the judge has to judge as we do by hand."""

from __future__ import annotations

from tests.cdc import nasty
from tests.cdc.reference import Reference


def test_the_reference_ends_with_the_tables_written_by_hand() -> None:
    reference = Reference(declared=nasty.DECLARED)
    for batch in nasty.batches():
        reference.apply(batch)
    assert not [table for table, state in reference.tables.items() if state.stopped]
    found = {table: rows for (_, table), rows in reference.rows().items()}
    wanted = nasty.expected()
    assert found.keys() == wanted.keys()
    for table, rows in wanted.items():
        columns = next(iter(rows.values())).keys()
        assert {key: {c: row.get(c) for c in columns} for key, row in found[table].items()} == rows, table
        assert {c for row in found[table].values() for c in row} <= columns


def test_lines_say_why_they_are_there_and_every_batch_has_several_queues() -> None:
    cut = nasty.batches()
    assert len(cut) == 3
    assert all({message.queue for message in batch} == {0, 1} for batch in cut)
