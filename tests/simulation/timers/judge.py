"""The judge of a run with timed messages: from what applications were told, every cell write and every object that ever was.

What it finds wrong begins with the number of a rule:

T1  Every message that was stored goes into its topic once, or was recalled; never both, and never twice. What was not stored goes nowhere.
T2  What a claim lets go is what the cell's bounds say, by delivery time and then as sent: in each queue fired messages lie in that order,
    those of equal times as they were sent.
T3  Nothing is early: by the store's clock nothing is claimed, nor visible before its time; nor stamped, but after a day of silence, when
    stamps lag.
T4  What was let go cannot be recalled; what was recalled stays recalled until its time has passed.
T5  A claim is settled when all of it is in the topic.
T6  Bounds and what was gathered only rise; what was gathered and waits is in a run that the cell names.
T7  A run that a cell names is there, and so is an object of recalled messages.
T8  A fired message is the one that was sent, in the queue that was named or else with all of its message group.
T9  What was sent to one life of the topic comes out in no other.
T10 What waits is listed, by delivery time; what does not is not.
T11 In quiet, what is due is let go at once; and everything comes to its end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.coordinator.timers.cell.state import DuePosition, TimerState
from penstock.log.paths import TopicPaths
from tests.simulation.process import EPOCH_MS
from tests.simulation.timers.logs import Life, Log, Row
from tests.simulation.timers.records import History, Outcome, Recalled, Sent, Wrote
from tests.simulation.timers.witness import WitnessStore


@dataclass(slots=True)
class Timeline:
    """One life of the timer log, and what its cell let go."""

    life: Life
    fired: list[tuple[float, Row]] = field(default_factory=list)
    """In the order of the claims; and when they were claimed."""
    recalled: dict[DuePosition, float] = field(default_factory=dict)
    """And when."""
    state: TimerState = field(default_factory=TimerState)


@dataclass(slots=True)
class Evidence:
    """A run, read from the beginning."""

    topic: list[Life]
    lines: list[Timeline]
    landed: dict[str, list[tuple[Life, Row]]]
    """What is in the topic, by message id."""
    lateness_s: list[float] = field(default_factory=list)
    """Of messages that came due in quiet."""


def judge(history: History, store: WitnessStore, topic: TopicPaths, timer_log: TopicPaths, *, late_s: float | None) -> list[str]:
    """Everything that is wrong with a run that has come to its end, in words. ``late_s`` is what T11 allows."""
    evidence = read(store, topic, timer_log)
    wrong = list(history.wrong)
    for line in evidence.lines:
        wrong += _cell(line, history.cells.get(line.life.incarnation, []), store, evidence)
        wrong += _arrivals(line, history, evidence)
    wrong += _strangers(evidence)
    wrong += _sent(history, evidence)
    wrong += _recalls(history, evidence)
    wrong += _lists(history, evidence)
    wrong += _late(history, evidence, late_s)
    return wrong


def read(store: WitnessStore, topic: TopicPaths, timer_log: TopicPaths) -> Evidence:
    """All that ever was in the two logs."""
    lives = asyncio.run(Log(store, topic).read())
    landed: dict[str, list[tuple[Life, Row]]] = defaultdict(list)
    for life in lives:
        for row in life.rows:
            landed[row.message_id].append((life, row))
    lines = [Timeline(life) for life in asyncio.run(Log(store, timer_log).read())]
    return Evidence(lives, lines, landed)


def store_us(at_s: float) -> int:
    """What the store's clock shows then."""
    return 1000 * (EPOCH_MS + int(at_s * 1000))


# --- The cell, write by write -------------------------------------------------------------------------------------------------------


def _cell(line: Timeline, writes: Sequence[Wrote], store: WitnessStore, evidence: Evidence) -> Iterator[str]:
    rows = sorted(line.life.rows, key=lambda row: row.due)
    before = TimerState()
    for at_s, written in writes:
        yield from (f"T7 {key} is named, and never was there" for key in _recalls_missing(line, written, store))
        state = with_all_recalled(line, written, store)
        for problem in _step(line, rows, before, state, at_s, store, evidence):
            yield f"{problem} (at {at_s:.3f} s)"
        before = state
    line.state = before


