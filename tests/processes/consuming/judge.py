"""What a run showed: all that was stored and written down, read once, spread over parts on disk, and checked part by part."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import penstock
from penstock.coordinator.cells.keys import worker_of
from tests.processes.check import Row, Verdict, Whole, numbers_of_queues
from tests.processes.check import check_part as check_log
from tests.processes.consuming.broadcast import SAVED_S, Member
from tests.processes.consuming.check import Found, History, Rules, check_part, finish
from tests.processes.consuming.disturbed import DIED, FENCED, LEASE, STOP, TABLE, Disturbed
from tests.processes.consuming.fates import Fates
from tests.processes.consuming.figures import Pauses, Tenures, pauses
from tests.processes.consuming.nemesis import ATTEMPTS, BOTH, REPEATS_MAX
from tests.processes.consuming.orders import Course
from tests.processes.consuming.parts import Parts
from tests.processes.consuming.progress import Step, Steps
from tests.processes.consuming.records import Handled, Noted, What, read_records
from tests.processes.consuming.worker import MIRRORED, ORDERED, TOLD, TRY_AGAIN
from tests.processes.worker import TOPIC, read_journal

NO_ANSWER = (
    "the table did not answer",
    "the table does not tell",
    "another process holds the database's lock",
    "no answer",
    "DynamoDB throttles",
    "PostgreSQL",
)
"""What a process says that gives up since nobody can write to the table."""
COLUMNS = ["queue", "offset", "body", "message_group", "store_timestamp"]


@dataclass
class Outcome:
    """What a run showed."""

    found: Found
    acknowledged: int
    handled: int
    pauses: Pauses
    done: Counter[str]
    said: Counter[str]


@dataclass
class Records:
    """Of workers, but for what handlers wrote, which is in parts."""

    noted: list[Noted] = field(default_factory=list)
    last_s: dict[str, float] = field(default_factory=dict)
    """When each process wrote of a message last."""
    tenures: Tenures = field(default_factory=Tenures)
    handled: int = 0


def judge(lake: penstock.Lake, course: Course, *, broken: str = "", say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Read everything, and check it. A run that is ``broken`` did not come to its end: nothing in it is late."""
    run, steps = course.run, Steps(say, time.monotonic)
    messages = sum(end for _, end in lake.reader(TOPIC).offsets().values())
    parts = Parts(course.folder / "parts", messages)
    records = spread_records(course.journals(), parts, steps)
    whole = Whole(set(run.producers))
    queues = numbers_of_queues(run.queues, lake.reader(TOPIC).queues)
    ends, stored = spread_rows(lake, parts, whole, records.tenures.firsts(), steps.of(messages, "messages of the topic are read"))
    for name in run.producers:
        for line in read_journal(course.folder / f"{name}.journal"):
            parts.add("journal", line[1], tuple(line))
    for group in BOTH:
        for letter in dead_letters(lake, group):
            parts.add(f"{group} letters", letter[2], letter)
    troubles = troubles_of(course, records)
    rules = {ORDERED: Rules(True, run.parks, ATTEMPTS), MIRRORED: Rules(False, False, ATTEMPTS)}
    found, verdict = Found(), Verdict()
    if TOLD in run.groups:
        check_members(course, troubles, ends if not broken else {}, found)
        found.problems += went_on(troubles, records)
    checked = steps.of(parts.count, "parts are checked")
    for part in range(parts.count):
        rows = [Row(*values) for values in parts.take("rows", part)]
        rows.sort(key=lambda row: (row.queue, row.offset))
        check_log(rows, (list(line) for line in parts.take("journal", part)), whole.names, queues, verdict)
        found.problems += misled(rows, parts.take(TOLD, part))
        for group in (one for one in BOTH if one in run.groups):
            history = History(
                rows=rows,
                handled=handled_of(parts, group, part),
                groups={group: rules[group]},
                fates=Fates(killers=run.killers),
                disturbed=troubles,
                resets=course.resets,
                skips=course.skips,
                letters={group: [(queue, offset, body) for queue, offset, body in parts.take(f"{group} letters", part)]},
                drained=not broken,
            )
            check_part(history, found)
        checked(1, f"{len(found.problems) + len(verdict.problems)} problems")
    finish(REPEATS_MAX, found)
    parts.remove()
    found.problems += [*whole.problems(), *verdict.problems, *unforeseen(course, records.noted, troubles)]
    if not broken:
        found.problems += standings(lake, ends, quiet=not troubles)
    said = Counter(one.text.partition(":")[0][:60] for one in records.noted if one.what in (What.SAID, What.ENDED))
    return Outcome(found, verdict.acknowledged, records.handled, pauses(records.tenures, stored, troubles), course.done, said)


