"""The routings of topics; they need no Arrow."""

from enum import StrEnum
from typing import Literal, TypeAlias


class Routing(StrEnum):
    """The hash by which a topic finds the queue of a message group."""

    XXHASH64 = "xxhash64"
    """Spark SQL's: XXH64 with seed 42."""
    MURMUR2 = "murmur2"
    """Kafka's Java client's, and that of others with its default partitioner."""
    CRC32 = "crc32"
    """librdkafka's ``consistent`` and ``consistent_random``."""


RoutingLike: TypeAlias = "Routing | Literal['xxhash64', 'murmur2', 'crc32']"
"""A routing as callers may give it."""
