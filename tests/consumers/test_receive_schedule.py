"""Handing out by receipt handle, driven by chance: receives, acknowledgements in any order, by old handles and beside the owner, expiries,
owners that follow one another; each answer against a model that keeps a word for every message.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from penstock.consumers.limits import QueueLimits, QueueMode
from penstock.consumers.schedule.lanes import Failure, LaneRun
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.schedule.receive import ReceiveSchedule
from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.invisibility import acknowledged, changed_invisible_duration, expired, without_caught_up
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.queues.receipt_handle import (
    AlreadySettled,
    ReceiptAhead,
    ReceiptExpired,
    ReceiptHandle,
    ReceiptRefused,
)
from penstock.log.message.message import MessageView
from tests.thorough import thoroughly

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GROUP, TOPIC = "audit", "orders"


def message(offset: int, group: str | None) -> MessageView:
    return MessageView(TOPIC, 0, offset, f"m{offset}", group, None, (), {}, b"", EPOCH, EPOCH, None, "p")


@dataclass
class Delivery:
    """What one receive gave of one lane (CONCURRENT: one message), as the model sees it."""

    offsets: list[int]
    """Those that are not acknowledged, in order."""
    until_ms: int
    handles: dict[int, str]


@dataclass
class Model:
    """The truth, kept the simple way: every offset is fresh, in a delivery that is out, visible again, or through."""

    orderly: bool
    most: int | None
    parks: bool
    log: list[MessageView]
    acked: set[int] = field(default_factory=set)
    dead: list[int] = field(default_factory=list)
    parked: set[int] = field(default_factory=set)
    out: list[Delivery] = field(default_factory=list)
    delivered: Counter[int] = field(default_factory=Counter)
    strikes: Counter[int] = field(default_factory=Counter)
    stale: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def through(self) -> set[int]:
        return {*self.acked, *self.dead}

    def given(self, messages: list[MessageView], until_ms: int) -> None:
        lanes: dict[object, list[MessageView]] = defaultdict(list)
        for one in messages:
            self.delivered[one.offset] += 1
            if one.offset in self.through | self.parked:
                self.wrong.append(f"{one.offset} is handed out though it is through")
            if any(one.offset in delivery.offsets for delivery in self.out):
                self.wrong.append(f"{one.offset} is handed out while it is out")
            if one.delivery_attempt < self.delivered[one.offset]:
                self.wrong.append(f"{one.offset}: attempt {one.delivery_attempt} at delivery {self.delivered[one.offset]}")
            if not self.orderly and one.delivery_attempt != self.delivered[one.offset]:
                self.wrong.append(f"{one.offset}: attempt {one.delivery_attempt}, but delivered {self.delivered[one.offset]} times")
            lanes[one.message_group if self.orderly else one.offset].append(one)
        for lane in lanes.values():
            offsets = [one.offset for one in lane]
            earlier = {row.offset for row in self.log[: offsets[0]] if row.message_group == lane[0].message_group}
            between = {row.offset for row in self.log[offsets[0] : offsets[-1]] if row.message_group == lane[0].message_group}
            if self.orderly and (earlier - self.through or between - self.through - set(offsets) or offsets != sorted(offsets)):
                self.wrong.append(f"{offsets} are handed out while {sorted((earlier | between) - self.through)} are not through")
            self.out.append(Delivery(offsets, until_ms, {one.offset: one.receipt_handle for one in lane}))

    def find(self, handle: str) -> Delivery | None:
        return next((one for one in self.out if handle in one.handles.values()), None)

    def verdict(self, handle: str, now_ms: int, *, ends_sooner: bool | None = None) -> type[ReceiptRefused] | None:
        """What an acknowledgement must meet; or, of an extension (False) or a shortening (True), that."""
        offset, delivery = ReceiptHandle.decode(handle).offset, self.find(handle)
        if offset in self.through:
            return AlreadySettled
        if delivery is None or delivery.until_ms <= now_ms:
            return ReceiptExpired
        if delivery.offsets[0] != offset and ends_sooner is not False:
            return ReceiptAhead
        return None

    def ack(self, handle: str) -> None:
        offset, delivery = ReceiptHandle.decode(handle).offset, self.find(handle)
        assert delivery is not None
        delivery.offsets.remove(offset)
        self.acked.add(offset)
        if not delivery.offsets:
            self.out.remove(delivery)

    def expire(self, now_ms: int) -> None:
        for delivery in [one for one in self.out if one.until_ms <= now_ms]:
            self.out.remove(delivery)
            self.stale += delivery.handles.values()
            self.fail(delivery.offsets[0])

    def fail(self, offset: int) -> None:
        self.strikes[offset] += 1
        if self.most is not None and self.strikes[offset] >= self.most:
            if self.parks:
                self.parked.add(offset)
            else:
                self.dead.append(offset)

    def pushed(self, one: MessageView) -> None:
        self.given([one], 0)
        self.out.pop()

    def held(self) -> set[int]:
        """Behind a parked message."""
        groups = {self.log[head].message_group: head for head in self.parked}
        return {row.offset for row in self.log if row.message_group in groups and row.offset >= groups[row.message_group]}


@dataclass
class World:
    """A queue, its cell, and owners that follow one another."""

    rng: random.Random
    settings: GroupSettings
    limits: QueueLimits
    model: Model
    filtered: set[int]
    now_ms: int = 1_000
    cell: QueueCell = field(default_factory=QueueCell)
    counts: Counter[str] = field(default_factory=Counter)

    def write(self, cell: QueueCell) -> None:
        self.cell = decode_cell(encode_cell(cell), where="here")

    def own(self, steps: int) -> bool:
        """One owner's life; True when nothing is left."""
        self.write(self.cell.taken_by(f"w{self.cell.epoch}"))
        ready = ReceiveSchedule(self.settings, self.cell, limits=self.limits, group=GROUP, topic=TOPIC)
        for _ in range(steps):
            self.now_ms += self.rng.choice((0, 1, 50, 2_000))
            self._read(ready)
            self._step(ready)
            self._beside()
            if self._is_done():
                return True
        if self.rng.random() < 0.5:
            self.write(self.cell.released())
            self.counts["handed over"] += 1
        return False

    def push(self, steps: int) -> bool:
        """The life of an owner that pushes to a listener, which succeeds or fails at once. It dies with messages in flight, or drains."""
        self.write(self.cell.taken_by(f"p{self.cell.epoch}"))
        schedule = PushSchedule(self.settings, self.cell, limits=self.limits)
        self.counts["pushes"] += 1
        for _ in range(steps):
            self.now_ms += self.rng.choice((0, 1, 50, 2_000))
            self._read(schedule)
            self.model.expire(self.now_ms)
            self.write(expired(self.cell, self.now_ms, self.settings).cell)
            schedule.adopt(self.cell)
            solo = schedule.wants_solo(self.now_ms)
            step = schedule.plan(self.now_ms, self.cell, QueueMode.SOLO if solo else QueueMode.USUAL)
            self.write(step.apply(self.cell))
            if step.runs and not solo and self.rng.random() < 0.1:
                self.counts["suspects"] += self.cell.in_flight
                for run in (*step.runs_now, *step.runs):  # of each it may have been the turn
                    self.model.delivered.update(one.offset for one in run.messages)
                return False
            for run in (*step.runs_now, *step.runs):
                self._listen(run)
                schedule.report(run)
            if schedule.has_reports:
                step = schedule.plan(self.now_ms, self.cell, QueueMode.QUIET)
                self.write(step.apply(self.cell))
            self._beside()
            if self._is_done():
                return True
        step = schedule.plan(self.now_ms, self.cell, QueueMode.DRAIN)
        self.write(step.apply(self.cell).released())
        return False

    def _listen(self, run: LaneRun) -> None:
        for one in run.messages:
            self.model.pushed(one)
            if self.rng.random() < 0.1:
                self.model.fail(one.offset)
                run.failure = Failure("it failed", retry_after_ms=self.rng.choice((0, 100)))
                break
            self.model.acked.add(one.offset)
            run.done += 1
        run.ended = True

    def _read(self, ready: ReceiveSchedule | PushSchedule) -> None:
        start = ready.blocked.reread_from(self.now_ms, ready.next_fresh)
        if start is not None:
            limit = min(ready.next_fresh, start + self.rng.choice((3, 50, 1000)))
            ready.reread([row for row in self.model.log[start:limit] if row.offset not in self.filtered], start, limit)
            self.counts["reread"] += 1
        if missing := ready.missing(self.now_ms):
            ready.reread([self.model.log[offset] for offset in missing], 0, 0)
        if ready.room(self.cell) > 0 and ready.in_memory < 20 and ready.next_load < len(self.model.log):
            limit = min(len(self.model.log), ready.next_load + self.rng.randint(1, 30))
            offsets = range(ready.next_load, limit)
            passed = [offset for offset in offsets if offset in self.filtered]
            kept = [self.model.log[offset] for offset in offsets if offset not in self.filtered]
            ready.load(kept, OffsetSet.of_offsets(passed), limit)

    def _step(self, ready: ReceiveSchedule) -> None:
        """What the processor does in one write."""
        wants = [
            ReceiveRequest(self.rng.choice((1, 3, 32)), self.now_ms + self.rng.choice((1_000, 10_000)))
            for _ in range(self.rng.choice((0, 0, 1, 1, 2)))
        ]
        step, given = ready.plan(self.now_ms, wants)
        acks = self._chosen()
        lanes = {lane for handle in acks if (lane := ReceiptHandle.decode(handle).lane) is not None}
        caught_up = {lane for lane in lanes if ready.blocked.has_caught_up(lane, ready.next_fresh)}
        for handle in acks:
            self._ack(handle)
        self.model.expire(self.now_ms)
        expiry = expired(self.cell, self.now_ms, self.settings)
        self.write(step.apply(without_caught_up(expiry.cell, caught_up)))
        ready.adopt(self.cell)
        for want, messages in zip(wants, given, strict=True):
            assert len(messages) <= want.most
            self.model.given(messages, want.due_ms)
            self.counts["handed out"] += len(messages)
            self.counts["again"] += sum(one.delivery_attempt > 1 for one in messages)

    def _beside(self) -> None:
        """What others write into the cell by handle; the owner merges it, and adopts it with its next step."""
        for handle in self._chosen() if self.rng.random() < 0.2 else ():
            self._ack(handle)
            self.counts["beside"] += 1
        if self.rng.random() < 0.2 and (handles := self._all_handles()):
            self._change(self.rng.choice(handles))

    def _all_handles(self) -> list[str]:
        return [handle for one in self.model.out for handle in one.handles.values()] + self.model.stale[-3:]

    def _chosen(self) -> list[str]:
        handles = self._all_handles()
        chosen = self.rng.sample(handles, min(len(handles), self.rng.choice((0, 1, 5, 100))))
        return chosen if self.rng.random() < 0.3 else sorted(chosen, key=lambda handle: ReceiptHandle.decode(handle).offset)

    def _ack(self, text: str) -> None:
        handle, expected = ReceiptHandle.decode(text), self.model.verdict(text, self.now_ms)
        try:
            self.write(acknowledged(self.cell, handle, now_ms=self.now_ms))
        except ReceiptRefused as refusal:
            self.counts[refusal.kind] += 1
            if type(refusal) is not expected:
                self.model.wrong.append(f"{handle.where}: {refusal!r} instead of {expected}")
        else:
            if expected is not None:
                self.model.wrong.append(f"{handle.where} is acknowledged instead of {expected}")
            else:
                self.model.ack(text)

    def _change(self, text: str) -> None:
        handle, delivery = ReceiptHandle.decode(text), self.model.find(text)
        due_ms = self.now_ms + self.rng.choice((0, 500, 60_000))
        sooner = delivery is not None and due_ms < delivery.until_ms
        expected = self.model.verdict(text, self.now_ms, ends_sooner=sooner)
        try:
            self.write(changed_invisible_duration(self.cell, handle, due_ms=due_ms, now_ms=self.now_ms))
        except ReceiptRefused as refusal:
            if type(refusal) is not expected:
                self.model.wrong.append(f"{handle.where}: {refusal!r} instead of {expected}")
        else:
            self.counts["changed"] += 1
            if expected is not None or delivery is None:
                self.model.wrong.append(f"{handle.where} is changed instead of {expected}")
            else:
                delivery.until_ms = due_ms

    def _is_done(self) -> bool:
        left = set(range(len(self.model.log))) - self.filtered - self.model.through - self.model.held()
        return not left and not self.model.out and self.cell.settled.floor == len(self.model.log)


