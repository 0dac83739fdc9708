"""A PostgreSQL's rows by logical decoding, as Debezium envelopes in a topic, exactly once.

Needs the extra ``postgres`` (psycopg) when a capture begins. See docs/0011-capturing-postgres.md.
"""

from .capture import PostgresCapture, PostgresOptions, PostgresProgress
from .errors import SlotInUse, SlotLost
from .state import PostgresStateStore, TypesStore

__all__ = [
    "PostgresCapture",
    "PostgresOptions",
    "PostgresProgress",
    "PostgresStateStore",
    "SlotInUse",
    "SlotLost",
    "TypesStore",
]
