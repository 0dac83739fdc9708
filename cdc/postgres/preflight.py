"""The read-only checks of a database before its capture."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...log.errors import InvalidArgument, PenstockError
from .catalog import Catalog
from .catalog_tables import Name
from .errors import slot_lost
from .state import PostgresState
from .tables import quoted

if TYPE_CHECKING:
    from .capture import PostgresOptions

log = logging.getLogger("penstock.cdc")


class CapturePreflight:
    """A database that can be captured, as found by the checks."""

    def __init__(self, catalog: Catalog, options: PostgresOptions) -> None:
        """Check, read only. Raises what prevents the capture, with a remedy.

        Once a slot exists, one table's problem does not: see `check_new`.
        """
        catalog.check_server()
        self._options = options
        self.system, self.database = catalog.identity()
        published = catalog.published(options.publication)
        self.slot = catalog.slot(options.slot)
        if published is None and self.slot is not None and options.snapshot != "again":
            raise InvalidArgument(
                "the slot is older than the publication, and cannot tell of it",
                operation="capture",
                object=options.slot,
                expected=f"a publication {options.publication}",
                hint="name the publication it was made for; or begin again with a new snapshot of the tables (--snapshot again); or drop the slot:"
                f" SELECT pg_drop_replication_slot('{options.slot}')",
            )
        if self.slot is not None and self.slot.is_lost and options.snapshot != "again":
            raise slot_lost(options.slot, "wal_status = lost (see max_slot_wal_keep_size)")
        chosen = catalog.choose(options.tables or published or (), options.publication)
        self.tables, self.problems, self.missing = chosen.tables, chosen.problems, chosen.missing
        if self.slot is None:
            self.check_new(None)
        if options.typed and len(self.tables) != 1:
            raise InvalidArgument(
                "a typed topic has the changes of one table",
                operation="capture",
                expected="one table: --table schema.table",
                observed=", ".join(table.qualified for table in self.tables[:10]) or "none",
                hint="run a capture for each table, with a slot, a publication and a topic of its own",
            )
        named = {table.named for table in self.tables}
        self.unpublished = [table for table in self.tables if table.named not in (published or ())]
        self.has_publication = published is not None
        if self.has_publication and (split := [table for table in self.unpublished if table.partitioned]):
            catalog.check_roots(options.publication, split[0])
        self._are_named = bool(options.tables)
        self._named = named if self._are_named else set[Name]()
        if also := [
            name for name in published or () if name not in named
        ]:  # the stream tells of them whether they were named or not
            others = catalog.choose(also, options.publication)
            self.tables += others.tables
            self.problems |= others.problems
            if self.slot is None:
                self.check_new(None)

    def check_new(self, state: PostgresState | None) -> None:
        """Raise for a named, unknown table that cannot be captured. Other tables stop alone, and names without a table are
        skipped.
        """
        known = set[Name]() if state is None else {table.named for table in state.tables}
        known_as = set[str]() if state is None else {table.qualified for table in state.tables}
        known_as |= {".".join(map(quoted, named)) for named in known}
        for name, missing in self.missing.items():
            if name in known_as:
                continue
            if not known or self._are_named:
                raise missing
            # A partition, say, whose table is not published.
            log.warning("%s is published, and not captured: %s", name, reason_of(missing))
        for named, problem in self.problems.items():
            if named not in known and ".".join(named) not in known_as and (state is None or not known or named in self._named):
                raise problem

    @property
    def wanted(self) -> dict[Name, str | None]:
        """The tables to capture, with the reason why one cannot be read."""
        return {table.named: None if (why := self.problems.get(table.named)) is None else reason_of(why) for table in self.tables}


def reason_of(error: PenstockError) -> str:
    observed = "" if error.observed is None else f" ({error.observed})"
    hint = "" if error.hint is None else f"; {error.hint}"
    return f"{error.message}{observed}{hint}"
