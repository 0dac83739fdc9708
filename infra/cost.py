"""Estimates a workload's requests, storage and money, by formulas of a steady state.

The constants were fitted to counted requests of the real code in virtual time, with the latencies of S3 Standard (`tests/infra/test_cost.py`).
Opening, closing, take-overs, retries and backlogs come on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from itertools import accumulate

from ..log.errors import InvalidArgument, LimitExceeded
from ..log.limits import (
    CHECKPOINT_ENTRIES,
    ENTRY_INLINE_BYTES_MAX,
    LINGER_MAX,
    MEMORY_BYTES_MAX,
    MIB,
    QUEUES_MAX,
    WAIT_MAX,
    DurationField,
    check_count,
    field_default,
    plain,
    set_durations,
)
from ..log.produce.accumulator import ProducerOptions, linger_s
from ..log.table.compactor import FAN_IN, SPAN_MS, TARGET_BYTES
from ..log.table.delta.delta_log import ORPHAN_AGE_MS, REMOVED_KEPT_MS
from ..log.table.maintenance import MaintenanceOptions
from ..log.tail.tail import POLL_FIRST_S, POLL_MAX_S, POLL_QUIET_S, QUIET_AFTER_S

HOURS_A_MONTH = 730
SECONDS_A_MONTH = 3600 * HOURS_A_MONTH
PRICES_OF = "us-east-1, October 2026"
RATE_MAX = 10_000_000.0
RETENTION_MAX = timedelta(days=36_500)
MANY_MAX = 1_000_000

_OPERATION = "cost"
_GIB = 1024 * MIB
_GET_S = 0.028
_PUT_S = 0.030
_GROW = 1.5
"""The factor by which the wait between two looks for the next entry grows."""
_ARRIVALS = 64
_APPEND_S = 0.005
"""The time that a batch takes besides its linger."""
_CONTENDED_APPEND_S = 0.15
"""The shortest interval of a producer's batches where others append too."""
_COMBINED_ENTRIES = 10.5
_COMBINED_SCALE = 9.0
_LISTS_AN_APPEND = 2.5
_LISTS_MAX = 11.0
"""The LISTs a second of a topic with several busy producers."""
_READS_AN_ENTRY = 1.3
"""The GETs of each of several producers for each entry."""
_QUIET_S = 4.0
"""The silence after which a queue's cell is written once more."""
_TABLE_WRITE_S = 0.005
_COALESCED = 2.6
"""The time for which changes gather in a cell, in writes of it."""
_GUESSED_ENTRIES = 16
"""The entries from which a process that fell behind lists them."""
_GUESSED_IN_VAIN = 0.7
"""The vain requests for each entry found, at random intervals."""
_PUBLISH_S = 0.25
_UPKEEP_S = MaintenanceOptions().upkeep_interval.total_seconds()
_CLOCKS_A_ROUND = 5.0
_TABLE_READS_A_FILE = 1.4
_DELTA_READS_A_COMMIT = 1.6
_LOG_KEPT_S = 5400.0
"""The time that a published entry is kept: an hour for its floor, and the raising rounds."""
_LISTING_WRITES = 4
"""A manifest, a list of manifests, a version and the hint."""
_LISTING_BYTES = 13_400
"""Kept for `ORPHAN_AGE_MS`."""