def with_all_recalled(line: Timeline, state: TimerState, store: WitnessStore) -> TimerState:
    """With those among the recalled ones that are in objects, as far as their time has not passed."""
    found = set(state.recalled)
    for run in state.recalls:
        if (stored := store.first.get(store.recalls_key_of(line.life.incarnation, run.name))) is not None:
            table = _columns(stored.data, ["time_us", "offset"])
            found.update(DuePosition(*pair) for pair in zip(table["time_us"].to_pylist(), table["offset"].to_pylist(), strict=True))
    return replace(state, recalled=frozenset(due for due in found if not state.settled.within(due)))


def _columns(data: bytes, names: list[str]) -> pa.Table:
    # `read_table` would scan in Arrow's threads. One of them may let go of `data` only after the interpreter's end, which aborts the process.
    return pq.ParquetFile(pa.BufferReader(data)).read(names, use_threads=False)


def _recalls_missing(line: Timeline, state: TimerState, store: WitnessStore) -> list[str]:
    keys = [store.recalls_key_of(line.life.incarnation, run.name) for run in state.recalls]
    return [key for key in keys if key not in store.first]


def _step(
    line: Timeline,
    rows: Sequence[Row],
    before: TimerState,
    state: TimerState,
    at_s: float,
    store: WitnessStore,
    evidence: Evidence,
) -> Iterator[str]:
    if state.settled.known < before.settled.known or state.settled.due < before.settled.due or state.gathered < before.gathered:
        yield f"T6 bounds fall from {before} to {state}"
    new_claim = state.claim is not None and (before.claim is None or state.claim.sequence != before.claim.sequence)
    new_claim |= state.claim is not None and state.claim.bounds != before.bounds
    if state.bounds.known < before.bounds.known or state.bounds.due < before.bounds.due:
        yield f"T6 what was let go falls from {before.bounds} to {state.bounds}"
    if before.claim is not None and (state.claim is None or new_claim):
        yield from _settled(line, rows, before, at_s, evidence)
    if state.settled not in (before.settled, before.bounds):  # bounds may rise over nothing, and over what was recalled
        passed = [row for row in rows if state.settled.within(row.due) and not before.bounds.within(row.due)]
        if any(row.due not in before.recalled for row in passed):
            yield f"T5 {[row.body for row in passed]} were settled and never claimed: {before}"
    if new_claim and state.claim is not None:
        chosen = [row for row in rows if state.claimed(row.due)]
        line.fired += [(at_s, row) for row in chosen]
        if (state.claim.sequence, state.claim.count) != (before.next_sequence, len(chosen)):
            yield f"T2 the claim {state.claim} follows {before.next_sequence}, and is of {[row.body for row in chosen]}"
        for row in chosen:
            if row.due_us > store_us(at_s):
                yield f"T3 {row.body!r} is claimed {(row.due_us - store_us(at_s)) / 1e6:.3f} s early"
    for due in state.recalled - before.recalled:
        if before.bounds.within(due) or state.bounds.within(due):
            yield f"T4 {due} is recalled, and was let go: {before}"
        line.recalled[due] = at_s
    for due in before.recalled - state.recalled:
        if not state.settled.within(due):
            yield f"T4 {due} was recalled, and is not any more: {state}"
    yield from _gathered(line, rows, before, state, store)


def _settled(line: Timeline, rows: Sequence[Row], before: TimerState, at_s: float, evidence: Evidence) -> Iterator[str]:
    """T5; what a deleted topic could not take any more is not missed."""
    for row in rows:
        if before.claimed(row.due):
            there = [one.landed_ms for _, one in evidence.landed[row.message_id]]
            if (not there or min(there) > EPOCH_MS + at_s * 1000) and line.life.ended_ms is None:
                yield f"T5 {row.body!r} is settled and not in the topic"


def _gathered(line: Timeline, rows: Sequence[Row], before: TimerState, state: TimerState, store: WitnessStore) -> Iterator[str]:
    if state.runs == before.runs and state.gathered == before.gathered:
        return
    held: set[int] = set()
    for run in state.runs:
        key = store.key_of(line.life.incarnation, run.name)
        stored = store.first.get(key)
        if stored is None:
            yield f"T7 {key} is named, and never was there"
            continue
        held.update(_columns(stored.data, ["offset"])["offset"].to_pylist())
    for row in rows:
        waits = not state.settled.within(row.due) and row.due not in state.recalled
        if row.offset < state.gathered and waits and row.offset not in held:
            yield f"T6 {row.body!r} was gathered and is in no run"


# --- The topic -------------------------------------------------------------------------------------------------------------------------


