"""Eight workers and four producers, killed, paused and rolled at random, operators meanwhile; then all is drained and checked.

    python -m tests.processes.consuming.chaos --minutes 2 --seed 7 [--store local] [--only restart] [--also clock] [--workers 20] [--lease 3]

What is done to whom follows from the seed; when, from the progress that the journals show. So a seed does not repeat a run to the
letter, and does repeat its kind.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import penstock
from penstock.coordinator.tables import create_table
from tests.postgres_server import postgres_server
from tests.processes.consuming.disk import small_disk
from tests.processes.consuming.judge import Outcome, judge
from tests.processes.consuming.nemesis import ATTEMPTS, BROADCAST_DECK, DECK, MORE, SHORT, TABLE_DECK, Chaos, Ground, Plan
from tests.processes.consuming.orders import read_orders
from tests.processes.consuming.progress import Progress
from tests.processes.consuming.throttle import throttled
from tests.processes.consuming.worker import BATCHES, BROADCAST, MIRRORED, ORDERED, SIMPLE, TASKS, THREADS
from tests.processes.worker import BATCH_MAX, TOPIC
from tests.servers import dynoxide_server, versitygw_server

KEPT = ("local", "versitygw")
APART = "versitygw-postgres"
STORES = ("local", "small-disk", "versitygw", "dynoxide", "throttled", "postgres", APART)


def run(
    ground: Ground,
    folder: Path,
    plan: Plan,
    *,
    seed: int,
    say: Callable[[str], None] | None = None,
    told_to_end: Callable[[], bool] = lambda: False,
) -> Outcome:
    """One run on an empty place, and what its check found. A run that does not come to its end is checked, too."""
    with penstock.connect(ground.url, options=ground.options, coordination=ground.operator or ground.coordination) as lake:
        lake.create_topic(TOPIC, message_type="FIFO", queues=plan.queues)
        retry = penstock.RetryPolicy(interval=timedelta(milliseconds=200), jitter=0.5)
        chaos = Chaos(folder, ground, plan, seed)
        chaos.told_to_end = told_to_end
        if say is not None:
            began_s = time.monotonic()
            chaos.progress = Progress(say, plan.messages if plan.all_messages else 0, began_s, began_s + plan.limit_s)
        policy: penstock.DeadLetterPolicyLike = "park" if chaos.parks else "continue"
        lake.create_group(ORDERED, retry=retry, max_attempts=ATTEMPTS, dead_letter_policy=policy)
        lake.create_group(MIRRORED, delivery_order="CONCURRENT", retry=retry, max_attempts=ATTEMPTS)
        broken = ""
        try:
            chaos.run(lake)
        except (AssertionError, penstock.PenstockError, KeyboardInterrupt) as error:
            broken = f"{type(error).__name__} {error}".strip()
        finally:
            chaos.destroy()
        if say is not None:
            say("  all is judged now")
        return judged(lake, folder, broken=broken, say=say)


def judged(lake: penstock.Lake, folder: Path, *, broken: str = "", say: Callable[[str], None] | None = None) -> Outcome:
    """What the run showed of which the files lie in the folder, also where its driver was ended."""
    course = read_orders(folder)
    if not (broken or course.drained):
        broken = "its driver was ended"
    outcome = judge(lake, course, broken=broken, say=say or (lambda line: None))
    if broken:
        outcome.found.problems.insert(0, f"the run did not come to its end, so nothing was looked for that was lost: {broken}")
    return outcome


# --- Where and how ----------------------------------------------------------------------------------------------------------------


@contextmanager
def place(kind: str, folder: Path, *, seed: int = 0) -> Iterator[Ground]:
    """An empty lake: a folder with cells in SQLite (on a ``small-disk`` of its own), a bucket that holds the cells too, a bucket with cells in
    DynamoDB, which is ``throttled`` or not, or a folder with cells in PostgreSQL, which would lose what nobody asks it to keep.
    """
    with ExitStack() as stack:
        if kind == "local":
            yield Ground(str(folder / "lake"), {})
            return
        if kind == "small-disk":
            disk = stack.enter_context(small_disk(folder / "disk"))
            yield Ground(str(disk / "lake"), {}, disk=disk)
            return
        if kind == "postgres":
            server = stack.enter_context(postgres_server(fsync="on", synchronous_commit="off", wal_writer_delay="10s"))
            yield Ground(str(folder / "lake"), {}, coordination=f"{server.dsn}?table=cells", server=server)
            return
        s3 = stack.enter_context(versitygw_server(folder / "server"))
        ground = Ground(s3.url("lake"), s3.credentials)
        if kind == APART:
            server = stack.enter_context(postgres_server(fsync="on", synchronous_commit="off", wal_writer_delay="10s"))
            ground = ground._replace(coordination=f"{server.dsn}?table=cells", server=server)
        if kind in ("dynoxide", "throttled"):
            dynamodb = stack.enter_context(dynoxide_server(folder / "cells"))
            asyncio.run(create_table(dynamodb.url("penstock-cells"), options=dynamodb.credentials))
            if kind == "throttled":
                endpoint, _ = stack.enter_context(throttled(dynamodb.endpoint, seed))
                ground = ground._replace(throttled=True, operator=dynamodb.url("penstock-cells"))
                dynamodb = replace(dynamodb, endpoint=endpoint)
            ground = ground._replace(coordination=dynamodb.url("penstock-cells"))
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


def _judge_again(kind: str, folder: Path) -> int:
    """How many problems are found in what lies in the folder."""
    with place(kind, folder) as ground, penstock.connect(ground.url, options=ground.options, read_only=True) as lake:
        outcome = judged(lake, folder, say=say_at_once)
    print(f"{kind}:")
    report(outcome, print)
    return len(outcome.found.problems)


def ended_by_hand() -> Callable[[], bool]:
    """Whether there was a Ctrl-C. The first lets the run drain and be judged, the second is judged as it stands."""
    told = threading.Event()

    def tell(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        told.set()
        say_at_once("  what was sent is drained now; once more to judge it as it is")

    signal.signal(signal.SIGINT, tell)
    return told.is_set


def say_at_once(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="2, or with --messages the most; shared by the stores")
    parser.add_argument("--messages", type=int, help="go on until so many were sent")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=STORES, action="append")
    parser.add_argument("--only", choices=sorted({*DECK, *MORE, *BROADCAST_DECK}), action="append", help="do nothing else")
    parser.add_argument("--also", choices=MORE, action="append", help="do this besides")
    parser.add_argument("--workers", type=int, help="processes that consume")
    parser.add_argument("--producers", type=int)
    parser.add_argument("--crew", choices=[THREADS, TASKS, BATCHES, SIMPLE, BROADCAST], help="how all of them run their listeners")
    parser.add_argument("--lease", type=float, help="in seconds")
    parser.add_argument("--pause", type=float, help="seconds from one deed to the next, at least")
    parser.add_argument("--short", action="store_true", help="as small as in make test")
    parser.add_argument("--keep", type=Path, help="an empty folder for journals, lake and server")
    parser.add_argument("--judge", action="store_true", help="judge what an earlier run left in --keep, to its end or not")
    chosen = parser.parse_args()
    if chosen.judge and (chosen.keep is None or set(chosen.store or ["local"]) - set(KEPT)):
        parser.error(f"--judge takes --keep, and a store that outlives a run: {' or '.join(KEPT)}")
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    places = chosen.store or [kind for kind in KEPT if not chosen.judge or (chosen.keep / kind).exists()]
    minutes = (2 if chosen.messages is None else math.inf) if chosen.minutes is None else chosen.minutes
    plan = SHORT if chosen.short else replace(Plan(), seconds=60 * minutes / len(places))
    if chosen.messages:
        limit_s = 60 * minutes / len(places)
        plan = replace(plan, messages=chosen.messages, all_messages=True, at_once=5 * BATCH_MAX, seconds=0.0, limit_s=limit_s)
    if chosen.lease:
        plan = replace(plan, lease_s=chosen.lease)
    if chosen.pause:
        plan = replace(plan, pause_s=chosen.pause)
    if chosen.workers:
        plan = replace(plan, workers=chosen.workers)
    if chosen.producers:
        plan = replace(plan, producers=chosen.producers)
    if chosen.crew:
        plan = replace(plan, crew=chosen.crew)
    if chosen.crew == BROADCAST:
        plan = replace(plan, deck=BROADCAST_DECK, killers=False)
    if chosen.also:
        plan = replace(plan, deck={**plan.deck, **dict.fromkeys(chosen.also, 3)})
    if chosen.only:
        plan = replace(plan, deck=dict.fromkeys(chosen.only, 4), killers=False)
    if chosen.judge:
        return int(sum([_judge_again(kind, chosen.keep / kind) for kind in places]) > 0)
    failed = False
    told_to_end = ended_by_hand()
    for kind in places:
        how = "--short" if chosen.short else "" if minutes == math.inf else f"--minutes {minutes / len(places):g}"
        how += f" --messages {chosen.messages}" if chosen.messages else ""
        how += f" --lease {chosen.lease:g}" if chosen.lease else ""
        how += f" --pause {chosen.pause:g}" if chosen.pause else ""
        how += f" --workers {chosen.workers}" if chosen.workers else ""
        how += f" --producers {chosen.producers}" if chosen.producers else ""
        how += f" --crew {chosen.crew}" if chosen.crew else ""
        only = "".join(f" --{option} '{deed}'" for option in ("only", "also") for deed in getattr(chosen, option) or ())
        print(f"replay: python -m tests.processes.consuming.chaos {how} --seed {seed} --store {kind}{only}", flush=True)
        with ExitStack() as stack:
            folder = chosen.keep / kind if chosen.keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.mkdir(parents=True, exist_ok=True)
            ground = stack.enter_context(place(kind, folder, seed=seed))
            if ground.server is not None and not chosen.only:
                plan = replace(plan, deck={**TABLE_DECK, **plan.deck})
            say = None if chosen.short else say_at_once
            outcome = run(ground, folder, plan, seed=seed, say=say, told_to_end=told_to_end)
        print(f"{kind}:")
        report(outcome, print)
        failed |= bool(outcome.found.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
