"""The tables of a running capture: whose changes are taken, and the catalogue's check before a place is named."""

from __future__ import annotations

import logging
from dataclasses import replace

from .catalog import Catalog
from .catalog_tables import TableChange, change_since, is_new_to_capture
from .pgoutput import Relation
from .state import CapturedTable, PostgresState, PostgresStateStore

log = logging.getLogger("penstock.cdc")


class CapturedTables:
    """The state of a capture in its stream. Changes of a table without `CapturedTable.is_read` are skipped: its rows are read
    later.
    """

    def __init__(self, catalog: Catalog, states: PostgresStateStore, publication: str) -> None:
        self._catalog, self._states, self._publication = catalog, states, publication
        self.state: PostgresState | None = None
        self.has_changed = False
        self._met: set[int] = set()

    @property
    def known(self) -> PostgresState:
        assert self.state is not None, "it is looked at first"
        return self.state

    def keep(self, state: PostgresState) -> None:
        if state != self.state:
            self._states.save(state)
        self.state = state

    def entry(self, named: tuple[str, str]) -> CapturedTable:
        return next(table for table in self.known.tables if table.named == named)

    def replace(self, entry: CapturedTable, by: CapturedTable) -> None:
        """Store a table's new entry; a chunk of its rows is over."""
        state = self.known
        tables = tuple(by if table.named == entry.named else table for table in state.tables)
        chunk = None if state.chunk is not None and state.chunk.oid == entry.oid else state.chunk
        self.keep(replace(state, tables=tables, chunk=chunk))

    # --- The stream -------------------------------------------------------------------------------------------------------------

    def key_of(self, relation: Relation) -> tuple[str, ...] | None:
        """The key's columns of a relation; None: its changes are not taken."""
        entry = self._followed(relation.oid)
        if entry is None or entry.named != (relation.schema, relation.table):
            return None
        names = [column.name for column in relation.columns]
        if relation.identity != "f":
            key = tuple(column.name for column in relation.columns if column.is_key)
        else:  # which columns are unique, the stream does not tell; the index that was there before and is there now was there all the time
            now = self._catalog.lives(self._publication, [relation.oid])
            key = now[0].key if now and now[0].index == entry.index else ()
        return key if key and {*key} <= {*names} else None

    def passed_over(self, relation: Relation) -> None:
        """Note a skipped change. If its table was followed, the state first notes that its rows are to be read again."""
        entry = self._followed(relation.oid)
        if entry is None:
            known = any(table.oid == relation.oid for table in self.known.tables)
            self.has_changed |= not known and relation.oid not in self._met
            self._met.add(relation.oid)
            return
        log.warning("%s is read again: its changes were told by another name, or without its key", entry.qualified)
        self.replace(entry, replace(entry, is_read=False, is_told=True))
        self.has_changed = True

    def _followed(self, oid: int) -> CapturedTable | None:
        chunk = self.known.chunk
        for entry in self.known.tables:
            if entry.oid == oid and entry.held is None and (entry.is_read or (chunk is not None and chunk.oid == oid)):
                return entry
        return None

    # --- The catalogue ----------------------------------------------------------------------------------------------------------

    def are_as_known(self, *, of_all: bool = False) -> bool:
        """Whether the followed tables are unchanged in the catalogue, by all transactions in the log so far; otherwise they
        have to be checked again. ``of_all``: and no new one is there.
        """
        entries = {entry.oid: entry for entry in self.known.tables if entry.held is None}
        oids = [*entries, *(oid for entry in entries.values() for oid, *_ in entry.leaves)]
        if not of_all and self._catalog.is_locked(oids):
            return False  # who renames, drops or empties a table lets go of it only once everybody sees that
        lives = self._catalog.lives(self._publication, None if of_all else list(entries))
        same = sum(life.oid in entries and change_since(entries[life.oid], life) is TableChange.SAME for life in lives)
        held = {entry.oid: entry for entry in self.known.tables if entry.held is not None}
        new = any(life.oid not in entries and is_new_to_capture(held.get(life.oid), life) for life in lives)
        self.has_changed |= same < len(entries) or (of_all and new)
        return not self.has_changed
