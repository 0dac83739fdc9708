"""The objects of a lake that each kind of process reads, writes and deletes, for all policies. Pure.

Keys are relative to the lake; ``*`` stands for any text.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import fnmatchcase

from ...cdc.capture.state import KINDS
from ...cdc.events.table_types import CAPTURES, types_folder
from ...cdc.sync.record import SYNCS, sync_group
from ...coordinator.cells.keys import (
    ACCESS as PRINCIPALS,
)
from ...coordinator.cells.keys import (
    FAILURES,
    GATEWAYS,
    GROUPS,
    KAFKA_GATEWAYS,
    MEMBERS,
    PLAYERS,
    PRODUCER_GROUPS,
    PRODUCERS,
    QUEUES,
    REDRIVES,
    ROLES,
    TABLE,
    TIMERS,
    TRANSACTIONS,
    WORKERS,
    players_key,
)
from ...coordinator.registry.spill_objects import WAITING
from ...coordinator.tables.objectstore import FOLDER as CELLS
from ...coordinator.timers.role import TIMERS as TIMERS_ROLE
from ...coordinator.transactions.checking.check_back_role import CHECKS
from ...log.paths import DLQ_PREFIX, TOPICS, TopicPaths, dead_letter_topic, group_folder, timer_log_name, topic_folder
from ...log.stage.jobs import TRANSACTION_JOBS
from ...log.table.delta.delta_log import CHECKPOINT, COMMIT, DELTA_LOG, LAST_CHECKPOINT
from ...log.table.iceberg.names import HINT, MANIFEST, METADATA, VERSION

ANY = "*"
_PROBE, _CLOCK, _DOCTOR = ".probe/", ".clock/", ".doctor/"


class ProcessRole(StrEnum):
    """A kind of process. A process of two kinds gets both."""

    READER = "reader"
    """Reads topics and tables, and looks at groups."""
    PRODUCER = "producer"
    """Sends to existing topics."""
    TRANSACTIONS = "transactions"
    """Sends in transactions to existing topics, and answers for its producer groups. A process that settles messages in them is a consumer too."""
    CONSUMER = "consumer"
    """Reads topics, keeps a group's place, and writes its dead letters."""
    GATEWAY = "gateway"
    """Knows its clients' principals and the other gateways, and begins a young topic's timers. Its work for clients needs the roles producer,
    transactions and consumer.
    """
    CAPTURE = "capture"
    """Follows a database into topics, which it may create, and keeps its progress."""
    SYNC = "sync"
    """Reads topics for Delta tables, which need a policy of their own. Keeps its lease and progress."""
    MAINTENANCE = "maintenance"
    """Publishes, compacts, expires, trims, collects, and finishes transactions. It is also the operators' role: creates, changes, repairs and
    deletes topics and groups.
    """


@dataclass(frozen=True, slots=True)
class KeyPatterns:
    """Patterns of keys, by what may be done to them."""

    get: tuple[str, ...] = ()
    create: tuple[str, ...] = ()
    """Keys that may be put where there is nothing, and never in parts."""
    put: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    """Keys that may be listed or looked for: all that may be read, as S3 answers 403 instead of 404 to others."""

    def __or__(self, other: KeyPatterns) -> KeyPatterns:
        return KeyPatterns(*(_joined((*getattr(self, f.name), *getattr(other, f.name))) for f in fields(self)))