class CellStorage(StrEnum):
    """The place of a lake's table of cells."""

    DYNAMODB = "dynamodb"
    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    STORE = "store"


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The work of a lake. Raises `InvalidArgument` or `LimitExceeded`."""

    messages_per_s: float
    """The messages of all topics together, which have equal shares. 0: all are idle."""
    message_bytes: int = 1000
    """The mean stored size of a message."""
    topics: int = 1
    queues: int = 16
    """The queues of each topic."""
    producers: int = 1
    """Processes that send to each topic."""
    groups: int = 1
    """The consumer groups of each topic."""
    workers: int = 1
    """The processes of each group."""
    readers: int = 0
    """Further processes that follow each topic: readers, Spark streams, syncs."""
    linger: DurationField = field_default(ProducerOptions().linger)
    publish_interval: DurationField = field_default(MaintenanceOptions().publish_interval)
    retention: DurationField = field_default(timedelta(days=3))
    cells: CellStorage = CellStorage.DYNAMODB
    maintained: bool = True
    iceberg: bool = False

    def __post_init__(self) -> None:
        _check_number("messages_per_s", self.messages_per_s, most=RATE_MAX)
        for name, least, most in (
            ("message_bytes", 1, MEMORY_BYTES_MAX),
            ("topics", 1, MANY_MAX),
            ("queues", 1, QUEUES_MAX),
            ("producers", 1, MANY_MAX),
            ("groups", 0, MANY_MAX),
            ("workers", 1, MANY_MAX),
            ("readers", 0, MANY_MAX),
        ):
            check_count(name, getattr(self, name), least=least, most=most, operation=_OPERATION)
        set_durations(self, "linger", most=LINGER_MAX, operation=_OPERATION)
        set_durations(self, "publish_interval", most=WAIT_MAX, operation=_OPERATION, above_zero=True)
        set_durations(self, "retention", most=RETENTION_MAX, operation=_OPERATION, above_zero=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """List prices of S3 Standard and of DynamoDB on demand, in USD (`PRICES_OF`). Raises `InvalidArgument`."""

    put_thousand: float = 0.005
    """A thousand PUT, POST or LIST requests. DELETE is free."""
    get_thousand: float = 0.0004
    storage_gib_month: float = 0.023
    table_write_million: float = 0.625
    """A million writes of at most 1 KiB."""
    table_read_million: float = 0.125
    """A million consistent reads of at most 4 KiB."""

    def __post_init__(self) -> None:
        for one in fields(self):
            _check_number(f"the price {one.name}", getattr(self, one.name), most=RATE_MAX)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRates:
    """Requests a second."""

    put: float = 0.0
    get: float = 0.0
    list: float = 0.0
    table_write: float = 0.0
    """Writes of cells where these are not in the bucket."""
    table_read: float = 0.0

    def __add__(self, other: RequestRates) -> RequestRates:
        return RequestRates(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})

    def __mul__(self, factor: float) -> RequestRates:
        return RequestRates(**{one.name: factor * getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True)
class CostEstimate:
    """Requests a second of each part, bytes stored in the steady state, and the money of a month."""

    producers: RequestRates
    consumers: RequestRates
    readers: RequestRates
    maintenance: RequestRates
    stored_bytes: float
    storage_usd: float

    @property
    def total(self) -> RequestRates:
        return self.producers + self.consumers + self.readers + self.maintenance


def estimate(workload: Workload, prices: Prices | None = None) -> CostEstimate:
    stored = stored_bytes(workload)
    return CostEstimate(
        producers=producer_requests(workload),
        consumers=consumer_requests(workload),
        readers=follower_requests(workload) * (workload.readers * workload.topics),
        maintenance=maintained(workload) if workload.maintained else RequestRates(),
        stored_bytes=stored,
        storage_usd=stored / _GIB * (prices or Prices()).storage_gib_month,
    )


def month_usd(requests: RequestRates, workload: Workload, prices: Prices) -> float:
    """Cells in SQLite and PostgreSQL cost nothing a request."""
    table = requests.table_write * prices.table_write_million + requests.table_read * prices.table_read_million
    return SECONDS_A_MONTH * (
        (requests.put + requests.list) * prices.put_thousand / 1e3
        + requests.get * prices.get_thousand / 1e3
        + (table / 1e6 if workload.cells is CellStorage.DYNAMODB else 0.0)
    )


# --- The log of one topic -----------------------------------------------------------------------------------------------------------


def batches_per_s(workload: Workload) -> float:
    """The batches a second of all producers of one topic."""
    rate = workload.messages_per_s / workload.topics / workload.producers
    if not rate:
        return 0.0
    full_s = ProducerOptions().batch_bytes / (rate * workload.message_bytes)
    interval_s = max(min(_linger_s(workload) + 1 / rate, full_s), 1 / rate) + _APPEND_S
    return workload.producers / max(interval_s, _PUT_S if workload.producers == 1 else _CONTENDED_APPEND_S)


def _linger_s(workload: Workload) -> float:
    bytes_per_s = workload.messages_per_s / workload.topics / workload.producers * workload.message_bytes
    return linger_s(ProducerOptions(linger=workload.linger), bytes_per_s)


def entries_per_s(workload: Workload) -> float:
    """The entries a second of one topic. Batches of several producers are combined."""
    batches = batches_per_s(workload)
    if workload.producers == 1:
        return batches
    return _COMBINED_ENTRIES * (1 - math.exp(-batches / _COMBINED_SCALE))


def producer_requests(workload: Workload) -> RequestRates:
    batches, entries = batches_per_s(workload), entries_per_s(workload)
    checkpoints = entries / CHECKPOINT_ENTRIES
    put, get, lists = entries * (1 + _staged(workload)) + checkpoints, 0.0, checkpoints
    if workload.producers > 1:
        put += batches * (1 - 1 / workload.producers)
        get += _READS_AN_ENTRY * workload.producers * entries
        lists += min(_LISTS_AN_APPEND * batches, _LISTS_MAX)
    return RequestRates(put=put, get=get, list=lists) * workload.topics


def follower_requests(workload: Workload) -> RequestRates:
    """The requests of one process that follows one topic's log."""
    entries = entries_per_s(workload)
    if not entries:
        return RequestRates(get=1 / POLL_QUIET_S)
    return RequestRates(get=lookups_per_entry(list(_intervals(workload))) * entries + entries * _staged(workload))