def _arrivals(line: Timeline, history: History, evidence: Evidence) -> Iterator[str]:
    served = history.served.get(line.life.incarnation)
    place: dict[str, int] = {}
    queues: dict[str, int] = {}
    for number, (_, row) in enumerate(line.fired):
        place[row.message_id] = number
        yield from _arrival(line, row, served, history, evidence, queues)
    for row in line.life.rows:
        there = evidence.landed[row.message_id]
        if there and row.due in line.recalled:
            yield f"T1 {row.body!r} was recalled and is in the topic"
        elif there and row.message_id not in place:
            yield f"T1 {row.body!r} was never claimed and is in the topic"
        elif line.life.ended_ms is None and not line.state.settled.within(row.due):
            yield f"T11 {row.body!r} was never settled: {line.state}"
    for life in evidence.topic:
        lanes: dict[int, int] = {}
        for row in life.rows:
            if row.message_id in place:
                number = place[row.message_id]
                if number < lanes.get(row.queue, -1):
                    yield f"T2 {row.body!r} is behind {line.fired[lanes[row.queue]][1].body!r} in queue {row.queue}"
                lanes[row.queue] = number


def _arrival(
    line: Timeline, row: Row, served: str | None, history: History, evidence: Evidence, queues: dict[str, int]
) -> Iterator[str]:
    """Of one message that was claimed."""
    there = evidence.landed[row.message_id]
    if len(there) > 1:
        yield f"T1 {row.body!r} is in the topic {len(there)} times"
    if not there and line.life.ended_ms is None:
        yield f"T1 {row.body!r} was claimed and is not in the topic"
    sent = history.sent.get(row.body)
    for life, fired in there:
        if life.incarnation != served:
            yield f"T9 {row.body!r} was sent to {served} and came out in {life.incarnation}"
        visible_us = 1000 * fired.landed_ms + 999
        if row.due_us > visible_us:
            yield f"T3 {row.body!r} is visible {(row.due_us - visible_us) / 1e6:.3f} s early"
        if row.due_us > fired.store_us + 999 and not fired.lags:
            yield f"T3 {row.body!r} is stamped {(row.due_us - fired.store_us) / 1e6:.3f} s early"
        if sent is not None:
            yield from _same(sent, row, fired, queues)


def _same(sent: Sent, row: Row, fired: Row, queues: dict[str, int]) -> Iterator[str]:
    """T8."""
    asked = (sent.body, sent.group, sent.properties, sent.due_us)
    was = (row.body, row.message_group, row.tag, row.keys, row.message_id, row.born_us, row.due_us)
    came = (fired.body, fired.message_group, fired.tag, fired.keys, fired.message_id, fired.born_us, fired.due_us)
    if was != came or (fired.body, fired.message_group, fired.properties, fired.due_us) != asked:
        yield f"T8 {sent} came out as {fired}"
    if sent.queue is not None and fired.queue != sent.queue:
        yield f"T8 {sent.body!r} was sent to queue {sent.queue} and is in {fired.queue}"
    elif sent.queue is None and sent.group is not None and queues.setdefault(sent.group, fired.queue) != fired.queue:
        yield f"T8 {sent.body!r} of {sent.group} is in queue {fired.queue}, others in {queues[sent.group]}"


def _strangers(evidence: Evidence) -> Iterator[str]:
    """T1: nothing is in the topic that did not wait in its timer log."""
    waited = {row.message_id for line in evidence.lines for row in line.life.rows}
    yield from (f"T1 {life_row[1].body!r} is in the topic and never waited"
                for message_id, there in evidence.landed.items() if message_id not in waited for life_row in there)  # fmt: skip


# --- What applications were told -------------------------------------------------------------------------------------------------------


def _sent(history: History, evidence: Evidence) -> Iterator[str]:
    stored: dict[bytes, list[Row]] = defaultdict(list)
    for line in evidence.lines:
        for row in line.life.rows:
            stored[row.body].append(row)
    for body, sent in history.sent.items():
        rows = stored.get(body, [])
        if len(rows) > 1:
            yield f"T1 {body!r} was stored {len(rows)} times"
        if sent.outcome is Outcome.DONE and [row.message_id for row in rows] != [sent.message_id]:
            yield f"T1 {body!r} was stored as {sent.message_id}, and the timer log has {rows}"
        if sent.outcome is Outcome.FAILED and rows:
            yield f"T1 {body!r} failed and is in the timer log"
    yield from (f"T1 {body!r} was never sent" for body in stored if body not in history.sent)


