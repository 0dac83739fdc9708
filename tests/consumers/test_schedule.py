"""The schedule of one queue, driven by chance: owners that die, handlers that fail, hang and kill; against what RocketMQ promises."""

from __future__ import annotations

import random
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from penstock.consumers.feed import rows
from penstock.consumers.feed.rows import group_hash
from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure, LaneRun
from penstock.consumers.schedule.push import PushSchedule
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.groups.retry import RetryPolicy
from penstock.coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.log.message.message import MessageView
from tests.thorough import thoroughly

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def message(offset: int, group: str | None) -> MessageView:
    return MessageView("orders", 0, offset, f"m{offset}", group, None, (), {}, b"", EPOCH, EPOCH, None, "p")


@dataclass
class World:
    """A queue, its cell, and owners that follow one another."""

    rng: random.Random
    settings: GroupSettings
    limits: QueueLimits
    log: list[MessageView]
    poison: dict[int, str] = field(default_factory=dict)
    """By offset: 'raises', always; 'kills' the process of its handler."""
    failing: float = 0.1
    now_ms: int = 0
    cell: QueueCell = field(default_factory=QueueCell)
    started: Counter[int] = field(default_factory=Counter)
    succeeded: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    parked: set[int] = field(default_factory=set)
    deaths: int = 0
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    under_way: dict[LaneRun, list[MessageView]] = field(default_factory=dict)
    """What handlers have just now."""
    left: dict[LaneRun, deque[MessageView | list[MessageView]]] = field(default_factory=dict)

    def own(self, steps: int) -> bool:
        """One owner's life; True when nothing is left to do."""
        self.cell = decode_cell(encode_cell(self.cell.taken_by(f"w{self.cell.epoch}")), where="here")
        schedule = PushSchedule(self.settings, self.cell, limits=self.limits)
        running: list[LaneRun] = []
        self.under_way.clear()
        for _ in range(steps):
            self.now_ms += self.rng.choice((0, 1, 20, 400))
            self.cell = self.cell.with_dead_letters_written(self.cell.dead_letters.next_sequence - 1)
            self._read(schedule)
            solo = schedule.wants_solo(self.now_ms)
            mode = QueueMode.USUAL if not solo else QueueMode.QUIET if running else QueueMode.SOLO
            step = schedule.plan(self.now_ms, self.cell, mode)
            running += step.runs_now
            if self.rng.random() < 0.3 and mode is QueueMode.USUAL:  # while the step is written
                moved = self.rng.sample(running, min(len(running), 3))
                if not all(self._move(run, schedule) for run in moved):
                    return False
                moved = [*schedule.go_on([run for run in moved if run.ended]), *schedule.spread(self.rng.choice((0, 1)))[0]]
                self.counts["went on before a write"] += len(moved)
                running = [run for run in (*running, *moved) if not run.ended]
                if not all(self._move(run, schedule) for run in moved):
                    return False
                running = [run for run in running if not run.ended]
            if not step.is_empty:
                self.cell = decode_cell(encode_cell(step.apply(self.cell)), where="here")
                self.dead += [letter.message.offset for letter in step.letters]
                self.parked |= {head.offset for head in step.parked}
                if self.rng.random() < 0.02:
                    self.counts["died after a write"] += 1
                    return False
            running += step.runs
            for run in self.rng.sample(running, min(len(running), 1 + self.rng.randrange(8))):
                if not self._move(run, schedule):
                    return False
                if run.ended:
                    running.remove(run)
                    running += schedule.go_on([run]) if mode is QueueMode.USUAL else []
            if not running and self._is_done(schedule):
                return True
        self._drain(schedule, running)
        return False

    def _read(self, schedule: PushSchedule) -> None:
        start = schedule.blocked.reread_from(self.now_ms, schedule.next_fresh)
        if start is not None:
            limit = min(schedule.next_fresh, start + self.rng.choice((3, 50, 1000)))
            schedule.reread([row for row in self.log[start:limit] if row.message_group != "filtered"], start, limit)
            self.counts["reread"] += 1
        if missing := schedule.missing(self.now_ms):
            schedule.reread([self.log[offset] for offset in missing], missing[0], missing[0])
        room = min(schedule.room(self.cell), 100 - schedule.in_memory)
        if room > 0 and schedule.next_load < len(self.log):
            limit = min(len(self.log), schedule.next_load + self.rng.randint(1, room))
            rows = self.log[schedule.next_load : limit]
            filtered = OffsetSet.of_offsets([row.offset for row in rows if row.message_group == "filtered"])
            schedule.load([row for row in rows if row.message_group != "filtered"], filtered, limit)

    def _move(self, run: LaneRun, schedule: PushSchedule) -> bool:
        """Let the executor work a little; False when the process died."""
        if run.ended:
            return True
        if run.since_s is None and run.claim():
            self.left[run] = run.lists() if run.list_max else deque((list(run.messages),) if run.is_batch else run.messages)
            if run.list_max or not run.is_batch:
                run.left = self.left[run]
            run.since_s = 0
        given, left = self.under_way.pop(run, None), self.left[run]
        if given is None and (not left or (run.cancelled and self.rng.random() < 0.5)):
            run.ended = True
        elif given is None:
            first = left.popleft()
            given = first if isinstance(first, list) else [first]
            for at, row in enumerate(given):
                if not self._start(row, {one.offset for one in given[:at]}):
                    return False
            if self.rng.random() < 0.2:
                self.under_way[run] = given
                return True
        if given is not None:
            bad = [at for at, row in enumerate(given) if self._fails(row)]
            if bad and self.rng.random() < 0.5 and len(given) > 1:
                run.failure = Failure("raised", blamed=False)
            else:
                self._succeed(run, bad[0] if bad else len(given))
                run.failure = Failure("failed there", rejected=not run.is_batch and self.rng.random() < 0.05) if bad else None
            run.ended = bool(bad) or not left
        if run.ended or self.rng.random() < 0.5:
            schedule.report(run)
        return True

    def _start(self, row: MessageView, together: set[int] = frozenset()) -> bool:  # type: ignore[assignment]
        self.started[row.offset] += 1
        if row.delivery_attempt > 1:
            self.counts["again"] += 1
        if self.started[row.offset] > self._deliveries(row):
            self.wrong.append(f"{row.offset} is started {self.started[row.offset]} times, the cell says {self._deliveries(row)}")
        if self.limits.batch_of is None and self.cell.epoch == 1 and self.started[row.offset] != self._deliveries(row):
            self.wrong.append(
                f"{row.offset} is started {self.started[row.offset]} times, nobody died, and it is told of another attempt"
            )
        listed = row.offset in self.cell.tries or rows.group_hash(row.message_group, "") in self.cell.markers
        if not listed and row.offset not in self.cell.granted:
            self.wrong.append(f"{row.offset} is started before its grant is durable")
        if row.offset in self.succeeded and row.offset in self.dead:
            self.wrong.append(f"{row.offset} is run after it was given up")
        if self.settings.delivery_order == "ORDERLY":
            behind = [one for one in self.log[: row.offset] if one.message_group == row.message_group]
            missing = [one.offset for one in behind if one.offset not in self._through and one.offset not in together]
            if missing:
                self.wrong.append(f"{row.offset} is started before {missing[:3]} are through")
        if self.poison.get(row.offset) == "kills":
            self.deaths += 1
            return False
        return True

    @property
    def _through(self) -> set[int]:
        return {*self.succeeded, *self.dead}

    def _deliveries(self, row: MessageView) -> int:
        """At most so often may it have been delivered, by what is durable."""
        return max(row.delivery_attempt, 1)

    def _fails(self, row: MessageView) -> bool:
        return self.poison.get(row.offset) == "raises" or self.rng.random() < self.failing

    def _succeed(self, run: LaneRun, count: int) -> None:
        self.succeeded += [row.offset for row in run.messages[run.done : run.done + count]]
        run.done += count

    def _drain(self, schedule: PushSchedule, running: list[LaneRun]) -> None:
        while True:
            step = schedule.plan(self.now_ms, self.cell, QueueMode.DRAIN)
            self.cell = step.apply(self.cell)
            self.dead += [letter.message.offset for letter in step.letters]
            self.parked |= {head.offset for head in step.parked}
            assert not step.runs
            assert not step.runs_now
            if not running:
                break
            for run in running:
                if not self._move(run, schedule):
                    return
            running = [run for run in running if not run.ended]
        self.cell = self.cell.released()
        self.counts["handed over"] += 1

    def _is_done(self, schedule: PushSchedule) -> bool:
        waiting = [marker for marker in self.cell.markers.values() if marker.tries.state is not MessageState.PARKED]
        return self.cell.settled.floor == len(self.log) and not waiting and not self.cell.tries