def lookups_per_entry(intervals_s: list[float]) -> float:
    """The looks per entry of a process that follows entries at these intervals."""
    now_s, count = 0.0, 0
    for due_s in accumulate(intervals_s):
        wait_s, quiet_since_s = POLL_FIRST_S, now_s
        while True:
            count += 1
            now_s += _GET_S
            if now_s - _GET_S / 2 >= due_s:
                break
            now_s += wait_s
            longest_s = POLL_QUIET_S if now_s - quiet_since_s > QUIET_AFTER_S else POLL_MAX_S
            wait_s = min(_GROW * wait_s, longest_s)
    return count / len(intervals_s)


def _intervals(workload: Workload) -> Iterator[float]:
    mean_s = 1 / entries_per_s(workload)
    least_s = (1 - _chance(workload)) * mean_s
    for number in range(1, _ARRIVALS + 1):
        # Van der Corput's sequence: even, and without order.
        share = sum(int(bit) / 2 ** (place + 1) for place, bit in enumerate(reversed(f"{number:b}")))
        yield least_s - math.log(1 - share) * (mean_s - least_s)


def _chance(workload: Workload) -> float:
    """The part of the interval between entries that is chance."""
    if workload.producers > 1:
        return 1.0
    mean_s = 1 / entries_per_s(workload)
    return 1 - min(_linger_s(workload) + _APPEND_S, mean_s) / mean_s


def _staged(workload: Workload) -> float:
    """The objects beside each entry with its rows; small entries, and a lone producer's, have none."""
    entries = entries_per_s(workload)
    if not entries or workload.producers == 1:
        return 0.0
    return 1.0 if workload.messages_per_s / workload.topics * workload.message_bytes / entries > ENTRY_INLINE_BYTES_MAX else 0.0


# --- Groups -------------------------------------------------------------------------------------------------------------------------


def consumer_requests(workload: Workload) -> RequestRates:
    groups = workload.groups * workload.topics
    cells = _worker(workload) * (workload.workers * groups) + _cells(workload, write=cell_writes_per_s(workload)) * groups
    return follower_requests(workload) * (workload.workers * groups) + cells


def cell_writes_per_s(workload: Workload) -> float:
    """The writes of the cells of one group on one topic: before the handlers, after them, and in silence."""
    entries = entries_per_s(workload)
    if not entries:
        return 0.0
    per_queue = workload.messages_per_s / workload.topics / workload.queues
    arrivals = entries * -math.expm1(-per_queue / entries)
    write_s = _PUT_S if workload.cells is CellStorage.STORE else _TABLE_WRITE_S
    return workload.queues * arrivals * (2 + math.exp(-_QUIET_S * per_queue)) / (1 + _COALESCED * arrivals * write_s)


def _worker(workload: Workload) -> RequestRates:
    others = workload.workers - 1
    reads = 0.2 + 0.14 * others if workload.cells is CellStorage.STORE else 0.6 + 0.18 * others
    return _cells(workload, write=0.05, read=reads)


