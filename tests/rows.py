"""The rows of an entry at once, for tests whose entries are small."""

from __future__ import annotations

from penstock.log.format.fold import FoldedEntry
from penstock.log.message.columns import joined
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.protocol import ObjectStore
from penstock.log.tail.entry_rows import EntryRows, entry_pieces


async def entry_rows(store: ObjectStore, paths: TopicPaths, folded: FoldedEntry, data: bytes) -> EntryRows:
    """All rows of an entry, ``data`` being its bytes, by queue and offset; see `entry_pieces` for what is lost."""
    pieces = [piece async for piece in entry_pieces(store, paths, Runtime(threads=False), folded, data)]
    table = joined([piece.table for piece in pieces]) if pieces else MESSAGE_SCHEMA.empty_table()
    if len(pieces) > 1:
        table = table.sort_by([("queue", "ascending"), ("offset", "ascending")])
    return EntryRows(table, tuple(lost for piece in pieces for lost in piece.lost))
