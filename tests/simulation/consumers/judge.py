"""Judges the history of a run with consumers: all that the coordinator promises, message by message.

The rules are numbered as in the reliability plan: C1 nothing lost, C2 nothing from nowhere, C3 a place has one message, C4 order of a
message group, C5 what is settled never runs again, C6 what is settled stays so, C7 attempts are durable before they start, C8 dead letters
by right and once, C9 one owner at a time, C10 all comes to an end, C15 order of a message group across queues of a topic that grew.
(C11, isolation, needs two runs: `test_isolation`.)
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict

from msgspec.structs import replace

from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.groups.record import DeadLetterPolicy, GroupSettings
from penstock.coordinator.queues.cell import QueueCell
from penstock.log.filter.tags import TagFilter
from tests.simulation.consumers.books import Handler, LeftOut, Queue, Tags, name_of
from tests.simulation.consumers.judge_end import judge_end
from tests.simulation.consumers.judge_former import NO_GROUP, judge_former
from tests.simulation.consumers.records import (
    Altered,
    Answer,
    BackedUp,
    Died,
    Ended,
    History,
    Line,
    Positioned,
    PutBack,
    Skipped,
    Started,
    Stood,
    Token,
    Wrote,
)
from tests.simulation.consumers.standing import Standing, Where, standing

TIMED = 0.9
"""Clocks that run fast take so much of the true time for all of it."""
STALE_S = 60.0
"""So long a member may work by settings that were altered."""
LATE_S = 3.0
"""A handler that ran that much longer than it may counts no more, whenever its consumer looked: while its process stands still, none looks."""
_MANY = 40


def judge(history: History) -> list[str]:
    """Everything that is wrong with it, in words."""
    return _Judge(history).judge()


class _Judge:
    def __init__(self, history: History) -> None:
        self._history = history
        self._counts = history.counts
        self._wrong = list(history.wrong)
        self._queues: dict[Line, Queue] = {}
        self._plain: dict[str, dict[int, int]] = {}
        """By group: the hash of each message group without a secret, by that with one."""
        self._running: dict[int, Handler] = {}
        self._by_process: dict[str, set[int]] = defaultdict(set)
        self._solo: dict[str, Started] = {}
        """The one that is alone in a process."""
        self._stood: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """By process: since when it stood still, and until when."""
        self._settings: dict[str, list[tuple[float, GroupSettings]]] = {}
        """Of groups that were altered: each since when."""
        self._now_s = 0.0
        self._backup: tuple[dict[Line, Queue], dict[str, list[tuple[float, GroupSettings]]]] = ({}, {})

    def judge(self) -> list[str]:
        for record in self._history.records:
            self._now_s = record.at_s
            match record:
                case Wrote():
                    self._wrote(self._queue(record.line), self._without_secret(record.line[0], record.cell))
                case Started():
                    self._started(record)
                case Ended():
                    self._ended(record)
                case Died():
                    self._died(record.process)
                case Stood():
                    self._stood[record.process].append((record.at_s, record.until_s))
                case Positioned():
                    self._queue(record.line).positions[record.generation] = record.offset
                case Skipped():
                    self._skipped(record)
                case BackedUp():
                    self._back_up()
                case PutBack():
                    self._put_back()
                case Altered():
                    self._altered(record)
            if len(self._wrong) > _MANY:
                return self._wrong
        self._wrong += (f"{what}, in the end" for what in judge_end(self._history, self._queues))
        return self._wrong

    def _back_up(self) -> None:
        """Keep what is known by now. A handler that runs too long may have its strike in the backup, though its end is never told there."""
        queues = self._queues
        self._backup = copy.deepcopy((queues, self._settings))
        self._queues = self._backup[0]
        for handler in self._running.values():
            if self._is_overdue(handler):
                self._count_timeout(handler)
        self._queues = queues

    def _put_back(self) -> None:
        """Nothing has happened since the backup, but for the dead letters that were written."""
        gone = self._queues
        self._queues, self._settings = copy.deepcopy(self._backup)
        for line, queue in self._queues.items():
            queue.put_back = True
            queue.undone = gone[line].undone | {one for one in gone[line].letters.items() if queue.letters.get(one[0]) != one[1]}
        for line in gone.keys() - self._queues.keys():
            queue = self._queue(line)
            queue.put_back, queue.undone = True, gone[line].undone | set(gone[line].letters.items())
        assert not self._running, "nobody runs"

    def _in_force(self, group: str) -> list[GroupSettings]:
        """By which members of the group may work now."""
        known = self._settings.get(group, [(0.0, self._history.settings[group])])
        ends = [at_s for at_s, _ in known[1:]] + [self._now_s]
        return [settings for (_, settings), end_s in zip(known, ends, strict=True) if end_s >= self._now_s - STALE_S]

    def _altered(self, altered: Altered) -> None:
        for line, queue in self._queues.items():
            if line[0] == altered.group:
                for one in queue.left_out_behind.values():
                    one.filters &= self._filters(queue)
        self._settings.setdefault(altered.group, [(0.0, self._history.settings[altered.group])]).append(
            (self._now_s, altered.settings)
        )

    def _filters(self, queue: Queue) -> Tags:
        """By which the queue's owner may work now."""
        group, topic, _ = queue.line
        return frozenset(TagFilter.parse(settings.filter_of(topic)).tags for settings in self._in_force(group))

    def _left_out(self, queue: Queue, offset: int, generation: int) -> bool:
        """Whether a filter may leave the message out, or did so before the owner had a blocked message before it, and the owner has not
        read it again.
        """
        _, topic, number = queue.line
        tag = self._history.stored[topic, number, offset].tag
        if any(tags is not None and tag not in tags for tags in self._filters(queue)):
            return True
        behind = queue.left_out_behind.get((offset, generation))
        return (
            behind is not None
            and queue.cell is not None
            and behind.epoch == queue.cell.epoch
            and bool(behind.filters & self._filters(queue))
        )

    def _blame(self, rule: str, what: str) -> None:
        self._wrong.append(f"{rule} {self._now_s:.3f} s: {what}")

    def _queue(self, line: Line) -> Queue:
        queue = self._queues.get(line)
        if queue is None:
            queue = self._queues[line] = Queue(line)
            for (topic, number, offset), stored in sorted(self._history.stored.items()):
                if (topic, number) == line[1:]:
                    key = group_hash(stored.message_group, "")
                    queue.places[offset] = key
                    queue.lanes.setdefault(key, []).append(offset)
        return queue

    def _without_secret(self, group: str, cell: QueueCell) -> QueueCell:
        """The cell with markers as of a group without a secret."""
        if group not in self._plain:
            names = {stored.message_group for stored in self._history.stored.values()}
            secrets = self._history.secrets.get(group, ())
            self._plain[group] = {group_hash(name, secret): group_hash(name, "") for name in names for secret in secrets}
        return replace(cell, markers={self._plain[group].get(key, key): marker for key, marker in cell.markers.items()})

    # --- Handlers ---------------------------------------------------------------------------------------------------------------

    def _started(self, started: Started) -> None:
        self._counts["start"] += 1
        company = self._by_process[started.process]
        solo = self._solo.get(started.process)
        if solo is not None and self._is_alone(solo):
            self._blame("C8", f"{name_of(started)} starts beside {name_of(solo)}, which must be alone in {started.process}")
        alone, generations = False, []
        for token in started.tokens:
            generation, stands = self._judge_start(started, token)
            generations.append(generation)
            alone = alone or stands.alone
        self._judge_order(started, generations)
        self._judge_older(started)
        if alone:
            self._counts["start: alone in its process"] += 1
            beside = [run for run in company if not self._is_overdue(self._running[run])]
            if beside or len(started.tokens) > 1:
                self._blame("C8", f"{name_of(started)} must be alone, and runs {beside} go on in {started.process}")
            self._solo[started.process] = started
        self._running[started.run] = Handler(started, tuple(generations))
        company.add(started.run)

    def _is_overdue(self, handler: Handler) -> bool:
        """Whether it runs too long: it was given up, and nobody waits for it."""
        return self._now_s - handler.started.at_s > TIMED * self._history.timeout_s

    def _is_alone(self, started: Started) -> bool:
        """Whether its owner still counts on it to be: not once it ran too long, or lost its queue."""
        if self._is_overdue(self._running[started.run]):
            return False
        token = started.tokens[0]
        queue = self._queue((started.group, token.topic, token.queue))
        return queue.cell is not None and queue.cell.epoch == token.epoch and queue.stands[token.offset].alone

    def _judge_start(self, started: Started, token: Token) -> tuple[int, Standing]:
        queue = self._queue((started.group, token.topic, token.queue))
        offset, cell = token.offset, queue.cell
        stored = self._history.stored.get((token.topic, token.queue, offset))
        if stored is None or stored.message_id != token.message_id:
            self._blame("C2", f"{name_of(started)} is given {token}, where {stored} is stored")
            return 0, Standing(Where.FRESH)
        if cell is None or not cell.owner or cell.epoch != token.epoch:
            now = (cell.owner, cell.epoch) if cell else None
            self._blame("C9", f"{name_of(started)} starts at offset {offset} in epoch {token.epoch}, and the cell is {now}")
            return 0, Standing(Where.FRESH)
        stands, generation = queue.stands[offset], cell.generation
        if not stands.in_flight and (before := queue.before_reset.get(offset)) is not None and before.in_flight:
            self._counts["start: of the generation before a reset"] += 1
            stands, generation = before, queue.generation_before
        if not stands.in_flight:
            self._blame("C7", f"{name_of(started)} starts at offset {offset}, which is not in flight: {stands}")
        if offset < queue.positions.get(generation, 0):
            self._blame("C1", f"{name_of(started)} starts at offset {offset}, before position {queue.positions[generation]}")
        if queue.left_out_behind.pop((offset, generation), None):
            self._counts["left out, and read again by a new filter"] += 1
        queue.starts[offset, generation] += 1
        queue.granted_starts[offset] += 1
        self._counts["start: repeated"] += queue.starts[offset, generation] > 1
        if stands.in_flight and stands.deliveries < queue.starts[offset, generation]:
            self._blame(
                "C7",
                f"{name_of(started)} starts at offset {offset} the {queue.starts[offset, generation]}. time; {stands.deliveries} are durable",
            )
        if stands.in_flight and token.attempt != stands.deliveries:
            self._blame(
                "C7", f"{name_of(started)} is told of attempt {token.attempt} at offset {offset}; {stands.deliveries} is durable"
            )
        return generation, stands

    def _judge_order(self, started: Started, generations: list[int]) -> None:
        """Whatever is before a message in its group, and is the generation's, is done, or was done by this owner."""
        if not self._history.is_orderly(started.group):
            return
        together: set[tuple[str, int, int]] = set()
        for token, generation in zip(started.tokens, generations, strict=True):
            queue = self._queue((started.group, token.topic, token.queue))
            if queue.cell is None or token.offset not in queue.places:
                continue
            for wrong in judge_former(self._history, self._queue, self._counts, queue, token.offset, generation):
                self._blame("C15", f"{name_of(started)} starts at offset {token.offset}, and {wrong}")
            stands = queue.stands if generation == queue.cell.generation else queue.before_reset
            for offset in queue.lanes[queue.places[token.offset]]:
                if offset >= token.offset:
                    break
                if (
                    offset >= queue.positions.get(generation, 0)
                    and stands[offset].where is not Where.DONE
                    and (offset, generation, token.epoch) not in queue.oks
                    and (token.topic, token.queue, offset) not in together
                    and not self._left_out(queue, offset, generation)
                ):
                    self._blame(
                        "C4", f"{name_of(started)} starts at offset {token.offset} before {offset}, which is {stands[offset]}"
                    )
                    break
            together.add((token.topic, token.queue, token.offset))

    def _judge_older(self, started: Started) -> None:
        """No older handler of the same message group runs in this process."""
        if not self._history.is_orderly(started.group):
            return
        lanes = self._lanes_of(started)
        for run in self._by_process[started.process]:
            other = self._running[run].started
            if other.group == started.group and any(_is_older(one, lane) for one in self._lanes_of(other) for lane in lanes):
                self._blame("C4", f"{name_of(started)} starts while {name_of(other)} of the same message group still runs there")

    def _lanes_of(self, started: Started) -> set[tuple[str, int, int]]:
        lanes = set()
        for token in started.tokens:
            queue = self._queue((started.group, token.topic, token.queue))
            lanes.add((token.topic, token.queue, queue.places.get(token.offset, -1)))
        return lanes

    def _ended(self, ended: Ended) -> None:
        handler = self._running.pop(ended.run)
        started = handler.started
        self._by_process[started.process].discard(ended.run)
        if self._solo.get(started.process) is started:
            del self._solo[started.process]
        self._counts[f"end: {ended.answer.value}"] += 1
        took_s = ended.at_s - started.at_s
        in_time = self._awake_s(started.process, started.at_s + self._history.timeout_s) < LATE_S
        for place, (token, generation) in enumerate(zip(started.tokens, handler.generations, strict=True)):
            queue = self._queue((started.group, token.topic, token.queue))
            if place < ended.succeeded:
                if in_time:
                    queue.oks.add((token.offset, generation, token.epoch))
                    if took_s > TIMED * self._history.timeout_s:
                        queue.overdue.add((token.offset, generation, token.epoch))
                else:
                    self._counts["end: too late"] += 1
            elif place == ended.succeeded:
                if ended.answer is Answer.REJECTED:
                    queue.given_up.add((token.offset, generation))
                counted_as_timeout = len(started.tokens) == 1 and took_s > TIMED * self._history.timeout_s
                if ended.answer in (Answer.FAILED, Answer.REJECTED) and in_time and not counted_as_timeout:
                    queue.strikes[token.offset, generation] += 1
        if ended.answer is Answer.CUT or took_s > TIMED * self._history.timeout_s:
            self._count_timeout(handler)

    def _awake_s(self, process: str, since_s: float) -> float:
        """How long the process has run since then: whoever stands still gives nothing up."""
        awake_s = 0.0
        for from_s, until_s in self._stood[process]:
            awake_s += max(0.0, min(from_s, self._now_s) - since_s)
            since_s = max(since_s, until_s)
        return awake_s + max(0.0, self._now_s - since_s)

    def _count_timeout(self, handler: Handler) -> None:
        started = handler.started
        if len(started.tokens) == 1:
            token = started.tokens[0]
            queue = self._queue((started.group, token.topic, token.queue))
            queue.strikes[token.offset, handler.generations[0]] += 1

    def _died(self, process: str) -> None:
        self._solo.pop(process, None)
        for run in self._by_process.pop(process, set()):
            handler = self._running.pop(run)
            if self._is_overdue(handler):
                self._count_timeout(handler)

    # --- Cells ------------------------------------------------------------------------------------------------------------------

    def _wrote(self, queue: Queue, cell: QueueCell) -> None:
        before, queue.cell = queue.cell, cell
        if before is not None:
            self._judge_owner(queue, before, cell)
            if cell.generation < before.generation:
                self._blame("C6", f"{queue.line}: generation {before.generation} went back to {cell.generation}")
        if cell.generation not in queue.positions:
            self._blame("C1", f"{queue.line}: generation {cell.generation} is nobody's order")
        old = queue.stands
        queue.stands = {offset: standing(cell, offset, group) for offset, group in queue.places.items()}
        if before is None or cell.generation != before.generation:
            self._counts["reset"] += before is not None
            queue.before_reset = old if before is not None and before.epoch == cell.epoch else {}
            queue.generation_before = before.generation if before is not None else 0
            position = queue.positions.get(cell.generation, 0)
            old = {offset: Standing(Where.DONE if offset < position else Where.FRESH) for offset in queue.places}
        elif before.epoch != cell.epoch:
            queue.before_reset = {}
        self._judge_new_letters(queue, before, cell)
        for offset, now in queue.stands.items():
            if (was := old[offset]) is not now and was != now:
                self._judge_change(queue, before, offset, was, now)

    def _judge_owner(self, queue: Queue, before: QueueCell, cell: QueueCell) -> None:
        if cell.epoch < before.epoch:
            self._blame("C9", f"{queue.line}: a write of epoch {cell.epoch} was accepted in epoch {before.epoch}")
        elif cell.epoch == before.epoch and cell.owner != before.owner and (cell.owner or not before.owner):
            self._blame("C9", f"{queue.line}: epoch {cell.epoch} has two owners, {before.owner!r} and {cell.owner!r}")
        elif cell.epoch > before.epoch:
            self._counts["take: of a queue that was given back" if not before.owner else "take: from the dead"] += 1
            self._counts["take: suspects"] += before.in_flight > 0
            for offset, stands in queue.stands.items():
                if stands.alone:
                    self._counts["death alone: a strike"] += 1
                    queue.strikes[offset, before.generation] += 1

    def _judge_change(self, queue: Queue, before: QueueCell | None, offset: int, was: Standing, now: Standing) -> None:
        where, cell = f"{queue.line} offset {offset}", queue.cell
        assert cell is not None, "it was just written"
        generation = cell.generation
        if was.where is Where.DONE and now.where is Where.BEHIND and (offset, generation) in queue.left_out:
            self._counts["left out, and behind a blocked message later"] += 1
            queue.left_out.discard((offset, generation))
            reads_again = before is None or queue.places[offset] in before.markers  # its head went back
            filters = frozenset() if reads_again else self._filters(queue)
            queue.left_out_behind[offset, generation] = LeftOut(cell.epoch, filters)
        elif was.where is Where.DONE:
            self._blame("C6", f"{where} was settled, and is {now}")
            return
        if now.where is Where.DONE:
            done = (offset, generation, cell.epoch) in queue.oks or (offset, generation) in queue.by_letter
            if not done and self._left_out(queue, offset, generation):
                self._counts["left out by a filter"] += 1
                queue.left_out.add((offset, generation))
                queue.left_out_behind.pop((offset, generation), None)
            elif not done:
                told = [epoch for one, of, epoch in queue.oks if (one, of) == (offset, generation)]
                self._blame(
                    "C1", f"{where}, {was}, is settled in epoch {cell.epoch}, and no handler of it succeeded (but in {told})"
                )
            return
        if now.where is Where.GRANTED:
            if was.where is not Where.FRESH:
                self._blame("C6", f"{where} is granted anew, and was {was}")
            queue.granted_starts[offset] = 0
        if now.where is Where.FRESH and queue.granted_starts[offset]:
            self._blame("C7", f"{where} is fresh again, and was started")
        if now.deliveries < queue.starts[offset, generation]:
            self._blame("C7", f"{where} was started {queue.starts[offset, generation]} times, and is {now}")
        if now.strikes > now.deliveries:
            self._blame("C7", f"{where} has more strikes than deliveries: {now}")
        if now.strikes > queue.strikes[offset, generation] + self._overdue(queue, offset):
            self._blame("C8", f"{where} has strikes that nothing told of: {now}, {queue.strikes[offset, generation]} were seen")
        self._counts["blocked"] += now.where is Where.BEHIND and was.where is not Where.BEHIND
        self._counts["waits alone"] += now.where is Where.TRACKED and was.where is not Where.TRACKED
        if now.parked and not was.parked and offset == cell.markers[queue.places[offset]].head:
            self._counts["parked"] += 1
            self._judge_given_up(queue, offset, generation, "parked")

    def _overdue(self, queue: Queue, offset: int) -> int:
        """Handlers of it that run too long now."""
        group, topic, number = queue.line
        return sum(
            len(handler.started.tokens) == 1
            and handler.started.tokens[0][:3] == (topic, number, offset)
            and handler.started.group == group
            and self._is_overdue(handler)
            for handler in self._running.values()
        )

    def _judge_new_letters(self, queue: Queue, before: QueueCell | None, cell: QueueCell) -> None:
        given = before.dead_letters.next_sequence if before is not None else 0
        group = queue.line[0]
        if cell.dead_letters.next_sequence < given:
            self._blame("C8", f"{queue.line}: sequences went back from {given} to {cell.dead_letters.next_sequence}")
        stand = set(cell.dead_letters.sequences())
        for offset, sequence in cell.dead_letters.sequences():
            if sequence < given:
                if queue.letters.get(sequence) != offset:
                    self._blame("C8", f"{queue.line}: sequence {sequence} was {queue.letters.get(sequence)}'s, and is {offset}'s")
                continue
            # It may also be given up once more, in a later generation, while its letter of before is on its way.
            known = () if before is None else before.dead_letters.sequences()
            anew = queue.put_back and offset in {of for of, one in known if (of, one) not in stand}
            if anew:
                former = {one: of for one, of in queue.letters.items() if of == offset and one < given}
                queue.undone.update(former.items())
                queue.letters = {one: of for one, of in queue.letters.items() if one not in former}
            self._counts["dead letter numbered anew" if anew else "dead letter"] += 1
            queue.letters[sequence] = offset
            # A command and a reset may come in one write: then the letter is of the generation before.
            generation = cell.generation
            if anew:
                continue
            if (offset, generation) in queue.by_letter:
                self._blame("C8", f"{queue.line}: offset {offset} is a dead letter twice in generation {generation}")
            queue.by_letter.add((offset, generation))
            if (offset, generation, cell.epoch) in queue.oks - queue.overdue:
                self._blame("C8", f"{queue.line}: offset {offset} is a dead letter, and its owner's handler had succeeded")
            policies = {settings.dead_letter_policy for settings in self._in_force(group)}
            if policies == {DeadLetterPolicy.PARK} and (offset, generation) not in queue.given_up:
                self._blame("C8", f"{queue.line}: offset {offset} is a dead letter, and no operator had skipped it")
            self._judge_given_up(queue, offset, generation, "a dead letter")

    def _judge_given_up(self, queue: Queue, offset: int, generation: int, what: str) -> None:
        most = min(settings.max_attempts or math.inf for settings in self._in_force(queue.line[0]))
        strikes = queue.strikes[offset, generation] + self._overdue(queue, offset)
        if (offset, generation) not in queue.given_up and strikes < most:
            self._blame("C8", f"{queue.line}: offset {offset} is {what} after {strikes} strikes of {most}")

    def _skipped(self, skipped: Skipped) -> None:
        queue = self._queue(skipped.line)
        for offset in skipped.offsets:
            if not skipped.release:
                queue.given_up.add((offset, skipped.generation))
            elif offset in queue.stands and queue.stands[offset].parked:
                queue.given_up.discard((offset, skipped.generation))
                queue.strikes[offset, skipped.generation] = 0


def _is_older(one: tuple[str, int, int], lane: tuple[str, int, int]) -> bool:
    """Whether that is the message group of this lane, in its queue or in a former one, which has a lower number."""
    same_group = (one[0], one[2]) == (lane[0], lane[2])
    return same_group and (one[1] == lane[1] or (lane[2] > NO_GROUP and one[1] < lane[1]))