def _cells(workload: Workload, *, write: float = 0.0, read: float = 0.0) -> RequestRates:
    """Requests for cells, which are the store's where they lie there."""
    if workload.cells is CellStorage.STORE:
        return RequestRates(put=write, get=read)
    return RequestRates(table_write=write, table_read=read)


# --- Maintenance --------------------------------------------------------------------------------------------------------------------


def maintained(workload: Workload) -> RequestRates:
    lake = RequestRates(put=0.005, get=0.02, list=0.018) + _cells(workload, write=0.05, read=0.66)
    return lake + _maintained_topic(workload) * workload.topics


def _maintained_topic(workload: Workload) -> RequestRates:
    quiet_s = MaintenanceOptions().quiet_interval.total_seconds()
    looks_at_settings = 0.033
    entries = entries_per_s(workload)
    if not entries:
        return RequestRates(get=2 / quiet_s + looks_at_settings)
    round_s, publications = _publications(workload)
    entries_a_round = entries * round_s
    guessed = 1 + _GUESSED_IN_VAIN * _chance(workload)
    lists = publications if guessed * entries_a_round > _GUESSED_ENTRIES else 0.0
    reads = entries * ((1 if lists else guessed) + _staged(workload)) + publications
    files, merged, commits = _table_writes(workload)
    listings = commits if workload.iceberg else 0.0
    upkeep = min(1 / _UPKEEP_S, entries)
    clocks = _CLOCKS_A_ROUND * upkeep
    in_vain = 2 / quiet_s * (1 - publications * round_s)
    return RequestRates(
        put=files + merged + commits + _LISTING_WRITES * listings + clocks + upkeep,
        get=reads
        + _TABLE_READS_A_FILE * files
        + _DELTA_READS_A_COMMIT * commits
        + listings
        + clocks
        + 2 * upkeep
        + looks_at_settings
        + in_vain,
        list=lists + 2 * upkeep,
    )


def _publications(workload: Workload) -> tuple[float, float]:
    """The length of a round of publishing one topic, and the publications a second."""
    round_s = workload.publish_interval.total_seconds() + _PUBLISH_S
    return round_s, min(1 / round_s, entries_per_s(workload))


def _table_writes(workload: Workload) -> tuple[float, float, float]:
    """The files a second of one topic's publications, of their merging, and the commits of both."""
    round_s, publications = _publications(workload)
    files = publications * _queues_a_publication(workload, publications)
    merged = files / (FAN_IN - 1) if round_s < FAN_IN * _UPKEEP_S else 0.0
    return files, merged, publications + min(merged, 1 / _UPKEEP_S)


def _queues_a_publication(workload: Workload, publications: float) -> float:
    messages = workload.messages_per_s / workload.topics / publications
    return workload.queues * -math.expm1(-messages / workload.queues)


def stored_bytes(workload: Workload) -> float:
    """The bytes in the bucket in the steady state."""
    bytes_per_s = workload.messages_per_s * workload.message_bytes
    kept_s = workload.retention.total_seconds()
    if not workload.maintained or not bytes_per_s:
        return bytes_per_s * kept_s
    per_queue = bytes_per_s / workload.topics / workload.queues
    first = max(per_queue * (workload.publish_interval.total_seconds() + _PUBLISH_S), workload.message_bytes)
    largest = max(first, min(TARGET_BYTES / 2, per_queue * SPAN_MS / 1e3))
    merges = math.ceil(math.log(largest / first, FAN_IN))
    listings = workload.topics * _table_writes(workload)[2] * ORPHAN_AGE_MS / 1e3 if workload.iceberg else 0.0
    return bytes_per_s * (kept_s + merges * min(REMOVED_KEPT_MS / 1e3, kept_s) + _LOG_KEPT_S) + listings * _LISTING_BYTES


# --- Input --------------------------------------------------------------------------------------------------------------------------


def _check_number(name: str, value: object, *, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InvalidArgument(f"{name} must be a number, not negative", operation=_OPERATION, observed=plain(value))
    if value > most:
        raise LimitExceeded(f"{name} is too much", operation=_OPERATION, expected=f"at most {most:,.0f}", observed=plain(value))