def played(seed: int) -> World:
    rng = random.Random(seed)
    orderly = rng.random() < 0.7
    parks = orderly and rng.random() < 0.4
    settings = GroupSettings(
        delivery_order=DeliveryOrder.ORDERLY if orderly else DeliveryOrder.CONCURRENT,
        max_attempts=rng.choice((1, 2, 17, None)),
        dead_letter_policy=DeadLetterPolicy.PARK if parks else DeadLetterPolicy.CONTINUE,
    )
    mixed = rng.random() < 0.5
    limits = QueueLimits(retained=rng.choice((0, 5, 1000)))
    groups = [None if rng.random() < 0.1 else f"g{int(rng.paretovariate(1))}" for _ in range(rng.choice((20, 150)))]
    log = [message(offset, group) for offset, group in enumerate(groups)]
    filtered = {offset for offset in range(len(log)) if rng.random() < rng.choice((0.0, 0.1))}
    model = Model(orderly, settings.max_attempts, parks, log, acked=set(filtered))  # for those nobody waits
    world = World(rng, settings, limits, model, filtered)
    for life in range(200):
        lives = world.push if mixed and rng.random() < 0.4 else world.own
        if lives(rng.choice((3, 40)) if life < 20 else 1_000):
            break
    else:
        model.wrong.append("it does not come to an end")
    return world


@pytest.mark.parametrize("first", range(0, thoroughly(120, 30), 30))
def test_every_answer_is_the_models_and_every_message_comes_through(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 30):
        world = played(seed)
        assert world.model.wrong == [], seed
        letters = world.cell.dead_letters
        assert sorted(letters.assigned) == sorted(world.model.dead), seed
        assert letters.next_sequence == len(world.model.dead)
        held = [marker.head for marker in world.cell.markers.values() if marker.tries.state is MessageState.PARKED]
        assert sorted(held) == sorted(world.model.parked), seed
        counts += world.counts
    for what in (
        "handed out",
        "again",
        "reread",
        "beside",
        "changed",
        "receipt_expired",
        "receipt_ahead",
        "handed over",
        "suspects",
    ):
        assert counts[what], f"{what} never happened"