def played(seed: int, **changes: object) -> World:
    rng = random.Random(seed)
    order = rng.choice(("ORDERLY", "CONCURRENT"))
    policy = rng.choice(("continue", "park")) if order == "ORDERLY" else "continue"
    batch_of = rng.choice((None, None, "group", "queue"))
    settings = GroupSettings(
        delivery_order=order,  # type: ignore[arg-type]
        retry=RetryPolicy(interval=timedelta(milliseconds=rng.choice((0, 50, 1000)))),
        max_attempts=rng.choice((1, 3, 17)),
        dead_letter_policy=policy,  # type: ignore[arg-type]
    )
    limits = QueueLimits(
        run_messages=rng.choice((1, 4, 64)),
        batch_of=batch_of,  # type: ignore[arg-type]
        retained=rng.choice((0, 5, 1000)),
        window=rng.choice((20, 100, 10_000)),
        tracked=rng.choice((30, 2000)),
        shared_lanes=rng.choice((1, 2, 32)),
        few_lanes=rng.choice((1, 8)),
    )
    groups = [None if rng.random() < 0.1 else f"g{int(rng.paretovariate(1))}" for _ in range(rng.choice((30, 300)))]
    groups = ["filtered" if rng.random() < 0.05 else group for group in groups]
    poison = {rng.randrange(len(groups)): rng.choice(("raises", "kills")) for _ in range(rng.randrange(3))}
    log = [message(offset, group) for offset, group in enumerate(groups)]
    world = World(rng, settings, limits, log, poison, failing=rng.choice((0.0, 0.02, 0.2)))
    for life in range(60):
        if world.own(rng.choice((5, 50, 2000)) if life < 20 else 3_000):
            break
    else:
        world.wrong.append("it does not come to an end")
    return world


