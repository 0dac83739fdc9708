"""Following a PostgreSQL by logical decoding: its rows as Debezium envelopes in a topic, exactly once.

Needs the extra ``postgres`` (psycopg), which is imported when a capture begins. How it works: docs/0011-capturing-postgres.md.
"""

from .capture import PostgresCapture, PostgresOptions, PostgresProgress
from .errors import SlotInUse, SlotLost
from .state import StateStore, TypesStore

__all__ = [
    "PostgresCapture",
    "PostgresOptions",
    "PostgresProgress",
    "SlotInUse",
    "SlotLost",
    "StateStore",
    "TypesStore",
]