def _joined(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Each pattern once, and none that another one includes."""
    distinct = tuple(dict.fromkeys(patterns))
    return tuple(one for one in distinct if not any(other != one and fnmatchcase(one, other) for other in distinct))


def topic_access(role: ProcessRole, topics: Sequence[str] = (), groups: Sequence[str] = ()) -> KeyPatterns:
    """The access of a role below ``topics/``, to the probe's objects, and to the record of the lake's table. ``groups``: the consumer groups whose
    dead letters it writes; empty: all. Raises `InvalidArgument`.
    """
    worked_on = [_paths(topic_folder(name)) for name in topics] or [_paths(ANY)]
    found = _of_topics(role, worked_on, groups) | _of_timers(role, topics) | _of_spills(role, topics, groups) | _of_tables(role)
    # Only a process that works on all topics lists them.
    return found if topics else found | KeyPatterns(list=(TOPICS,))


def _of_topics(role: ProcessRole, worked_on: Sequence[TopicPaths], groups: Sequence[str]) -> KeyPatterns:
    match role:
        case ProcessRole.READER:
            return _united(_read(paths) for paths in worked_on)
        case ProcessRole.PRODUCER:
            # What is linked after the topic got more queues is read and staged anew; the record of a job that turns out to have no rows is deleted.
            staged = KeyPatterns(
                get=tuple(paths.jobs + ANY for paths in worked_on), delete=tuple(paths.job_record(ANY) for paths in worked_on)
            )
            return _united(_append(paths) for paths in worked_on) | staged | _TRIALS
        case ProcessRole.TRANSACTIONS:
            return _united(_link_transactions(paths) for paths in worked_on) | _TRIALS
        case ProcessRole.CONSUMER:
            dead = [_paths(_dlq_folder(group)) for group in groups] or [_paths(_ALL_DLQ_FOLDERS)]
            # The first dead letter creates the topic. Dead letters of an owner that died are looked up before they are written.
            letters = (_read(paths) | _append(paths) | KeyPatterns(put=(paths.settings,)) for paths in dead)
            # The record of redriven letters is in the lake, wherever the other cells are.
            redrives = tuple(f"{CELLS}{REDRIVES}{group}/{ANY}" for group in _parts(groups))
            remembered = _looked_up(*redrives) | KeyPatterns(put=redrives)
            return _united(_read(paths) for paths in worked_on) | _united(letters) | remembered | _TRIALS
        case ProcessRole.GATEWAY:
            return _TRIALS
        case ProcessRole.CAPTURE:
            states = tuple(f"{CAPTURES}{paths.topic}/{ANY}" for paths in worked_on)
            signals = tuple(f"{CAPTURES}{paths.topic}/{kind}/{ANY}/signals/{ANY}" for paths in worked_on for kind in KINDS)
            made = KeyPatterns(put=(*(paths.settings for paths in worked_on), *states), delete=signals)
            return _united(_append(paths) for paths in worked_on) | _looked_up(*states) | made | _TRIALS
        case ProcessRole.SYNC:  # tries the store out before its cells are written there
            types = tuple(f"{types_folder(paths.topic)}{ANY}" for paths in worked_on)
            return _united(_read(paths) for paths in worked_on) | _looked_up(*types) | _TRIALS
        case ProcessRole.MAINTENANCE:
            return _united(_keep_up(paths) for paths in worked_on) | _TRIALS


def _of_timers(role: ProcessRole, topics: Sequence[str]) -> KeyPatterns:
    timed = [name for name in topics if not name.startswith(DLQ_PREFIX)]
    if topics and not timed:
        return KeyPatterns()
    logs = [_paths(topic_folder(timer_log_name(name))) for name in timed] or [_paths(_ALL_TIMER_FOLDERS)]
    folders = [f"{TIMERS}{topic_folder(name)}/{ANY}" for name in timed] or [TIMERS + ANY]
    # The timers' progress is kept in the lake, wherever the other cells are.
    cells = tuple(CELLS + folder for folder in folders)
    listed = _united(_read(paths) for paths in logs) | _looked_up(*folders, *cells)
    match role:
        case ProcessRole.READER:
            return listed
        case ProcessRole.PRODUCER:  # a sender may recall
            return _united(_append(paths) for paths in logs) | listed | KeyPatterns(put=cells)
        case ProcessRole.MAINTENANCE:
            # Due messages are appended to the topic itself, staged if there are many.
            let_go = _united(_append(_paths(topic_folder(name))) for name in timed) if timed else _append(_paths(ANY))
            kept = _united(_keep_up(paths) for paths in logs)
            return kept | let_go | listed | KeyPatterns(put=(*cells, *folders), delete=tuple(folders))
    return KeyPatterns()


def _of_spills(role: ProcessRole, topics: Sequence[str], groups: Sequence[str]) -> KeyPatterns:
    folders = [topic_folder(name) for name in topics] or [ANY]
    of_groups = tuple(f"{WAITING}{folder}/{group}/{ANY}" for folder in folders for group in _parts(groups))
    # Maintenance looks below every topic, timer logs too.
    logs = [topic_folder(timer_log_name(name)) for name in topics if not name.startswith(DLQ_PREFIX)]
    of_topics = tuple(f"{WAITING}{folder}/{ANY}" for folder in (*folders, *logs))
    match role:
        case ProcessRole.READER:
            return _looked_up(*of_topics)
        case ProcessRole.CONSUMER:
            return _looked_up(*of_groups) | KeyPatterns(create=of_groups, delete=of_groups)
        case ProcessRole.MAINTENANCE:
            return _looked_up(*of_topics) | KeyPatterns(delete=of_topics)
    return KeyPatterns()


def _of_tables(role: ProcessRole) -> KeyPatterns:
    """The record of the lake's table of cells is in the lake, wherever the cells are. Who uses cells compares it, and the first writer makes it."""
    cells, record = cell_access(role), CELLS + TABLE
    return (_looked_up(record) if cells.get else KeyPatterns()) | (KeyPatterns(put=(record,)) if cells.put else KeyPatterns())


def cell_access(role: ProcessRole, topics: Sequence[str] = (), groups: Sequence[str] = ()) -> KeyPatterns:
    """The access to cells, by their keys in the coordination table. Only syncs are narrowed to ``topics``, and consumers to ``groups``."""
    match role:
        case ProcessRole.READER:
            gateways = (GATEWAYS, KAFKA_GATEWAYS)
            return _looked_up(
                *_WORKER_CELLS, *_group_cells(ANY), ROLES + ANY, SYNCS + ANY, PRODUCER_GROUPS, *_TRANSACTION_CELLS, *gateways
            )
        case ProcessRole.PRODUCER | ProcessRole.CAPTURE:
            return KeyPatterns()
        case ProcessRole.SYNC:
            folders = [topic_folder(name) for name in topics] or [ANY]
            leases = [f"{ROLES}{folder}/{sync_group(ANY)}" for folder in folders]
            records = [f"{SYNCS}{folder}/{ANY}" for folder in folders]
            written = (*_WORKER_CELLS, *leases, *records, GROUPS + sync_group(ANY))
            return _looked_up(*written) | KeyPatterns(put=written, delete=_WORKER_CELLS)
        case ProcessRole.TRANSACTIONS:
            # Members have random names, so nothing tells those of one producer group from another's.
            checks = (f"{ROLES}{ANY}/{CHECKS}", players_key(CHECKS))
            written = (*_WORKER_CELLS, *checks, PRODUCER_GROUPS, *_TRANSACTION_CELLS)
            return _looked_up(*written) | KeyPatterns(put=written, delete=_WORKER_CELLS)
        case ProcessRole.CONSUMER:
            own = [pattern for group in _parts(groups) for pattern in _group_cells(group)]
            return _looked_up(*_WORKER_CELLS, *own) | KeyPatterns(put=(*_WORKER_CELLS, *own), delete=_WORKER_CELLS)
        case ProcessRole.GATEWAY:
            # It lets go the first messages of a topic of type DELAY, until who maintains the lake knows of the topic.
            stands_in = (*_WORKER_CELLS, f"{ROLES}{ANY}/{TIMERS_ROLE}", players_key(TIMERS_ROLE))
            return _looked_up(PRINCIPALS, GATEWAYS, *stands_in) | KeyPatterns(put=(GATEWAYS, *stands_in), delete=_WORKER_CELLS)
        case ProcessRole.MAINTENANCE:
            # Operators write only a group's record; the owners of the queues carry its orders out. Where a transaction settles messages of
            # a queue that nobody owns any more, the process that finishes it ends the deliveries in the queue's cell.
            roles = (ROLES + ANY, PLAYERS + ANY)
            # Operators write the principals of gateways.
            written = (
                *_WORKER_CELLS,
                GROUPS + ANY,
                f"{QUEUES}{ANY}/{ANY}",
                *roles,
                PRODUCER_GROUPS,
                *_TRANSACTION_CELLS,
                PRINCIPALS,
            )
            read = _looked_up(
                *_WORKER_CELLS,
                *_group_cells(ANY),
                *roles,
                PRODUCER_GROUPS,
                *_TRANSACTION_CELLS,
                PRINCIPALS,
                GATEWAYS,
                KAFKA_GATEWAYS,
            )
            # The metrics of all groups list the cells, to read only those that changed.
            return read | KeyPatterns(put=written, delete=(*_WORKER_CELLS, TRANSACTIONS + ANY), list=(QUEUES + ANY,))


def as_objects(cells: KeyPatterns) -> KeyPatterns:
    """The same access to cells in the lake, deleted by writing them empty."""
    inside = KeyPatterns(*(tuple(CELLS + pattern for pattern in getattr(cells, f.name)) for f in fields(cells)))
    return KeyPatterns(get=inside.get, list=inside.list) | KeyPatterns(put=(*inside.put, *inside.delete))


_WORKER_CELLS = (WORKERS + ANY,)
"""Heartbeats; a worker that leaves in order deletes its own."""


_TRANSACTION_CELLS = (PRODUCERS + ANY, TRANSACTIONS + ANY)


def _parts(groups: Sequence[str]) -> Sequence[str]:
    """The parts of keys that stand for these groups, or for any."""
    return list(map(group_folder, groups)) or [ANY]


def _group_cells(group: str) -> tuple[str, ...]:
    """``group``: its part of the keys."""
    return GROUPS + group, *(f"{prefix}{group}/{ANY}" for prefix in (QUEUES, FAILURES, MEMBERS))


def _paths(folder: str) -> TopicPaths:
    return TopicPaths(folder, f"{TOPICS}{folder}/")


def _tables(paths: TopicPaths) -> str:
    """The tables of all lives of the topic: ``table``, ``table-<entry>``."""
    return paths.table("table" + ANY) + ANY


def _looked_up(*patterns: str) -> KeyPatterns:
    return KeyPatterns(get=patterns, list=patterns)


def _grown(paths: TopicPaths) -> tuple[str, ...]:
    return paths.log + ANY + ".parquet", paths.checkpoints + ANY


def _fold(paths: TopicPaths) -> KeyPatterns:
    """The log, and handed-over batches, which any appender links."""
    return _looked_up(paths.settings, paths.log + ANY, paths.handed + ANY)


def _read(paths: TopicPaths) -> KeyPatterns:
    return _fold(paths) | _looked_up(paths.jobs + ANY, _tables(paths))


def _append(paths: TopicPaths) -> KeyPatterns:
    return _fold(paths) | KeyPatterns(create=_grown(paths), put=(paths.handed + ANY, paths.jobs + ANY))


def _link_transactions(paths: TopicPaths) -> KeyPatterns:
    """The access for appending, with half messages in place of other uploads."""
    half = (paths.jobs + TRANSACTION_JOBS + ANY,)
    return _fold(paths) | _looked_up(*half) | KeyPatterns(create=_grown(paths), put=(paths.handed + ANY, *half), delete=half)


def _keep_up(paths: TopicPaths) -> KeyPatterns:
    tables = paths.table("table" + ANY)
    delta, iceberg = tables + DELTA_LOG + ANY, tables + METADATA
    versions = (delta + COMMIT, delta + CHECKPOINT, iceberg + "v" + ANY + VERSION)
    files = (tables + "queue=" + ANY, iceberg + ANY + MANIFEST)
    written = (paths.settings, paths.floor, *files, tables + LAST_CHECKPOINT, tables + HINT)
    dropped = (paths.log + ANY, paths.handed + ANY, paths.jobs + ANY, _tables(paths))
    return _read(paths) | KeyPatterns(create=(*_grown(paths), *versions), put=written, delete=dropped, list=(paths.root,))


_TRIAL_KEYS = (_PROBE + ANY, _CLOCK + ANY, _DOCTOR + ANY)
_TRIALS = KeyPatterns(get=_TRIAL_KEYS, put=_TRIAL_KEYS, delete=_TRIAL_KEYS, list=_TRIAL_KEYS)


def _united(parts: Iterable[KeyPatterns]) -> KeyPatterns:
    return functools.reduce(operator.or_, parts)


_ALL_TIMER_FOLDERS = topic_folder(timer_log_name("x")).removesuffix("x") + ANY


def _dlq_folder(group: str) -> str:
    return topic_folder(dead_letter_topic(group))


_ALL_DLQ_FOLDERS = _dlq_folder("x").removesuffix("x") + ANY
