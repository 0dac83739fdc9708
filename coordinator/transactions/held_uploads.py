"""The uploads of transactions that the collector must leave alone."""

from __future__ import annotations

from collections.abc import Collection

from ...log.errors import InvalidArgument
from ..cells.cells import Cells
from ..cells.keys import transactions_key
from .ids import member_of, transaction_of
from .members.codec import decode_member


async def held_jobs(cells: Cells, jobs: Collection[str]) -> frozenset[str]:
    """The uploads, of these, of open and committed transactions, which the collector must leave alone. Raises what the table raises, and
    `DataDamaged`.
    """
    by_member: dict[str, dict[str, str]] = {}
    for job in sorted(jobs):
        try:
            transaction = transaction_of(job) or ""
            by_member.setdefault(member_of(transaction), {})[transaction] = job
        except InvalidArgument:
            continue  # not a name that Penstock gives
    held: set[str] = set()
    for member, of_member in by_member.items():
        key = transactions_key(member)
        stored = await cells.read(key)
        if stored is not None:
            cell = decode_member(stored.data, where=key)
            held.update(job for transaction, job in of_member.items() if cell.holds(transaction))
    return frozenset(held)