def _recalls(history: History, evidence: Evidence) -> Iterator[str]:
    """T1 and T4, by what was told."""
    gone = {row.body for line in evidence.lines for row in line.life.rows if row.due in line.recalled}
    claimed = {row.body for line in evidence.lines for _, row in line.fired}
    alive = {row.body for line in evidence.lines if line.life.ended_ms is None for row in line.life.rows}
    ours = defaultdict[bytes, list[Recalled]](list)
    for recall in history.recalled:
        ours[recall.body].append(recall)
        if recall.outcome is Outcome.DONE and recall.body not in gone:
            yield f"T4 {recall.body!r} was recalled by what was told, and the cell never knew"
        if recall.outcome is Outcome.FAILED and recall.body in alive and recall.body not in claimed | gone:
            yield f"T4 {recall.body!r} could not be recalled, and was never let go"
    for body, recalls in ours.items():
        if sum(recall.outcome is Outcome.DONE for recall in recalls) > 1:
            yield f"T4 {body!r} was recalled twice: {recalls}"
        if body in gone and all(recall.outcome is Outcome.FAILED for recall in recalls):
            yield f"T4 {body!r} was recalled, and all who asked for it were told that it was not: {recalls}"
    yield from (f"T4 {body!r} is recalled, and nobody asked for it" for body in gone if body not in ours)


def _lists(history: History, evidence: Evidence) -> Iterator[str]:
    """T10, of the life that lives in the end; what changed while the list was made may be on it or not."""
    lines = [line for line in evidence.lines if line.life.ended_ms is None]
    for line in lines if len(evidence.lines) == 1 else ():
        claimed_s = {row.body: at_s for at_s, row in line.fired}
        recalled_s = {row.body: line.recalled[row.due] for row in line.life.rows if row.due in line.recalled}
        rows = {row.body: row for row in line.life.rows}
        for listed in history.listed:
            seen = [rows[body].due for body in listed.bodies if body in rows]
            if seen != sorted(seen) or len(seen) != len(listed.bodies) or len(set(seen)) != len(seen):
                yield f"T10 {listed.asked_s:.3f} s: listed out of order, twice or nothing of ours: {listed.bodies}"
                continue
            for body in listed.bodies:
                if min(claimed_s.get(body, 1e18), recalled_s.get(body, 1e18)) < listed.asked_s:
                    yield f"T10 {listed.asked_s:.3f} s: {body!r} is listed, and was let go or recalled before"
            ends = _end(listed.limit, listed.until_us, seen)
            for body, row in rows.items():
                waits = row.landed_ms < EPOCH_MS + 1000 * (listed.asked_s - 1) and row.due <= ends
                waits &= min(claimed_s.get(body, 1e18), recalled_s.get(body, 1e18)) > listed.told_s
                if waits and body not in listed.bodies:
                    yield f"T10 {listed.asked_s:.3f} s: {body!r} waits and is not listed"


def _end(limit: int | None, until_us: int | None, seen: Sequence[DuePosition]) -> DuePosition:
    """Up to where a list must be whole."""
    ends = DuePosition(10**18, 0) if until_us is None else DuePosition(until_us - 1, 10**18)
    return min(ends, seen[-1]) if limit is not None and len(seen) >= limit else ends


def _late(history: History, evidence: Evidence, late_s: float | None) -> Iterator[str]:
    """T11: of messages that came due in quiet, how late they were visible."""
    for line in evidence.lines:
        for row in line.life.rows:
            there = evidence.landed[row.message_id]
            due_s = max(row.due_us / 1e6 - EPOCH_MS / 1e3, row.landed_ms / 1e3 - EPOCH_MS / 1e3)
            if not there or due_s < history.quiet_s:
                continue
            lateness_s = there[0][1].landed_ms / 1e3 - EPOCH_MS / 1e3 - due_s
            evidence.lateness_s.append(lateness_s)
            if late_s is not None and lateness_s > late_s:
                yield f"T11 {row.body!r} is {lateness_s:.3f} s late"
    if evidence.lateness_s:
        history.counts["late in quiet, ms at most"] = max(
            history.counts["late in quiet, ms at most"], round(1000 * max(evidence.lateness_s))
        )


def landed_once(evidence: Evidence) -> Mapping[bytes, int]:
    """How often each body is in the topic."""
    return {there[0][1].body: len(there) for there in evidence.landed.values()}
