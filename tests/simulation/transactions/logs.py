"""The logs of a run's topics, from every entry that ever was: which message lies where, brought by which entry, and when that landed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.log.format.entry import read_header
from penstock.log.format.fold import FoldedEntry, VoidReason, fold
from penstock.log.format.header import Created, Deleted
from penstock.log.format.state import TopicState
from penstock.log.paths import TopicPaths
from tests.rows import entry_rows
from tests.simulation.log.history import Archive, Past
from tests.simulation.process import EPOCH_MS


@dataclass(frozen=True, slots=True)
class Row:
    """A message in a topic's log."""

    life: int
    queue: int
    offset: int
    entry: int
    landed_s: float
    """When its entry came to be."""
    job: str | None
    """Whose upload it was staged in."""


@dataclass(slots=True)
class TopicLog:
    """One topic's."""

    paths: TopicPaths
    state: TopicState = field(default_factory=TopicState)
    """In the end."""
    rows: dict[bytes, list[Row]] = field(default_factory=dict)
    """By body: each as often as it is there."""
    lives: dict[int, tuple[float, float | None]] = field(default_factory=dict)
    """By the entry that created it: when it began and ended."""
    linked: dict[str, int] = field(default_factory=dict)
    """By job, how many batches were accepted."""
    wrong: list[str] = field(default_factory=list)


async def read_log(archive: Archive, paths: TopicPaths) -> TopicLog:
    """Fold it from its first entry on."""
    log, past = TopicLog(paths), Past(archive)
    while (stored := archive.first.get(where := paths.entry(log.state.entry + 1))) is not None:
        folded = fold(log.state, read_header(stored.data, where=where), where=where)
        log.state = folded.state
        landed_s = (stored.last_modified_ms - EPOCH_MS) / 1000
        _note_lives(log, folded, landed_s)
        log.wrong += _parts_there(archive, paths, folded, stored.last_modified_ms)
        jobs = dict(_jobs(folded))
        for job in set(jobs.values()) - {None}:
            log.linked[str(job)] = log.linked.get(str(job), 0) + sum(
                batch.job == job and not isinstance(verdict, VoidReason)
                for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True)
            )
        found = await entry_rows(past, paths, folded, stored.data)
        log.wrong += [f"T6 {where} links rows that never were on the store: {lost}" for lost in found.lost]
        columns = (found.table[name].to_pylist() for name in ("queue", "offset", "body"))
        for queue, offset, body in zip(*columns, strict=True):
            row = Row(folded.state.created_entry, queue, offset, folded.number, landed_s, jobs[queue, offset])
            log.rows.setdefault(body, []).append(row)
    log.wrong += _still_there(archive, paths, log)
    return log


def _jobs(folded: FoldedEntry) -> Iterator[tuple[tuple[int, int], str | None]]:
    """For every message of the entry, the job that its batch links."""
    for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
        if isinstance(verdict, VoidReason):
            continue
        for queue, first in verdict.items():
            yield from (((queue, offset), batch.job) for offset in range(first, first + batch.rows[queue]))


def _note_lives(log: TopicLog, folded: FoldedEntry, landed_s: float) -> None:
    for action in folded.header.actions:
        if isinstance(action, Created):
            log.lives[folded.number] = (landed_s, None)
        elif isinstance(action, Deleted) and not folded.state.alive:
            began_s, _ = log.lives[folded.state.created_entry]
            log.lives[folded.state.created_entry] = (began_s, landed_s)


def _parts_there(archive: Archive, paths: TopicPaths, folded: FoldedEntry, landed_ms: int) -> Iterator[str]:
    """What an entry links was on the store before it."""
    for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
        for part in batch.parts if not isinstance(verdict, VoidReason) else ():
            staged = archive.first.get(paths.root + part.key)
            if staged is None or staged.last_modified_ms > landed_ms:
                yield f"T6 entry {folded.number} linked {part.key} before it was there"


def _still_there(archive: Archive, paths: TopicPaths, log: TopicLog) -> Iterator[str]:
    """What a reader that starts now needs."""
    if not archive.holds(paths.entry(log.state.entry)) and not archive.holds(paths.checkpoint(log.state.entry)):
        yield f"T6 the end of {paths.root} is gone"


def floor_of(archive: Archive, paths: TopicPaths) -> int:
    """The log's floor; 0: it was never trimmed."""
    held = archive._objects.get(paths.floor)
    return int(json.loads(held.data)["floor"]) if held else 0
