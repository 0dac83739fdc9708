"""Eight workers and four producers, killed, paused and rolled at random, operators meanwhile; then all is drained and checked.

    python -m tests.processes.consuming.chaos --minutes 2 --seed 7 [--store local] [--only restart] [--also clock] [--workers 20] [--lease 3]

What is done to whom follows from the seed; when, from the progress that the journals show. So a seed does not repeat a run to the
letter, and does repeat its kind.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import penstock
from penstock.coordinator.keys import worker_of
from penstock.coordinator.tables import create_table
from tests.processes.check import Row
from tests.processes.check import check as check_log
from tests.processes.consuming.check import Found, History, Rules, check
from tests.processes.consuming.disk import small_disk
from tests.processes.consuming.figures import Pauses, pauses
from tests.processes.consuming.nemesis import ATTEMPTS, BOTH, DECK, MORE, REPEATS_MAX, SHORT, Chaos, Ground, Plan
from tests.processes.consuming.places import DIED, LEASE, STOP, Disturbed
from tests.processes.consuming.records import Noted, What, read_records
from tests.processes.consuming.throttle import throttled
from tests.processes.consuming.worker import BATCHES, MIRRORED, ORDERED, SIMPLE, TASKS, THREADS, TRY_AGAIN
from tests.processes.worker import BATCH_MAX, TOPIC, read_journal
from tests.servers import dynoxide_server, versitygw_server

STORES = ("local", "small-disk", "versitygw", "dynoxide", "throttled")
NO_ANSWER = (
    "the table did not answer",
    "the table does not tell",
    "another process holds the database's lock",
    "no answer",
    "DynamoDB throttles",
)
"""What a process says that gives up since nobody can write to the table."""


@dataclass
class Outcome:
    """What a run showed."""

    found: Found
    acknowledged: int
    handled: int
    pauses: Pauses
    done: Counter[str]
    said: Counter[str]


def run(ground: Ground, folder: Path, plan: Plan, *, seed: int) -> Outcome:
    """One run on an empty place, and what its check found."""
    with penstock.connect(ground.url, options=ground.options, coordination=ground.coordination) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=plan.queues)
        retry = penstock.RetryPolicy(interval=timedelta(milliseconds=200), jitter=0.5)
        chaos = Chaos(folder, ground, plan, seed)
        policy = "park" if chaos.parks else "continue"
        lake.create_group(ORDERED, retry=retry, max_attempts=ATTEMPTS, dead_letter_policy=policy)
        lake.create_group(MIRRORED, delivery_order="CONCURRENT", retry=retry, max_attempts=ATTEMPTS)
        try:
            chaos.run(lake)
        finally:
            chaos.destroy()
        return judge(lake, chaos)


def judge(lake: penstock.Lake, chaos: Chaos) -> Outcome:
    """Read everything, and check it."""
    columns = ["queue", "offset", "body", "message_group", "store_timestamp"]
    values = lake.reader(TOPIC).to_arrow(columns=columns).to_pylist()
    rows = [Row(one["queue"], one["offset"], one["body"].decode(), one["message_group"]) for one in values]
    stored = {(one["queue"], one["offset"]): one["store_timestamp"].timestamp() for one in values}
    handled, noted = read_records(chaos.journals())
    troubles = chaos.troubles(noted, handled)
    history = History(
        rows=rows,
        handled=handled,
        groups={ORDERED: Rules(True, chaos.parks, ATTEMPTS), MIRRORED: Rules(False, False, ATTEMPTS)},
        fates=chaos.fates,
        disturbed=troubles,
        resets=chaos.resets,
        skips=chaos.skips,
        letters={group: dead_letters(lake, group) for group in BOTH},
        repeats_max=REPEATS_MAX,
    )
    found = check(history)
    journals = [line for one in chaos.producers for line in read_journal(chaos.folder / f"{one.name}.journal")]
    verdict = check_log(rows, journals, [one.name for one in chaos.producers], chaos.plan.queues)
    found.problems += [*verdict.problems, *standings(lake, rows, quiet=not troubles), *unforeseen(chaos, noted, troubles)]
    said = Counter(one.text.partition(":")[0][:60] for one in noted if one.what in (What.SAID, What.ENDED))
    return Outcome(found, verdict.acknowledged, len(handled), pauses(handled, stored, troubles), chaos.done, said)


def dead_letters(lake: penstock.Lake, group: str) -> list[tuple[int, int, str]]:
    """Where each message was that was given up, and its body."""
    topic = f"%DLQ%{group}"
    if topic not in lake.topics():
        return []
    return [
        (int(one.properties["DLQ_ORIGIN_QUEUE"]), int(one.properties["DLQ_ORIGIN_OFFSET"]), one.body.decode())
        for one in lake.reader(topic).messages()
    ]


def standings(lake: penstock.Lake, rows: list[Row], *, quiet: bool) -> Iterator[str]:
    """What `describe_group` says once everybody has left: nothing is left to do, and nobody who lives owns anything.

    Who lost its lease last of all leaves its name behind; in a run where all was ``quiet`` nobody did.
    """
    ends = Counter(row.queue for row in rows)
    living = {one.worker for one in lake.workers() if one.may_live}
    for group in BOTH:
        described = lake.describe_group(group)
        for name in {*described.members, *(one.owner for one in described.queues)} - {""}:
            if quiet or worker_of(name) in living:
                yield f"{group} is still {name}'s"
        for one in described.queues:
            is_idle = not (one.lag or one.in_flight or one.waiting or one.blocked or one.parked or one.suspects or one.dead_letters)
            if not is_idle or not one.floor == one.next_offset == ends[one.queue]:
                yield f"in the end {group} stands so, with {ends[one.queue]} messages in the queue: {one}"


def unforeseen(chaos: Chaos, noted: list[Noted], troubles: list[Disturbed]) -> Iterator[str]:
    """Processes that ended as nothing explains."""
    if complaints := chaos.complaints():
        yield f"processes complained:\n{complaints[-3000:]}"
    disturbed = {one.process for one in troubles if one.kind not in (DIED, LEASE)}
    stops = [one for one in troubles if one.kind == STOP and chaos.ground.in_sqlite]
    for one in noted:
        throttled = chaos.ground.throttled and any(said in one.text for said in NO_ANSWER)
        if one.what is What.ENDED and not (throttled or one.process in disturbed or is_held_up(one, stops, chaos.plan.lease_s)):
            yield f"{one.process} ended by itself: {one.text}"
    for place in chaos.places:
        killed = {-signal.SIGKILL} if chaos.plan.killers else set()
        if wrong := set(place.ended) - {0, TRY_AGAIN, -signal.SIGTERM} - killed:  # told to end before it could listen
            yield f"processes of {place.name} ended with {wrong}"


def is_held_up(one: Noted, stops: Iterable[Disturbed], lease_s: float) -> bool:
    """Whether it gave up as nobody could write to SQLite: whoever is stopped in the middle of a commit keeps the lock."""
    stopped = any(stop.from_s < one.at_s < stop.until_s + lease_s for stop in stops)
    return stopped and any(said in one.text for said in NO_ANSWER)


# --- Where and how ----------------------------------------------------------------------------------------------------------------


@contextmanager
def place(kind: str, folder: Path, *, seed: int = 0) -> Iterator[Ground]:
    """An empty lake: a folder with cells in SQLite (on a ``small-disk`` of its own), a bucket that holds the cells too, or a bucket with cells in
    DynamoDB, which is ``throttled`` or not.
    """
    with ExitStack() as stack:
        if kind == "local":
            yield Ground(str(folder / "lake"), {})
            return
        if kind == "small-disk":
            disk = stack.enter_context(small_disk(folder / "disk"))
            yield Ground(str(disk / "lake"), {}, disk=disk)
            return
        s3 = stack.enter_context(versitygw_server(folder / "server"))
        ground = Ground(s3.url("lake"), s3.credentials)
        if kind in ("dynoxide", "throttled"):
            dynamodb = stack.enter_context(dynoxide_server(folder / "cells"))
            asyncio.run(create_table(dynamodb.url("penstock-cells"), options=dynamodb.credentials))
            if kind == "throttled":
                endpoint, _ = stack.enter_context(throttled(dynamodb.endpoint, seed))
                dynamodb = replace(dynamodb, endpoint=endpoint)
            ground = ground._replace(coordination=dynamodb.url("penstock-cells"), throttled=kind == "throttled")
        yield ground


def report(outcome: Outcome, say: Callable[[str], None]) -> None:
    """What a run showed, for people."""
    say(
        f"  {outcome.acknowledged} messages acknowledged to producers, {outcome.handled} lines of handlers; done: {dict(outcome.done)}"
    )
    say(f"  {dict(sorted(outcome.found.counts.items()))}")
    repeats = outcome.found.repeats.values()
    say(
        f"  ran again after a process's trouble: {sum(repeats)} of {len(repeats)} troubles, at most {max(repeats, default=0)} of one"
    )
    say(f"  {outcome.pauses}")
    say(f"  said: {dict(outcome.said.most_common(12))}")
    for problem in outcome.found.problems[:20]:
        say(f"  WRONG: {problem}")
    if len(outcome.found.problems) > 20:
        say(f"  and {len(outcome.found.problems) - 20} more")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--messages", type=int, help="go on until so many were sent")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--only", choices=[*DECK, *MORE], action="append", help="do nothing else")
    parser.add_argument("--also", choices=MORE, action="append", help="do this besides")
    parser.add_argument("--workers", type=int, help="processes that consume")
    parser.add_argument("--crew", choices=[THREADS, TASKS, BATCHES, SIMPLE], help="how all of them run their listeners")
    parser.add_argument("--lease", type=float, help="in seconds")
    parser.add_argument("--short", action="store_true", help="as small as in make test")
    parser.add_argument("--keep", type=Path, help="an empty folder for journals, lake and server")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    places = chosen.store or ["local", "versitygw"]
    plan = SHORT if chosen.short else replace(Plan(), seconds=60 * chosen.minutes / len(places))
    if chosen.messages:
        plan = replace(plan, messages=chosen.messages, all_messages=True, at_once=5 * BATCH_MAX)
    if chosen.lease:
        plan = replace(plan, lease_s=chosen.lease)
    if chosen.workers:
        plan = replace(plan, workers=chosen.workers)
    if chosen.crew:
        plan = replace(plan, crew=chosen.crew)
    if chosen.also:
        plan = replace(plan, deck={**plan.deck, **dict.fromkeys(chosen.also, 3)})
    if chosen.only:
        plan = replace(plan, deck=dict.fromkeys(chosen.only, 4), killers=False)
    failed = False
    for kind in places:
        how = "--short" if chosen.short else f"--minutes {chosen.minutes / len(places):g}"
        how += f" --messages {chosen.messages}" if chosen.messages else ""
        how += f" --lease {chosen.lease:g}" if chosen.lease else ""
        how += f" --workers {chosen.workers}" if chosen.workers else ""
        how += f" --crew {chosen.crew}" if chosen.crew else ""
        only = "".join(f" --{option} '{deed}'" for option in ("only", "also") for deed in getattr(chosen, option) or ())
        print(f"replay: python -m tests.processes.consuming.chaos {how} --seed {seed} --store {kind}{only}", flush=True)
        with ExitStack() as stack:
            folder = chosen.keep / kind if chosen.keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            outcome = run(stack.enter_context(place(kind, folder, seed=seed)), folder, plan, seed=seed)
        print(f"{kind}:")
        report(outcome, print)
        failed |= bool(outcome.found.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
