"""The messages of one queue that may run next, and what its cell must hold before.

A message is *loaded* from the log, *granted* by a write of the cell, run by a handler, and *settled* by a later write. A failed one goes to the
waiting list (CONCURRENT), or its message group is blocked by a marker (ORDERLY). Suspects are run first, in limited company.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from ...coordinator.groups.record import DeadLetterPolicy, DeliveryOrder, GroupSettings
from ...coordinator.queues.cell import Marker, MessageState, QueueCell, Tries
from ...coordinator.queues.offsets import OffsetSet
from ...coordinator.registry.former_work import FormerWork
from ...log.message.message import MessageView
from ..feed.lazy_messages import LazyMessages
from ..feed.rows import GroupHashes
from ..limits import QueueLimits, QueueMode
from .blocked_groups import BlockedGroups
from .lanes import Failure, Lane, LaneRun, OpenLane
from .open_lanes import OpenLanes
from .retry import after_failure
from .step import ENDED_ITS_PROCESS, FailedAttempt, GivenUpMessage, Step
from .tracked_messages import TrackedMessages


class PushSchedule:
    """The messages of one queue in one owner, remade by each take and reset."""

    def __init__(
        self, settings: GroupSettings, cell: QueueCell, *, limits: QueueLimits, chance: float = 0.5, secret: str = ""
    ) -> None:
        self.settings = settings
        self._orderly = settings.delivery_order is DeliveryOrder.ORDERLY
        self._limits = limits
        self._chance = chance
        """Decides the jitter of this owner's retries."""
        self._hashes = GroupHashes(secret)
        self._lanes = OpenLanes(limits, self._hashes, orderly=self._orderly)
        self.pace = self._lanes.pace
        """Notes how long handlers take."""
        self.blocked = BlockedGroups(cell, limits, self._hashes)
        self.tracked = TrackedMessages(cell, retained=limits.retained)
        self._reported: dict[LaneRun, None] = {}
        self._loaded: deque[tuple[LazyMessages, OffsetSet, int]] = deque()
        self._earliest = 0
        self._waves = 0
        self.suspects_wait = False
        """Whether a suspect's failure waits for room."""
        self.apart = False
        """Whether each message group needs a lane of its own, as an earlier handler of one may still run."""
        self._hopeless = False
        """Whether a dead letter waits for room."""
        self._held = False
        self.closed = False
        """Whether all messages wait for a former queue."""
        self.next_fresh = max(cell.settled.limit, cell.granted.limit)
        """Neither granted, settled nor listed."""
        self.next_load = self.next_fresh
        self.in_memory = 0
        """Loaded messages, neither settled nor failed."""
        self.running: dict[LaneRun, None] = {}
        """The oldest first."""

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def load(self, messages: Sequence[MessageView], filtered: OffsetSet, limit: int) -> None:
        """Take fresh messages up to ``limit``; ``filtered`` offsets are not the group's."""
        self._loaded.append((LazyMessages.of(messages), filtered, limit))
        self.next_load = limit
        self.in_memory += len(messages)

    def wait_for(self, work: FormerWork) -> None:
        """Let messages wait for what is left in former queues."""
        self.closed = work.queue is not None
        self.blocked.wait_for(work.blocked.keys())

    def report(self, *runs: LaneRun) -> None:
        self._reported.update(dict.fromkeys(runs))

    def reread(self, messages: Iterable[MessageView], start: int, limit: int) -> None:
        messages = list(messages)
        self.tracked.reread(messages)
        self.blocked.reread(messages, start, limit, self.next_fresh)

    def expired(self, earliest: int) -> None:
        """Messages below ``earliest`` never run again."""
        self._earliest = earliest

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The messages in memory that are not known to be done, so that others are fetched before the write that settles these."""
        done = sum([run.done - run.taken for run in self._reported if run.lane.marker is None]) if self._reported else 0
        return max(0, self.in_memory - done)

    def room(self, cell: QueueCell) -> int:
        """Fresh messages for which window and cell have room."""
        tracked = len(self.blocked) + len(self.tracked) + len(cell.dead_letters.assigned)
        if self.tracked.suspects or self._waves or tracked >= self._limits.tracked:
            return 0
        room = max(0, self._limits.window - (self.next_load - cell.settled.floor))
        markers = self.blocked.room
        return room if markers is None else max(0, min(room, markers - (self.next_load - self.next_fresh)))

    def missing(self, now_ms: int) -> list[int]:
        """Suspects and due messages that are not in memory."""
        return self.tracked.missing(now_ms)

    def next_due_ms(self, cell: QueueCell) -> int | None:
        """The time of the next waiting message; a failure that waited is due when there is room."""
        letters = len(cell.dead_letters.assigned)
        ended = (run for run in self._reported if run.failure and run.ended)
        postponed = [0] if any(not self._lacks_room(run, letters) for run in ended) else []
        return min([*postponed, *self.tracked.next_due_ms(), *self.blocked.next_due_ms()], default=None)

    def next_expiry_ms(self) -> int | None:
        return min([*self.tracked.next_expiry_ms(), *self.blocked.next_expiry_ms()], default=None)

    def adopt(self, cell: QueueCell) -> None:
        """Take over others' changes: messages handed out by handle, and parked groups."""
        self.tracked.adopt(cell)
        self.blocked.adopt(cell)

    def is_urgent(self, now_ms: int, cell: QueueCell) -> bool:
        """Whether the next step does more than note successes."""
        due_ms = self.next_due_ms(cell)
        return (
            bool(self._loaded or self._held or (self.tracked.suspects and not self._waves))
            or (due_ms is not None and due_ms <= now_ms)
            or any(run.failure or run.lane.has_more or run.lane.marker or run.wave for run in self._reported)
        )

    @property
    def is_held(self) -> bool:
        """Whether something is left to the next step to start."""
        return self._held

    @property
    def has_reports(self) -> bool:
        return bool(self._reported)

    def wants_solo(self, now_ms: int) -> bool:
        return not self._hopeless and (self._wants_solo_suspect or self.blocked.wants_solo(now_ms))

    @property
    def _wants_solo_suspect(self) -> bool:
        return self.tracked.wants_solo and not self.suspects_wait

    # --- The next step ----------------------------------------------------------------------------------------------------------

    def plan(self, now_ms: int, cell: QueueCell, mode: QueueMode = QueueMode.USUAL) -> Step:
        """The next step, to be carried out, or the queue given up."""
        step = Step()
        self._lanes.apart = self.apart
        self._held = self._lanes.written() or self._held
        self.tracked.fall_due(now_ms)
        reported, self._reported, self.suspects_wait = self._reported, {}, False
        for run in reported:
            if run not in self.running:
                continue
            postponed = False
            if run.failure is not None:
                if counted := run.ended or run.timed_out_at is not None:
                    self.split(run)  # all of it was counted as finished
                postponed = self._postpones(run, cell, step, mode)
                if postponed and counted and isinstance(run.lane, OpenLane) and run.lane.shared:
                    self._part(run)
            self._take_report(run, now_ms, step, mode, postponed=postponed)
        if mode in (QueueMode.USUAL, QueueMode.SOLO):
            self._give_up_suspects(cell, step)
        if self._earliest:
            self.tracked.let_go(self._earliest, step)
            self.blocked.expired(self._earliest, step)
            self._earliest = 0
        if mode is QueueMode.DRAIN:
            self._drain(step, cell, now_ms)
        elif mode is QueueMode.QUIET:
            self._held = True
        elif mode is QueueMode.SOLO:
            if self._hopeless:
                pass  # there was room when the caller asked
            elif self._wants_solo_suspect:
                self._run_suspects(step)
            else:
                self.blocked.run_solo(now_ms, step)
        else:
            self._go_on(now_ms, cell, step)
        self.running |= dict.fromkeys((*step.runs_now, *step.runs))
        return step

    def _go_on(self, now_ms: int, cell: QueueCell, step: Step) -> None:
        self._stall(cell.settled.floor, step)
        if self._held:
            self._held = False
            self._lanes.start_all(step.runs if self._orderly or self._lanes.common.batches else step.runs_now)
        if self.tracked.suspects:
            if not (self._waves or self.tracked.wants_solo) and self._lanes.common_is_idle:
                self._run_suspects(step)
        elif not self._waves:
            self._grant(step)
        if self._is_full or not (self._waves or self.tracked.suspects):
            for message in self.tracked.take_due(now_ms, step):
                step.runs.append(LaneRun(self._lanes.common, [message]))
                self.in_memory += 1
        self.blocked.run_due(now_ms, step, self.next_fresh)

    # --- Reports

    @property
    def _is_full(self) -> bool:
        return (len(self.blocked) if self._orderly else self.tracked.count_waiting) >= self._limits.full

    def _lacks_room(self, run: LaneRun, letters: int) -> bool:
        """Whether the cell has no room for marker or tries, or the dead letter besides ``letters``."""
        if run.failure is None:
            return False
        return (run.lane.marker is None and self._is_full) or (letters >= self._limits.letters and self._gives_up(run))

    def _gives_up(self, run: LaneRun) -> bool:
        if run.failure is None or (self._orderly and self.settings.dead_letter_policy is DeadLetterPolicy.PARK):
            return False
        done = run.done if run.timed_out_at is None else run.timed_out_at
        marker = run.lane.marker
        before = self.tracked.of(run.messages[done]) if marker is None else marker.tries
        if marker is not None and done > run.taken:
            before = Tries(before.state, before.attempts)  # the marker's strikes belong to its head, which is done
        return after_failure(before, run.failure, self.settings, chance=self._chance, now_ms=0)[1]

    def _postpones(self, run: LaneRun, cell: QueueCell, step: Step, mode: QueueMode) -> bool:
        """Whether a failure without room stays as if its handler still ran."""
        if not self._lacks_room(run, len(cell.dead_letters.assigned) + len(step.letters)):
            return False
        if mode is not QueueMode.DRAIN:
            self._reported[run] = None
            self.suspects_wait = self.suspects_wait or run.wave
            return True
        assert run.failure is not None, "only a failure takes room"
        if run.lane.marker is not None:
            run.failure = replace(run.failure, blamed=False, rejected=False)
            return False
        for message in run.delivered():
            self.tracked.set(message.offset, self.tracked.of(message), step)
        run.failure = None
        return False

    def _take_report(self, run: LaneRun, now_ms: int, step: Step, mode: QueueMode, *, postponed: bool) -> None:
        """Settle what is done. ``postponed``: the failure is taken later."""
        lane = run.lane
        done = run.done if run.timed_out_at is None else run.timed_out_at
        ended = not postponed and (run.ended or run.timed_out_at is not None)
        if ended:
            del self.running[run]
            if lane.run is run or lane is self._lanes.common:
                lane.run = None
            self._waves -= run.wave
        if lane.marker is not None:
            count, run.taken = done - run.taken, done
            self.blocked.moved(lane, run, count, ended, step)
        else:
            self._take_successes(run, done, step)
        if ended and run.failure is not None:
            self._failed(lane, run.messages[done:], run.delivered(), run.failure, now_ms, step)
            if isinstance(lane, OpenLane) and lane.shared and mode is QueueMode.USUAL:
                self._lanes.start(lane, step.runs_now)
        elif ended and isinstance(lane, OpenLane):
            self._ended(lane, run, step, mode)

    def _take_successes(self, run: LaneRun, done: int, step: Step) -> None:
        moved = run.messages.offsets[run.taken : done]
        run.taken = done
        self.in_memory -= len(moved)
        step.settled += moved
        self.tracked.settle(moved, step)

    def _ended(self, lane: OpenLane, run: LaneRun, step: Step, mode: QueueMode) -> None:
        if run.taken == run.size:
            lane.batch_max = 0
        elif not run.wave:
            lane.put_back(run.messages.cut(run.taken))
        else:
            self.in_memory -= run.size - run.taken
            self.tracked.put_back(run.messages[run.taken :])
        if mode is QueueMode.USUAL and lane.ready:
            # Messages that were counted once more in this step run when the step is durable.
            counted = any(offset in step.tries for part in lane.ready for offset in part.offsets) if step.tries else False
            self._lanes.start(lane, step.runs if counted else step.runs_now)
        elif lane.ready:
            self._held = True
        elif lane.run is None:
            self._lanes.drop(lane)

    def _failed(
        self,
        lane: Lane | OpenLane,
        rest: list[MessageView],
        delivered: list[MessageView],
        failure: Failure,
        now_ms: int,
        step: Step,
    ) -> None:
        """Take a failure at the first of ``rest``, or among those ``delivered`` with it."""
        head = rest[0]
        before = lane.marker.tries if lane.marker is not None else self.tracked.of(head)
        if not failure.blamed:
            lane.batch_max = max(1, len(delivered) // 2)
        tries, gives_up = after_failure(before, failure, self.settings, chance=self._chance, now_ms=now_ms)
        step.failed.append(
            FailedAttempt(
                head, failure.reason, None if gives_up else tries.due_ms, 1 if failure.blamed else len(delivered), failure.error
            )
        )
        if not self._orderly or (lane is self._lanes.common and not failure.blamed):
            self._failed_alone(rest, tries, gives_up, failure, step)
            return
        if gives_up:
            self._give_up(lane, rest, delivered, tries, failure.reason, step)
            return
        lane = self._behind_marker(lane, rest, delivered, step)
        self.blocked.wait(lane, tries, delivered[-1].offset + 1, step)

    def _failed_alone(self, rest: list[MessageView], tries: Tries, gives_up: bool, failure: Failure, step: Step) -> None:
        """Let the first message wait, or give it up; messages delivered with it are run again, in an allowed batch."""
        again = rest[1:] if failure.blamed else rest
        if gives_up:
            self._give_up(self._lanes.common, rest, rest, tries, failure.reason, step)
        elif failure.blamed:
            self.in_memory -= 1
            self.tracked.wait(rest[0], tries, step)
        if self._lanes.common.batches:
            again = [self.tracked.run(message, step) for message in again]
        self._lanes.common.put_back(LazyMessages.of(again))
        self._held = True

    def split(self, run: LaneRun) -> int:
        """Take back independent messages behind a slow or failed one. Returns how many."""
        back = run.split() if not self._orderly else ()
        if back:
            self._lanes.common.put_back(back)
            self._held = True
        return len(back)

    def spread(self, before_s: float) -> tuple[list[LaneRun], int]:
        """Independent messages, as runs, and how many others lost. ORDERLY: those of other groups behind a message that began before."""
        known = len(self._lanes.known)
        runs, taken_back = self._lanes.spread(self.running, before_s)
        self._held = self._held or len(self._lanes.known) > known  # some of them may have nothing yet that is durable
        return runs, taken_back

    def go_on(self, ended: Iterable[LaneRun]) -> list[LaneRun]:
        """ORDERLY: the runs behind these, which need not wait for the next step."""
        runs: list[LaneRun] = []
        for run in ended if self._lanes.by_group else ():
            lane = run.lane
            through = run.done == run.size and run.failure is None and run in self.running
            if through and isinstance(lane, OpenLane) and lane.run is run and lane.ready:
                lane.run = None
                self._lanes.start(lane, runs)
        self.running.update(dict.fromkeys(runs))
        return runs

    def _part(self, run: LaneRun) -> int:
        """Let no other message group wait for this run of a shared lane. Returns how many messages were taken back."""
        assert isinstance(run.lane, OpenLane), "it is of a shared lane"
        back = run.split()
        self._lanes.part(run.lane, back)
        self._held = True
        return len(back)

    def _behind_marker(self, lane: Lane | OpenLane, rest: list[MessageView], delivered: list[MessageView], step: Step) -> Lane:
        if isinstance(lane, OpenLane):
            return self._block(lane, rest, delivered, step)
        lane.ready.extendleft(reversed(rest))
        return lane

    def _block(self, opened: OpenLane, rest: list[MessageView], delivered: list[MessageView], step: Step) -> Lane:
        key = self._hash(rest[0])
        suspects = self.tracked.take_suspects(lambda message: self._hash(message) == key)
        if opened is self._lanes.common:
            rest = [message if self._hash(message) == key else self.tracked.run(message, step) for message in rest]
        if opened is self._lanes.common or opened.shared:
            own = self._lanes.take_group(opened, key, rest)
            self._held = True
        else:
            own = [*rest, *(message for part in opened.ready for message in part)]
            self._lanes.drop(opened)
        lane = Lane(key, batches=opened.batches)
        lane.batch_max = 0 if opened is self._lanes.common else opened.batch_max
        opened.batch_max = 0 if opened.shared else opened.batch_max
        self.in_memory -= len(own)
        lane.ready = deque(sorted([*own, *suspects], key=attrgetter("offset")))
        step.behind += [message.offset for message in lane.ready]
        delivered = [message for message in delivered if self._hash(message) == key]
        delivered += [message for message in lane.ready if message.offset in self.tracked.tries]
        waiting = Tries(MessageState.WAITING, max(self.tracked.of(message).attempts for message in delivered))
        self.tracked.forget(lane.ready, step)
        self.blocked.add(lane, Marker(rest[0].offset, max(message.offset for message in delivered) + 1, waiting))
        return lane

    def _hash(self, message: MessageView) -> int:
        return self._hashes.of(message.message_group)

    def _give_up_suspects(self, cell: QueueCell, step: Step) -> None:
        """Suspects that ended their process, alone, as often as a message may fail, count as failed."""
        most, self._hopeless = self.settings.max_attempts, False
        if most is None:
            return
        alone = [offset for offset in self.tracked.suspects if self.tracked.tries[offset].strikes >= most]
        lanes = self.blocked.hopeless(most)
        room: int | None = None
        if not (self._orderly and self.settings.dead_letter_policy is DeadLetterPolicy.PARK):
            room = max(0, self._limits.letters - len(cell.dead_letters.assigned) - len(step.letters))
            self._hopeless = len(alone) + len(lanes) > room
        chosen = set(alone[:room])
        for message in self.tracked.take_suspects(lambda message: message.offset in chosen):
            self.in_memory += 1
            own, tries = self._lanes.of(message.message_group), self.tracked.of(message)
            self._give_up(own, [message], [message], tries, ENDED_ITS_PROCESS, step)
        for lane in lanes[: None if room is None else max(0, room - len(chosen))]:
            assert lane.marker is not None, "a blocked group has a marker"
            self._give_up(lane, [], [], lane.marker.tries, ENDED_ITS_PROCESS, step)

    def _give_up(
        self,
        lane: Lane | OpenLane,
        rest: list[MessageView],
        delivered: list[MessageView],
        tries: Tries,
        reason: str,
        step: Step,
    ) -> None:
        if not self._orderly:
            self.in_memory -= 1
            self.tracked.forget(rest[:1], step)
            step.letters.append(GivenUpMessage(rest[0], tries.attempts, reason))
            return
        lane = self._behind_marker(lane, rest, delivered, step)
        if self.settings.dead_letter_policy is DeadLetterPolicy.PARK:
            self.blocked.park(lane, tries, step)
        else:
            step.letters.append(GivenUpMessage(lane.ready[0], tries.attempts, reason))
            self.blocked.pass_over(lane, step)

    def _run_suspects(self, step: Step) -> None:
        if not self.tracked.all_suspects_loaded:
            return
        for message in self.tracked.take_suspects(self.blocked.is_behind) if self._orderly and self.blocked else ():
            self.blocked.take_over(message, self.tracked.of(message), step)
            self.tracked.forget((message,), step)
        if self.blocked and any(self.blocked.holds(self.tracked.messages[offset]) for offset in self.tracked.suspects):
            return
        wave = self.tracked.take_wave(self._limits.window, step)
        runs = self._lanes.wave(wave)
        step.runs += runs
        self._waves += len(runs)
        self.in_memory += len(wave)

    # --- Fresh messages

    def _grant(self, step: Step) -> None:
        touched: dict[OpenLane, None] = {}
        while self._loaded:
            messages, filtered, limit = self._loaded.popleft()
            step.filtered = step.filtered.union(filtered)
            if self._orderly:
                self.in_memory -= self._lanes.take(messages, self.blocked, touched, step)
            else:
                step.granted += messages.offsets
                step.runs += [LaneRun(self._lanes.common, part) for part in self._lanes.parts(messages)]
            self.next_fresh = limit
        for lane in touched:
            self._lanes.start(lane, step.runs)

    def _stall(self, floor: int, step: Step) -> None:
        """Block runs that began half a window ago, so that they do not hold the floor."""
        bound = self.next_fresh - self._limits.window // 2
        for run in list(self.running) if bound > floor else ():
            lane = run.lane
            if not isinstance(lane, OpenLane) or run.wave or run in step.runs_now or run.taken == run.size:
                continue
            if self._is_full:
                break
            if lane.shared:
                if min(run.messages.offsets[run.taken :]) >= bound or not self._set_apart(run, step):
                    continue
            elif run.messages.offsets[run.taken] >= bound:
                continue
            elif not run.ended:
                step.taken_back += self.split(run)
            if not (rest := run.messages[run.taken :]):
                continue  # every message of it that was begun is done
            if not self._lanes.by_group:
                for message in rest:
                    self.tracked.set(message.offset, self.tracked.of(message), step)
                continue
            blocked = self._lanes.stalled(lane, run)
            self.in_memory -= len(rest) + len(blocked.ready)
            step.behind += [message.offset for message in (*rest, *blocked.ready)]
            self.blocked.add(
                blocked, Marker(rest[0].offset, rest[-1].offset + 1, Tries(MessageState.RUNNING)), running=rest, step=step
            )

    def _set_apart(self, run: LaneRun, step: Step) -> bool:
        """Leave a run of a shared lane nothing but its call under way. Returns whether there is one."""
        if not run.ended and run.claim():
            run.ended = True
            step.taken_back += run.size
            del self.running[run]
            assert isinstance(run.lane, OpenLane), "it is of a shared lane"
            run.lane.run = None
            self._lanes.part(run.lane, run.messages)
            self._held = True
            return False
        taken_back = self._part(run)
        if not run.ended:
            step.taken_back += taken_back
            if run.timed_out_at is None:
                self._take_successes(run, run.under_way(), step)
        return True

    # --- The end

    def _drain(self, step: Step, cell: QueueCell, now_ms: int) -> None:
        """Start nothing more. Once nothing runs, drop caught-up groups, and give back unstarted messages: fresh where nothing behind is settled, else
        as suspects without an attempt.
        """
        self._loaded.clear()
        for run in self.running:
            run.cancelled = True
        if self.running:
            return
        self.blocked.due(now_ms, step, self.next_fresh)
        behind = step.apply(cell).settled.limit
        left = self._lanes.take_all()
        self.tracked.leave(left, behind, step)
        self.in_memory -= len(left)
        self.tracked.stop_all(self._limits.window, step)