def troubles_of(course: Course, records: Records) -> list[Disturbed]:
    """What was done to workers, and what they did themselves: processes that ended, and leases that were lost."""
    known = list(course.disturbed)
    processes = {path.stem for path in course.journals()}
    left = {one.process for one in records.noted if one.what is What.DOWN} | {one.process for one in known if one.is_end}
    for process in sorted(processes - left):
        at_s = records.last_s.get(process, 0.0)
        known.append(Disturbed(DIED, process, at_s, at_s))
    known += [trouble._replace(process=one) for one in sorted(processes) for trouble in course.of_all]
    return known + [
        Disturbed(LEASE, one.process, one.at_s - 3 * course.run.lease_s, one.at_s)
        for one in records.noted
        if one.what is What.SAID and "the lease was lost" in one.text
    ]


def check_members(course: Course, troubles: Iterable[Disturbed], ends: Mapping[int, int], found: Found) -> None:
    """What each member of the broadcasting group was given, process by process."""
    for place in course.run.workers:
        member = Member(place, found)
        for start in range(course.starts[place]):
            path = course.folder / f"{place}.{start}.jsonl"
            records = read_records(path) if path.exists() else iter(())
            handled = (one for one in records if isinstance(one, Handled))
            member.process(handled, [one for one in troubles if one.process == path.stem and one.kind != STOP])
        found.problems += member.losses(ends)


def went_on(troubles: Iterable[Disturbed], records: Records) -> Iterator[str]:
    """Members that handled messages long after another had taken their name."""
    up_s = {one.process: one.at_s for one in records.noted if one.what is What.UP}
    for one in troubles:
        place, _, start = one.process.rpartition(".")
        taken_s = up_s.get(f"{place}.{int(start) + 1}")
        if one.kind == FENCED and taken_s is not None and records.last_s.get(one.process, 0.0) > taken_s + SAVED_S:
            yield f"{one.process} handled messages {records.last_s[one.process] - taken_s:.1f} s after another had taken its name"


