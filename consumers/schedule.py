"""What of one queue may run next, and what its cell must say before. No I/O: the engine reads, writes and runs.

A message is *loaded* from the log, *granted* by a write of the cell, run by a handler, and *settled* by a later write. A failed one goes
to the waiting list (CONCURRENT), or its message group is blocked by a marker (ORDERLY, `Blocked`). What was in flight in an owner that
died is run first, in limited company.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence

from ..coordinator.cell import Marker, QueueCell, State, Tries
from ..coordinator.groups import DeadLetterPolicy, DeliveryOrder, GroupSettings
from ..coordinator.offsets import OffsetSet
from ..log.messages import MessageView
from .blocked import Blocked
from .lanes import Failure, Lane, Run
from .limits import Limits, Mode
from .step import Failed, Letter, Step


class Schedule:
    """The messages of one queue in one owner. Made anew by each take and each reset."""

    def __init__(self, settings: GroupSettings, cell: QueueCell, *, limits: Limits, chance: float = 0.5) -> None:
        self.settings = settings
        """The group's; retry policy, attempts and dead-letter policy may change on the way."""
        self._orderly = settings.delivery_order is DeliveryOrder.ORDERLY
        self._limits = limits
        self._chance = chance
        """Of the jitter of this owner's retries."""
        self._lanes: dict[str | None, Lane] = {}
        self._common = Lane(None, batches=limits.batch_of is not None)
        """CONCURRENT: of all messages. ORDERLY with batches of the queue: of all groups that are not blocked."""
        self._by_group = self._orderly and limits.batch_of != "queue"
        self.blocked = Blocked(cell, limits)
        self._tries = dict(cell.tries)
        """Of messages tracked by themselves."""
        self._messages: dict[int, MessageView] = {}
        """Those of them that are in memory and not running."""
        self._due = [(tries.due_ms, offset) for offset, tries in cell.tries.items() if tries.state is State.WAITING]
        heapq.heapify(self._due)
        self._has_out = any(tries.state is State.OUT for tries in cell.tries.values())
        self.suspects = sorted(offset for offset, tries in cell.tries.items() if tries.state is State.SUSPECT)
        """Messages that were in flight in an owner that died, and not run again yet."""
        self._reported: dict[Run, None] = {}
        self._loaded: deque[tuple[Sequence[MessageView], OffsetSet, int]] = deque()
        self._earliest = 0
        self._waves = 0
        """Runs of suspects under way."""
        self._held = False
        """Whether lanes with granted messages may stand still, because all was quiet."""
        self.next_fresh = max(cell.settled.limit, cell.granted.limit)
        """The first offset that is neither granted, settled nor listed."""
        self.next_load = self.next_fresh
        """The first offset that is to be fetched."""
        self._floor = cell.settled.floor
        self.in_memory = 0
        """Messages that were loaded, and are neither settled nor failed."""
        self.running: dict[Run, None] = {}
        """Runs that the executor has, the oldest first."""

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def load(self, messages: Sequence[MessageView], filtered: OffsetSet, limit: int) -> None:
        """Take fresh messages up to ``limit``; those whose offsets are ``filtered`` are not the group's."""
        self._loaded.append((messages, filtered, limit))
        self.next_load = limit
        self.in_memory += len(messages)

    def report(self, run: Run) -> None:
        """Note that a run has moved along, or ended."""
        self._reported[run] = None

    def recalled(self, messages: Iterable[MessageView], start: int, limit: int) -> None:
        """Take messages from ``start`` up to ``limit`` that were read again."""
        messages = list(messages)
        for message in messages:
            if message.offset in self._tries:
                self._messages[message.offset] = message
        self.blocked.recalled(messages, start, limit, self.next_fresh)

    def expired(self, earliest: int) -> None:
        """Note that retention took the messages below ``earliest``: those that were to be run again never will be."""
        self._earliest = earliest

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """How many fresh messages the window and the cell have room for."""
        if self.suspects or self._waves or len(self.blocked) + len(self._tries) >= self._limits.tracked:
            return 0
        return max(0, self._limits.window - (self.next_load - self._floor))

    def missing(self, now_ms: int) -> list[int]:
        """Offsets of messages that are to be run again and are not in memory: suspects, and waiting ones that are due."""
        wanted = [*self.suspects, *(offset for due, offset in self._due if due <= now_ms and self._is_waiting(due, offset))]
        return sorted({offset for offset in wanted if offset not in self._messages})

    def next_due_ms(self) -> int | None:
        """When something that waits is due."""
        while self._due and not self._is_waiting(*self._due[0]):
            heapq.heappop(self._due)
        dues = [self._due[0][0]] if self._due else []
        return min([*dues, *self.blocked.next_due_ms()], default=None)

    def next_expiry_ms(self) -> int | None:
        """When the next message that was handed out by handle comes back."""
        out = [tries.due_ms for tries in self._tries.values() if tries.state is State.OUT] if self._has_out else []
        return min([*out, *self.blocked.expiries_ms()], default=None)

    def adopt(self, cell: QueueCell) -> None:
        """Take what others may have changed: messages that were handed out by handle, and parked groups."""
        for offset, before in list(self._tries.items()) if self._has_out else ():
            if before.state is not State.OUT:
                continue
            tries = cell.tries.get(offset)
            if tries is None:
                del self._tries[offset]
            elif tries != before:
                self._tries[offset] = tries
                if tries.state is State.WAITING:
                    heapq.heappush(self._due, (tries.due_ms, offset))
        self.blocked.adopt(cell)

    def is_urgent(self, now_ms: int) -> bool:
        """Whether the next step would do more than note successes, which can wait a little for company."""
        due_ms = self.next_due_ms()
        return (
            bool(self._loaded or self._held or (self.suspects and not self._waves))
            or (due_ms is not None and due_ms <= now_ms)
            or any(run.failure or run.lane.ready or run.lane.marker or run.wave for run in self._reported)
        )

    @property
    def has_reports(self) -> bool:
        """Whether something moved on since the last step."""
        return bool(self._reported)

    def wants_solo(self, now_ms: int) -> bool:
        """Whether something is to be run with nothing else in flight in the whole process."""
        return (bool(self.suspects) and self._tries[self.suspects[0]].company == 1) or self.blocked.wants_solo(now_ms)

    # --- The next step ----------------------------------------------------------------------------------------------------------

    def plan(self, now_ms: int, cell: QueueCell, mode: Mode = Mode.USUAL) -> Step:
        """What to do next. Whoever asks must carry it out, or give up the queue."""
        self._floor = cell.settled.floor
        step = Step()
        reported, self._reported = self._reported, {}
        for run in reported:
            if run in self.running:
                self._take_report(run, now_ms, step, mode)
        if mode in (Mode.USUAL, Mode.SOLO):
            self._give_up_suspects(step)
        if self._earliest:
            self._let_go(step)
        if mode is Mode.DRAIN:
            self._drain(step, cell)
        elif mode is Mode.QUIET:
            self._held = True
        elif mode is Mode.SOLO:
            self._run_solo(now_ms, step)
        else:
            self._go_on(now_ms, step)
        for run in (*step.runs_now, *step.runs):
            self.running[run] = None
        return step

    def _go_on(self, now_ms: int, step: Step) -> None:
        self._stall(step)
        if self._held:
            self._held = False
            for lane in (*self._lanes.values(), self._common):
                self._start(lane, step.runs)
            while self._common.ready and not self._orderly:
                self._common.run = None
                self._start(self._common, step.runs)
        if self.suspects:
            if not self._waves and self._tries[self.suspects[0]].company != 1 and not self._common.ready and not self._common.run:
                self._run_suspects(step)
        elif not self._waves:
            self._run_waiting(now_ms, step)
            self._grant(step)
        self.blocked.run_due(now_ms, step, self.next_fresh)

    def _let_go(self, step: Step) -> None:
        gone = [
            offset
            for offset, tries in self._tries.items()
            if offset < self._earliest and tries.state not in (State.RUNNING, State.OUT)
        ]
        step.settled += gone
        for offset in gone:
            self._untrack(offset, step)
        self.suspects = [offset for offset in self.suspects if offset >= self._earliest]
        self.blocked.expired(self._earliest, step)
        self._earliest = 0

    # --- Reports

    def _take_report(self, run: Run, now_ms: int, step: Step, mode: Mode) -> None:
        lane = run.lane
        done = run.done if run.timed_out_at is None else run.timed_out_at
        ended = run.ended or run.timed_out_at is not None
        moved = run.messages[run.taken : done]
        run.taken = done
        if ended:
            del self.running[run]
            lane.run = None
            self._waves -= run.wave
        if lane.marker is not None:
            self.blocked.moved(lane, run, len(moved), ended, step)
        else:
            self.in_memory -= len(moved)
            step.settled += [message.offset for message in moved]
            for message in moved if self._tries else ():
                self._untrack(message.offset, step)
        if not ended:
            return
        rest = list(run.messages[done:])
        if run.failure is not None:
            self._failed(lane, rest, run.failure, now_ms, step)
        elif lane.marker is None:
            self._ended(lane, rest, run, step, mode)

    def _ended(self, lane: Lane, rest: list[MessageView], run: Run, step: Step, mode: Mode) -> None:
        """Go on in a lane that is not blocked; ``rest`` was not started."""
        if not rest:
            lane.batch_max = 0
        if run.wave and rest:
            self.in_memory -= len(rest)
            self._messages.update((message.offset, message) for message in rest)
            self.suspects = sorted([*self.suspects, *(message.offset for message in rest)])
        else:
            lane.ready.extendleft(reversed(rest))
        if mode is Mode.USUAL and lane.ready:
            self._start(lane, step.runs_now)
        elif lane.ready:
            self._held = True
        elif self._by_group and lane.run is None:
            self._lanes.pop(lane.group, None)

    def _failed(self, lane: Lane, rest: list[MessageView], failure: Failure, now_ms: int, step: Step) -> None:
        head, delivered = rest[0], rest if lane.batches else rest[:1]
        before = lane.marker.tries if lane.marker is not None else self._tries.get(head.offset, Tries(State.RUNNING))
        if not failure.blamed:
            lane.batch_max = max(1, len(rest) // 2)
            tries, gives_up = Tries(State.WAITING, before.attempts, before.strikes), False
        else:
            strikes, most = before.strikes + 1, self.settings.max_attempts
            delay_ms = failure.retry_after_ms
            if delay_ms is None:
                delay_ms = round(self.settings.retry.delay(strikes, self._chance).total_seconds() * 1000)
            tries = Tries(State.WAITING, before.attempts, strikes, now_ms + delay_ms)
            gives_up = failure.rejected or (most is not None and strikes >= most)
        step.failed.append(Failed(head, failure.reason, None if gives_up else tries.due_ms, 1 if failure.blamed else len(rest)))
        if not self._orderly or (lane is self._common and not failure.blamed):
            self._failed_alone(rest, tries, gives_up, failure, step)
            return
        if gives_up:
            self._give_up(lane, rest, tries, failure.reason, step)
            return
        if lane.marker is None:
            lane = self._block(lane, rest, step)
        else:
            lane.ready.extendleft(reversed(rest))
        self.blocked.wait(lane, tries, delivered[-1].offset + 1, step)

    def _failed_alone(self, rest: list[MessageView], tries: Tries, gives_up: bool, failure: Failure, step: Step) -> None:
        """Let the first wait, or give it up; what was delivered with it in a batch is run again, in a batch not larger than may be."""
        again = rest
        if failure.blamed:
            again = rest[1:]
            if gives_up:
                self._give_up(self._common, rest, tries, failure.reason, step)
            else:
                self.in_memory -= 1
                self._wait(rest[0], tries, step)
        self._common.ready.extendleft(reversed(self._once_more(again, step)))
        self._held = True

    def _once_more(self, messages: Sequence[MessageView], step: Step) -> list[MessageView]:
        """Count one more delivery of messages that were in a batch which failed at another."""
        for message in messages:
            before = self._tries.get(message.offset, Tries(State.RUNNING))
            self._tries[message.offset] = step.tries[message.offset] = Tries(State.RUNNING, before.attempts + 1, before.strikes)
        return [self._again(message) for message in messages]

    def _wait(self, message: MessageView, tries: Tries, step: Step) -> None:
        self._tries[message.offset] = step.tries[message.offset] = tries
        heapq.heappush(self._due, (tries.due_ms, message.offset))
        if len(self._messages) < self._limits.retained:
            self._messages[message.offset] = message

    def _block(self, lane: Lane, rest: list[MessageView], step: Step) -> Lane:
        """Put the group of the first message behind a marker, with all of it that is in memory."""
        group = rest[0].message_group
        suspects = self._suspects_of(group)
        if lane is self._common:
            own = [message for message in (*rest, *lane.ready) if message.message_group == group]
            delivered = self._once_more([message for message in rest if message.message_group != group], step)
            lane.ready = deque([*delivered, *(message for message in lane.ready if message.message_group != group)])
            self._held = True
            lane = Lane(group, batches=lane.batches)
        else:
            own = [*rest, *lane.ready]
            self._lanes.pop(group, None)
        self.in_memory -= len(own)
        lane.ready = deque(sorted([*own, *suspects], key=_offset))
        step.behind += [message.offset for message in lane.ready]
        delivered = [message for message in (rest if lane.batches else rest[:1]) if message.message_group == group]
        delivered += [message for message in lane.ready if message.offset in self._tries]
        attempts = max(self._tries.get(message.offset, Tries(State.RUNNING)).attempts for message in delivered)
        limit = max(message.offset for message in delivered) + 1
        for message in lane.ready if self._tries else ():
            self._untrack(message.offset, step)
        self.blocked.add(lane, Marker(rest[0].offset, limit, Tries(State.WAITING, attempts)))
        return lane

    def _give_up_suspects(self, step: Step) -> None:
        """Treat those that ended their process alone, as often as a message may fail, as messages that failed so often."""
        most = self.settings.max_attempts
        if most is None:
            return
        for offset in [offset for offset in self.suspects if self._tries[offset].strikes >= most and offset in self._messages]:
            if offset in self._messages:
                self.suspects.remove(offset)
                message, tries = self._messages.pop(offset), self._tries[offset]
                self.in_memory += 1
                self._give_up(self._lane(message), [message], tries, _ENDED_ITS_PROCESS, step)
        for lane in self.blocked.hopeless(most):
            assert lane.marker is not None, "a blocked group has a marker"
            self._give_up(lane, [], lane.marker.tries, _ENDED_ITS_PROCESS, step)

    def _give_up(self, lane: Lane, rest: list[MessageView], tries: Tries, reason: str, step: Step) -> None:
        """Apply the dead-letter policy to the first of a lane."""
        if not self._orderly:
            self.in_memory -= 1
            self._untrack(rest[0].offset, step)
            step.letters.append(Letter(rest[0], tries.attempts, reason))
            return
        if lane.marker is None:
            lane = self._block(lane, rest, step)
        else:
            lane.ready.extendleft(reversed(rest))
        if self.settings.dead_letter_policy is DeadLetterPolicy.PARK:
            self.blocked.park(lane, tries, step)
        else:
            step.letters.append(Letter(lane.ready[0], tries.attempts, reason))
            self.blocked.pass_over(lane, step)

    def _suspects_of(self, group: str | None) -> list[MessageView]:
        """Take the suspects of a group out of their list."""
        found = [self._messages[offset] for offset in self.suspects if self._messages[offset].message_group == group]
        for message in found:
            del self._messages[message.offset]
        gone = {message.offset for message in found}
        self.suspects = [offset for offset in self.suspects if offset not in gone] if gone else self.suspects
        return found

    # --- Messages tracked by themselves

    def _run_waiting(self, now_ms: int, step: Step) -> None:
        left = []
        while self._due and self._due[0][0] <= now_ms:
            due_ms, offset = heapq.heappop(self._due)
            if not self._is_waiting(due_ms, offset):
                continue
            if offset not in self._messages:
                left.append((due_ms, offset))  # it is being read
                continue
            before = self._tries[offset]
            self._tries[offset] = step.tries[offset] = Tries(State.RUNNING, before.attempts + 1, before.strikes)
            step.runs.append(Run(self._common, [self._again(self._messages.pop(offset))]))
            self.in_memory += 1
        for item in left:
            heapq.heappush(self._due, item)

    def _run_suspects(self, step: Step) -> None:
        """Run some of the suspects, no more together than any of them may be; the next when these are done."""
        if any(offset not in self._messages for offset in self.suspects):
            return
        if self._orderly:
            self.suspects = self.blocked.take_over(self.suspects, self._tries, self._messages, step)
        chosen: list[int] = []
        company = self._limits.window
        for offset in self.suspects:
            most = min(company, self._tries[offset].company)
            if len(chosen) >= most:
                break
            company = most
            chosen.append(offset)
        self.suspects = self.suspects[len(chosen) :]
        lanes: dict[Lane, list[MessageView]] = {}
        for offset in chosen:
            before = self._tries[offset]
            self._tries[offset] = step.tries[offset] = Tries(State.RUNNING, before.attempts + 1, before.strikes, 0, company)
            message = self._again(self._messages.pop(offset))
            lanes.setdefault(self._lane(message), []).append(message)
        for lane, messages in lanes.items():
            size = 1 if lane is self._common and not lane.batches else len(messages)
            for at in range(0, len(messages), size):
                lane.run = Run(lane, messages[at : at + size], wave=True)
                step.runs.append(lane.run)
                self._waves += 1
            self.in_memory += len(messages)

    def _run_solo(self, now_ms: int, step: Step) -> None:
        if self.suspects and self._tries[self.suspects[0]].company == 1:
            self._run_suspects(step)
        else:
            self.blocked.run_solo(now_ms, step)

    def _again(self, message: MessageView) -> MessageView:
        return message._replace(delivery_attempt=self._tries[message.offset].attempts)

    def _untrack(self, offset: int, step: Step) -> None:
        self._tries.pop(offset, None)
        step.tries.pop(offset, None)

    def _is_waiting(self, due_ms: int, offset: int) -> bool:
        tries = self._tries.get(offset)
        return tries is not None and tries.state is State.WAITING and tries.due_ms == due_ms

    # --- Fresh messages

    def _grant(self, step: Step) -> None:
        touched: dict[Lane, None] = {}
        while self._loaded:
            messages, filtered, limit = self._loaded.popleft()
            if filtered:
                step.filtered = step.filtered.union(filtered)
            if self._orderly:
                self._grant_in_lanes(messages, touched, step)
            else:
                step.granted += [message.offset for message in messages]
                size = self._limits.run_messages if self._common.batches else 1
                step.runs += [Run(self._common, messages[at : at + size]) for at in range(0, len(messages), size)]
            self.next_fresh = limit
        for lane in touched:
            self._start(lane, step.runs)

    def _grant_in_lanes(self, messages: Sequence[MessageView], touched: dict[Lane, None], step: Step) -> None:
        lanes, granted, blocked = self._lanes, step.granted, self.blocked
        for message in messages:
            group = message.message_group
            lane = lanes.get(group)
            if lane is None:
                if blocked and blocked.pass_by(message):
                    step.listed.append(message.offset)
                    self.in_memory -= 1
                    continue
                lane = self._lane(message)
            if lane.run is None:
                touched[lane] = None
            lane.ready.append(message)
            granted.append(message.offset)

    def _lane(self, message: MessageView) -> Lane:
        if not self._by_group:
            return self._common
        lane = self._lanes.get(message.message_group)
        if lane is None:
            lane = self._lanes[message.message_group] = Lane(message.message_group, batches=self._common.batches)
        return lane

    def _start(self, lane: Lane, runs: list[Run]) -> None:
        if lane.run is None and lane.ready:
            most = lane.batch_max or self._limits.run_messages
            if not lane.batches and len(self._lanes) < self._limits.few_lanes:
                most *= self._limits.few_lanes
            count = min(len(lane.ready), most)
            lane.run = Run(lane, [lane.ready.popleft() for _ in range(count)])
            runs.append(lane.run)

    def _stall(self, step: Step) -> None:
        """Move what has been running since the window was half as far to where it does not hold the floor."""
        bound = self.next_fresh - self._limits.window // 2
        for run in list(self.running) if bound > self._floor else ():
            lane, head = run.lane, run.messages[min(run.taken, len(run.messages) - 1)].offset
            if lane.marker is not None or run.wave or run in step.runs_now:
                continue
            if head >= bound:
                break
            rest = list(run.messages[run.taken :])
            if not self._by_group:
                for message in rest:
                    before = self._tries.get(message.offset, Tries(State.RUNNING))
                    self._tries[message.offset] = step.tries[message.offset] = before
                continue
            self._lanes.pop(lane.group, None)
            self.in_memory -= len(rest) + len(lane.ready)
            step.behind += [message.offset for message in (*rest, *lane.ready)]
            self.blocked.add(lane, Marker(rest[0].offset, rest[-1].offset + 1, Tries(State.RUNNING)), running=rest, step=step)

    # --- The end

    def _drain(self, step: Step, cell: QueueCell) -> None:
        """Start nothing more; once nothing runs, give back what is granted and was not started.

        It is fresh again where nothing behind it is settled; else it is left to the next owner as suspects are, without an attempt.
        """
        self._loaded.clear()
        for run in self.running:
            run.cancelled = True
        if self.running:
            return
        behind = step.apply(cell).settled.limit
        for lane in (*self._lanes.values(), self._common):
            for message in lane.ready:
                if message.offset not in self._tries and message.offset >= behind:
                    step.given_back.append(message.offset)
                else:
                    before = self._tries.get(message.offset, Tries(State.SUSPECT, 0))
                    step.tries[message.offset] = Tries(State.SUSPECT, before.attempts, before.strikes, 0, self._limits.window)
            self.in_memory -= len(lane.ready)
            lane.ready.clear()
        for offset, tries in self._tries.items():
            if tries.state is State.RUNNING:
                step.tries[offset] = Tries(State.SUSPECT, tries.attempts, tries.strikes, 0, self._limits.window)
        self._tries.update(step.tries)


_ENDED_ITS_PROCESS = "its process died each time it ran alone"


def _offset(message: MessageView) -> int:
    return message.offset
