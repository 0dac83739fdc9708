"""Transactions of two phases (XA): the log has their rows at the preparation, and they count at the commit; pure.

Rows of a prepared transaction are held here. Of an earlier process's, or of too many, only the tables are known, and read again
at the commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..capture.records import ChangeRecord

HELD_BYTES_MAX = 16 * 1024 * 1024

Noted = tuple[tuple[str, tuple[str, ...]], ...]
"""The prepared transactions and their rows' tables, in the state."""


@dataclass(slots=True)
class _Transaction:
    records: list[ChangeRecord] | None = field(default_factory=list)
    """None: an earlier process's, or too many."""
    tables: dict[str, None] = field(default_factory=dict)
    ended_at: int | None = None


class PreparedTransactions:
    """Prepared transactions that may not be over."""

    def __init__(self, noted: Noted = ()) -> None:
        self._all = {xid: _Transaction(None, dict.fromkeys(tables)) for xid, tables in noted}
        self._open: _Transaction | None = None
        self._bytes = 0

    def begin(self) -> None:
        self._open = _Transaction()

    def take(self, record: ChangeRecord) -> bool:
        """Hold a row back, if it belongs to such a transaction, and return whether it does."""
        transaction = self._open
        if transaction is None:
            return False
        transaction.tables[record.table] = None
        if transaction.records is not None:
            self._bytes += len(record.body)
            transaction.records.append(record)
            if self._bytes > HELD_BYTES_MAX:
                self._let_go(transaction)
        return True

    def prepared(self, xid: str) -> None:
        if self._open is not None:  # a log may be read from behind its beginning
            self._forget(xid)
            self._all[xid], self._open = self._open, None

    def rolled_back(self, xid: str, number: int) -> None:
        """``number``: of the place."""
        if (transaction := self._all.get(xid)) is not None:
            self._let_go(transaction)
            transaction.tables.clear()
            transaction.ended_at = number

    def committed(self, xid: str, number: int) -> tuple[list[ChangeRecord], tuple[str, ...]] | None:
        """Its rows; or none, and the tables to read again. None: its changes are unknown. ``number``: of the place."""
        transaction = self._all.get(xid)
        if transaction is None:
            return None
        records, tables = transaction.records, tuple(transaction.tables)
        self._let_go(transaction)
        transaction.ended_at = number
        return ([], tables) if records is None else (records, ())

    def noted(self, offset: int) -> Noted:
        """The state's entry for a restart at a place. Transactions over before it are forgotten."""
        over = [xid for xid, transaction in self._all.items() if transaction.ended_at is not None and transaction.ended_at < offset]
        for xid in over:
            self._forget(xid)
        return tuple((xid, tuple(transaction.tables)) for xid, transaction in self._all.items())

    def _forget(self, xid: str) -> None:
        if (transaction := self._all.pop(xid, None)) is not None:
            self._let_go(transaction)

    def _let_go(self, transaction: _Transaction) -> None:
        self._bytes -= sum(len(record.body) for record in transaction.records or ())
        transaction.records = None