def misled(rows: Iterable[Row], handled: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    """Members that were given something else than what is stored there."""
    stored = {(row.queue, row.offset): row for row in rows}
    for one in map(Handled._make, handled):
        row = stored.get((one.queue, one.offset))
        if row is None or (row.body, row.group) != (one.body, one.message_group):
            yield f"{one.process} was given {one.body} of {one.message_group} at {one.queue, one.offset}, where {row} is"


def spread_records(journals: Sequence[Path], parts: Parts, steps: Steps) -> Records:
    """What workers wrote."""
    records = Records()
    read = steps.of(len(journals), "records of workers are read")
    for path in journals:
        for one in read_records(path):
            if isinstance(one, Noted):
                records.noted.append(one)
                continue
            records.handled += 1
            records.last_s[one.process] = max(one.at_s, records.last_s.get(one.process, 0.0))
            records.tenures.add(one)
            parts.add(one.group, one.body, tuple(one))
        read(1, f"{records.handled:,} lines")
    records.noted.sort(key=lambda one: one.at_s)
    return records


def handled_of(parts: Parts, group: str, part: int) -> list[Handled]:
    """By time, as the check wants it."""
    handled = [Handled._make(values) for values in parts.take(group, part)]
    handled.sort(key=lambda one: one.at_s)
    return handled


def spread_rows(
    lake: penstock.Lake, parts: Parts, whole: Whole, wanted: set[tuple[int, int]], read: Step
) -> tuple[dict[int, int], dict[tuple[int, int], float]]:
    """The topic. Returns how many messages are in each queue, and when those that are wanted were stored."""
    reader = lake.reader(TOPIC)
    ends: Counter[int] = Counter()
    stored: dict[tuple[int, int], float] = {}
    for queue in range(reader.queues):
        for batch in reader.read(queue=queue, columns=COLUMNS):
            for at, offset, body, message_group, stored_at in zip(
                *(batch.column(name).to_pylist() for name in COLUMNS), strict=True
            ):
                row = Row(at, offset, body.decode(), message_group)
                whole.add(row)
                parts.add("rows", row.body, (row.queue, row.offset, row.body, row.group))
                ends[at] += 1
                if (at, offset) in wanted:
                    stored[at, offset] = stored_at.timestamp()
            read(batch.num_rows)
    return ends, stored


def dead_letters(lake: penstock.Lake, group: str) -> Iterator[tuple[int, int, str]]:
    """Where each message was that was given up, and its body."""
    topic = f"%DLQ%{group}"
    if topic not in lake.topics():
        return
    for one in lake.reader(topic).messages():
        yield int(one.properties["DLQ_ORIGIN_QUEUE"]), int(one.properties["DLQ_ORIGIN_OFFSET"]), one.body.decode()


def standings(lake: penstock.Lake, ends: Mapping[int, int], *, quiet: bool) -> Iterator[str]:
    """What `describe_group` says once everybody has left: nothing is left to do, and nobody who lives owns anything.

    Who lost its lease last of all leaves its name behind; in a run where all was ``quiet`` nobody did.
    """
    living = {one.worker for one in lake.workers() if one.may_live}
    for group in BOTH:
        described = lake.describe_group(group)
        for name in {*described.members, *(one.owner for one in described.queues)} - {""}:
            if quiet or worker_of(name) in living:
                yield f"{group} is still {name}'s"
        for one in described.queues:
            is_idle = not (
                one.lag or one.in_flight or one.waiting or one.blocked or one.parked or one.interrupted or one.dead_letters
            )
            if not is_idle or not one.committed_offset == one.next_offset == ends.get(one.queue, 0):
                yield f"in the end {group} stands so, with {ends.get(one.queue, 0)} messages in the queue: {one}"


def unforeseen(course: Course, noted: list[Noted], troubles: list[Disturbed]) -> Iterator[str]:
    """Processes that ended as nothing explains."""
    if complaints := course.complaints():
        yield f"processes complained:\n{complaints[-3000:]}"
    disturbed = {one.process for one in troubles if one.kind not in (DIED, LEASE, TABLE)}
    stops = [one for one in troubles if one.kind == TABLE or (one.kind == STOP and course.run.in_sqlite)]
    for one in noted:
        throttled = course.run.throttled and any(said in one.text for said in NO_ANSWER)
        if one.what is What.ENDED and not (throttled or one.process in disturbed or is_held_up(one, stops, course.run.lease_s)):
            yield f"{one.process} ended by itself: {one.text}"
    killed = {-signal.SIGKILL} if course.run.killers else set()
    for place, codes in course.ended.items():
        if wrong := codes - {0, TRY_AGAIN, -signal.SIGTERM} - killed:  # told to end before it could listen
            yield f"processes of {place} ended with {wrong}"


def is_held_up(one: Noted, stops: Iterable[Disturbed], lease_s: float) -> bool:
    """Whether it gave up as nobody could write to the table. Who is stopped in the middle of a commit keeps SQLite's lock."""
    stopped = any(stop.from_s < one.at_s < stop.until_s + lease_s for stop in stops)
    return stopped and any(said in one.text for said in NO_ANSWER)