@pytest.mark.parametrize("seed", range(thoroughly(120, 40)))
def test_every_message_comes_through_once_and_in_order_whatever_happens(seed: int) -> None:
    check(played(seed), lambda group: group)


@pytest.mark.parametrize("hashes", [1, 3])
@pytest.mark.parametrize("seed", range(thoroughly(30, 10)))
def test_message_groups_of_one_hash_are_one_and_nothing_of_them_is_lost(
    seed: int, hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(group: str | None, secret: str = "") -> int:
        return 0 if group is None else 1 + zlib.crc32(group.encode()) % hashes

    monkeypatch.setattr(rows, "group_hash", few)
    check(played(seed), few)


def check(world: World, name: Callable[[str | None], object]) -> None:
    """Whether all came through that had to; a message group with another of its name is parked with it."""
    assert world.wrong == []
    behind_parked = {
        row.offset
        for row in world.log
        for head in world.parked
        if head not in world.dead and row.offset >= head and name(row.message_group) == name(world.log[head].message_group)
    }
    for row in world.log:
        through = (row.offset in world.succeeded) + (row.offset in world.dead)
        if row.message_group == "filtered":
            assert through == 0
        elif row.offset not in behind_parked:
            assert through >= 1
    assert len(world.dead) == len(set(world.dead))


def test_nothing_is_to_run_alone_before_it_is_in_memory() -> None:
    cell = (
        QueueCell()
        .with_tries(0, Tries(MessageState.SUSPECT, company=1))
        .with_tries(1, Tries(MessageState.SUSPECT, company=1))
        .taken_by("w")
    )
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    assert not schedule.wants_solo(0)
    schedule.reread([message(0, "a"), message(1, "a")], 0, 0)
    assert schedule.wants_solo(0)
    step = schedule.plan(0, cell, QueueMode.SOLO)
    assert [[one.offset for one in run.messages] for run in step.runs] == [[0]]


def test_a_group_that_is_read_again_runs_meanwhile_and_takes_what_is_read_then() -> None:
    """Else each reading of a long queue would bring it no more than its first rows."""
    cell = QueueCell().with_granted(OffsetSet.of([(0, 9)])).taken_by("w1")
    cell = cell.with_markers({group_hash("a", ""): Marker(0, 1, Tries(MessageState.WAITING))}, OffsetSet.of([(0, 9)])).taken_by(
        "w2"
    )
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    assert schedule.blocked.reread_from(0, schedule.next_fresh) == 0
    schedule.reread([message(0, "a"), message(1, "a")], 0, 2)
    first = schedule.plan(0, cell)
    assert [[one.offset for one in run.messages] for run in first.runs] == [[0]]
    schedule.plan(0, first.apply(cell))
    schedule.reread([message(offset, "a") for offset in range(2, 9)], 2, 9)
    assert schedule.blocked.retained == 9
    run = first.runs[0]
    run.done, run.ended = 1, True
    schedule.report(run)
    second = schedule.plan(0, first.apply(cell))
    assert [[one.offset for one in run.messages] for run in second.runs] == [list(range(1, 9))]
    assert schedule.blocked.reread_from(0, schedule.next_fresh) is None


@pytest.mark.parametrize("taken", [True, False])
def test_with_another_filter_a_blocked_group_is_read_again_whoever_owns_its_queue(taken: bool) -> None:
    log = [message(offset, "a") for offset in range(4)]
    cell = QueueCell().taken_by("w1")
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    schedule.load([log[0], log[2]], OffsetSet.of_offsets([1, 3]), 4)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    cell = step.apply(cell)
    run.failure, run.ended = Failure("raised"), True
    schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    assert schedule.blocked.reread_from(5_000, schedule.next_fresh) is None, "all is in memory"
    if taken:
        cell = cell.taken_by("w2")
        schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    else:
        schedule.blocked.filtered_anew()
    assert schedule.blocked.retained == 0
    assert schedule.blocked.reread_from(5_000, schedule.next_fresh) == 0
    schedule.reread(log, 0, 4)
    step = schedule.plan(5_000, cell)
    assert [one.messages.offsets for one in step.runs] == [[0]]
    cell = step.apply(cell)
    (run,) = step.runs
    run.done, run.ended = 1, True
    schedule.report(run)
    step = schedule.plan(5_000, cell)
    assert [one.messages.offsets for one in step.runs] == [[1, 2, 3]]


def test_with_another_filter_what_runs_of_a_blocked_group_is_not_read_again() -> None:
    log = [message(offset, "a") for offset in range(6)]
    markers = {group_hash("a", ""): Marker(0, 1, Tries(MessageState.WAITING))}
    cell = QueueCell(settled=SettledOffsets(6), markers=markers).taken_by("w")
    schedule = PushSchedule(GroupSettings(), cell, limits=QueueLimits())
    schedule.blocked.reread_from(0, schedule.next_fresh)
    schedule.reread([log[0], log[3], log[5]], 0, 6)
    step = schedule.plan(0, cell)
    (run,) = step.runs
    cell = step.apply(cell)
    schedule.blocked.filtered_anew()
    assert schedule.blocked.reread_from(0, schedule.next_fresh) is None
    run.done, run.ended = 1, True
    schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    assert schedule.blocked.reread_from(0, schedule.next_fresh) == 1
    schedule.reread(log[1:], 1, 6)
    step = schedule.plan(0, cell)
    assert [one.messages.offsets for one in step.runs] == [[1, 2, 3, 4, 5]]
    assert schedule.blocked.retained == 5


@pytest.mark.parametrize("state", [MessageState.WAITING, MessageState.SUSPECT])
def test_strikes_of_a_head_that_a_new_filter_leaves_out_are_not_those_of_the_message_behind_it(state: MessageState) -> None:
    log = [message(offset, "a") for offset in range(3)]
    settings = GroupSettings(max_attempts=3)
    markers = {group_hash("a", ""): Marker(0, 3, Tries(state, 3, 3 if state is MessageState.SUSPECT else 2))}
    cell = QueueCell(settled=SettledOffsets(3), markers=markers).taken_by("w")
    schedule = PushSchedule(settings, cell, limits=QueueLimits())
    assert schedule.blocked.reread_from(0, schedule.next_fresh) == 0
    schedule.reread(log[1:], 0, 3)
    assert schedule.blocked.hopeless(3) == []
    step = schedule.plan(0, cell)
    cell = step.apply(cell)
    (run,) = step.runs
    assert not step.letters
    assert run.messages[0].offset == 1
    run.failure, run.ended = Failure("raised"), True
    schedule.report(run)
    cell = schedule.plan(0, cell).apply(cell)
    (marker,) = cell.markers.values()
    assert (marker.head, marker.tries.state, marker.tries.strikes) == (1, MessageState.WAITING, 1)
