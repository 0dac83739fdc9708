"""What must hold of a run of consumers, by what they wrote down, what was done to them, and the log; nothing else is asked.

For each consumer group:

- nothing is lost: every message was answered SUCCESS, after the last reset to before it too; poison is a dead letter once (once more for
  each reset to before it), and nothing else is; but for what waited or was blocked before the offset of a reset;
- an epoch is one process's, and no delivery (epoch, attempt) is made twice; a later one has a higher attempt;
- what succeeded, and was not told that it is too late, is not run again but after a reset, or when its process was killed, stood still or
  lost its lease meanwhile, and then no more of it than can be in flight;
- ORDERLY: a message starts only when all before it in its message group succeeded or were given up (parked: skipped by an operator), and
  while no handler of the group runs elsewhere, but in a process that stood still. That holds across the queues of a topic that grew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tests.processes.check import Row
from tests.processes.consuming.disturbed import Disturbed
from tests.processes.consuming.fates import Fate, Fates
from tests.processes.consuming.records import Handled, What

ACKNOWLEDGED_S = 10.0
"""So long after its success a message is settled, or its process is in trouble."""
RESUMED_S = 1.0
"""So long after it stood still a process may still not know."""
Place: TypeAlias = tuple[int, int]
"""(queue, offset)."""


class Reset(NamedTuple):
    """An operator's order to go on from an offset of one queue, and when it was given."""

    group: str
    queue: int
    offset: int
    at_s: float


class Skip(NamedTuple):
    """An operator's order to give a parked message up. None: all that was parked, and nobody knows what that was."""

    group: str
    queue: int | None
    offset: int | None
    at_s: float


@dataclass(frozen=True, slots=True)
class Rules:
    """Of a consumer group."""

    orderly: bool
    parks: bool = False
    max_attempts: int = 4


@dataclass(kw_only=True, slots=True)
class History:
    """All that is known of a run."""

    rows: list[Row]
    """By queue and offset: where the topic grew, that is the order of each message group, too."""
    handled: list[Handled]
    """By time."""
    groups: Mapping[str, Rules]
    fates: Fates = field(default_factory=Fates)
    disturbed: Sequence[Disturbed] = ()
    resets: Sequence[Reset] = ()
    skips: Sequence[Skip] = ()
    letters: Mapping[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    """(queue, offset, body) of the dead letters of each group."""
    repeats_max: int = 0
    """Successes that one trouble of a process may cost a group."""
    drained: bool = True
    """Whether the run came to its end: only then is what was not done lost."""


@dataclass(slots=True)
class Found:
    """What a check found."""

    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    repeats: Counter[tuple[str, Disturbed]] = field(default_factory=Counter)
    """Successes that were run again, by group and what it came from."""
    owners: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The process of each (group, queue, epoch)."""


def check(history: History) -> Found:
    """Everything that is wrong, and how much of what there was."""
    found = Found()
    check_part(history, found)
    finish(history.repeats_max, found)
    return found


def check_part(history: History, found: Found) -> None:
    """Everything that is wrong with some message groups, of which ``history`` holds all."""
    for group in history.groups:
        _Group(history, group, found).check()


def finish(repeats_max: int, found: Found) -> None:
    """What is wrong with all parts together."""
    for (group, trouble), count in found.repeats.items():
        if count > repeats_max:
            found.problems.append(f"{group}: {count} messages ran again after {trouble}; {repeats_max} can be in flight")


class _Group:
    """The check of one consumer group."""

    def __init__(self, history: History, group: str, found: Found) -> None:
        self._history = history
        self._group = group
        self._rules = history.groups[group]
        self._found = found
        self._bodies = {(row.queue, row.offset): row.body for row in history.rows}
        self._handled = [one for one in history.handled if one.group == group]
        self._late = {(one.queue, one.offset, one.epoch, one.attempt) for one in self._handled if one.what is What.LATE}
        """Deliveries whose acknowledgement was refused: they are no success."""
        self._troubles: dict[str, list[Disturbed]] = defaultdict(list)
        for one in history.disturbed:
            self._troubles[one.process].append(one)
        self._resets: dict[int, list[Reset]] = defaultdict(list)
        for reset in history.resets:
            if reset.group == group:
                self._resets[reset.queue].append(reset)
        self._skipped = {(one.queue, one.offset): one.at_s for one in reversed(history.skips) if one.group == group}
        self._all_skipped_s = min(
            (one.at_s for one in history.skips if one.group == group and one.queue is None), default=float("inf")
        )

    def check(self) -> None:
        for problem in (
            *self._what_it_was_given(),
            *self._owners(),
            *self._repeats(),
            *(self._order() if self._rules.orderly else ()),
            *(self._losses() if self._history.drained else ()),
            *self._letters(),
        ):
            self._found.problems.append(f"{self._group}: {problem}")

    def _succeeds(self, one: Handled) -> bool:
        return one.what is What.OK and (one.queue, one.offset, one.epoch, one.attempt) not in self._late

    def _covering(self, place: Place, before_s: float = float("inf")) -> list[Reset]:
        queue, offset = place
        return [one for one in self._resets[queue] if one.offset <= offset and one.at_s < before_s]

    def _passed_over(self, place: Place, before_s: float = float("inf")) -> bool:
        """Whether an operator ordered to go on behind it: then what of it was not done need not be."""
        queue, offset = place
        return any(one.offset > offset and one.at_s < before_s for one in self._resets[queue])

    def _what_it_was_given(self) -> Iterator[str]:
        groups = {(row.queue, row.offset): row.group for row in self._history.rows}
        for one in self._handled:
            self._found.counts[f"{self._group} {one.what}"] += 1
            place = (one.queue, one.offset)
            if self._bodies.get(place) != one.body or groups.get(place) != one.message_group:
                yield f"{one.process} was given {one.body} of {one.message_group} at {place}, where {self._bodies.get(place)} is"

    def _owners(self) -> Iterator[str]:
        for one in self._handled:
            known = self._found.owners.setdefault((self._group, one.queue, one.epoch), one.process)
            if known != one.process:
                yield f"queue {one.queue} in epoch {one.epoch} is {known}'s and {one.process}'s"

    # --- Repeats ----------------------------------------------------------------------------------------------------------------

    def _repeats(self) -> Iterator[str]:
        succeeded: dict[Place, Handled] = {}
        delivered: dict[Place, list[Handled]] = defaultdict(list)
        resets_used: Counter[Place] = Counter()
        for one in self._handled:
            place = (one.queue, one.offset)
            if self._succeeds(one):
                succeeded[place] = one
            if one.what is not What.START:
                continue
            before = delivered[place]
            if resets_used[place] < len(self._covering(place, one.at_s)) and self._is_anew(one, before, succeeded.get(place)):
                resets_used[place] += 1
                self._found.counts["ran again after a reset"] += 1
                before.clear()
                succeeded.pop(place, None)
            if wrong := [other for other in before if not _may_follow(other, one)]:
                yield f"{_name(one)} was delivered after {_name(wrong[-1])}"
            before.append(one)
            if (was := succeeded.get(place)) is not None and (trouble := self._trouble_between(was, one)) is not None:
                self._found.repeats[self._group, trouble] += 1
                self._found.counts["ran again after trouble"] += 1
            elif was is not None:
                yield f"{_name(one)} had succeeded as {_name(was)}, and nothing was wrong with {was.process}"

    def _is_anew(self, one: Handled, before: list[Handled], was: Handled | None) -> bool:
        """Whether only a reset explains that it is run."""
        return any(not _may_follow(other, one) for other in before) or (was is not None and self._trouble_between(was, one) is None)

    def _trouble_between(self, was: Handled, one: Handled) -> Disturbed | None:
        """What explains that a message is run again in another epoch: the older owner's trouble."""
        for trouble in self._troubles[was.process] if was.epoch < one.epoch else ():
            if (
                trouble.from_s <= one.at_s
                and was.at_s <= trouble.until_s + RESUMED_S
                and trouble.from_s - was.at_s < ACKNOWLEDGED_S
            ):
                return trouble
        for trouble in self._troubles[one.process] if one.epoch < was.epoch else ():
            if trouble.from_s <= one.at_s <= trouble.until_s + RESUMED_S:
                return trouble
        return None

    # --- Order ------------------------------------------------------------------------------------------------------------------

    def _order(self) -> Iterator[str]:
        lanes: dict[str, list[Place]] = defaultdict(list)
        for row in self._history.rows:
            lanes[row.group].append((row.queue, row.offset))
        handled: dict[str, list[Handled]] = defaultdict(list)
        for one in self._handled:
            handled[one.message_group].append(one)
        for message_group, events in handled.items():
            yield from self._order_of(lanes[message_group], events)
            yield from self._alone(events)

    def _order_of(self, lane: list[Place], events: list[Handled]) -> Iterator[str]:
        number = {place: index for index, place in enumerate(lane)}
        done: set[Place] = set()
        starts: Counter[Place] = Counter()
        rejected: set[Place] = set()
        settled = 0
        """All before this one of the lane are done."""
        highest: dict[tuple[int, int], int] = {}
        for one in events:
            place = (one.queue, one.offset)
            if one.what is What.OK:
                done.add(place)
            elif one.what is What.REJECT:
                rejected.add(place)
            if one.what is not What.START or place not in number:
                continue
            starts[place] += 1
            while settled < number[place] and (
                lane[settled] in done
                or self._passed_over(lane[settled], one.at_s)
                or self._given_up(lane[settled], one.at_s, starts[lane[settled]], lane[settled] in rejected)
            ):
                settled += 1
            if settled < number[place]:
                queue, offset = lane[settled]
                yield f"{_name(one)} of {one.message_group} started before {offset} ({self._bodies[queue, offset]}) was done"
                settled = number[place]
            if one.offset < highest.get((one.queue, one.epoch), -1) and not self._covering(place, one.at_s):
                yield f"{_name(one)} of {one.message_group} started behind {highest[one.queue, one.epoch]} in one epoch"
            highest[one.queue, one.epoch] = one.offset

    def _given_up(self, place: Place, at_s: float, starts: int, rejected: bool) -> bool:
        if not self._history.fates.of(self._bodies[place]).is_poison:
            return False
        if self._rules.parks:
            return min(self._skipped.get(place, float("inf")), self._all_skipped_s) < at_s
        return rejected or starts >= self._rules.max_attempts

    def _alone(self, events: list[Handled]) -> Iterator[str]:
        """No two handlers of a message group run at once, but where one is in a process that stood still."""
        running: dict[tuple[str, int, int, int, int], Handled] = {}
        for one in events:
            key = (one.process, one.queue, one.offset, one.epoch, one.attempt)
            if one.what is not What.START:
                running.pop(key, None)
                continue
            for other_key, other in list(running.items()):
                troubles = self._troubles[other.process]
                if any(trouble.is_end and other.at_s <= trouble.until_s <= one.at_s + RESUMED_S for trouble in troubles):
                    del running[other_key]
                elif other.process == one.process or not any(
                    trouble.from_s <= one.at_s and other.at_s <= trouble.until_s for trouble in troubles
                ):
                    yield f"{_name(one)} of {one.message_group} started while {_name(other)} ran"
            running[key] = one

    # --- The end ----------------------------------------------------------------------------------------------------------------

    def _losses(self) -> Iterator[str]:
        last = {(one.queue, one.offset): one.at_s for one in self._handled if self._succeeds(one)}
        for place, body in self._bodies.items():
            if self._history.fates.of(body).is_poison:
                continue
            if place not in last and self._passed_over(place):
                self._found.counts["passed over by a reset"] += 1
            elif place not in last:
                yield f"{body} at {place} never succeeded"
            elif any(reset.at_s > last[place] for reset in self._covering(place)):
                yield f"{body} at {place} was not run again after a reset to before it"

    def _letters(self) -> Iterator[str]:
        counts: Counter[Place] = Counter()
        for queue, offset, body in self._history.letters.get(self._group, ()):
            counts[queue, offset] += 1
            if self._bodies.get((queue, offset)) != body:
                yield f"a dead letter is {body}, and says it was {self._bodies.get((queue, offset))} at {queue, offset}"
        for place, body in self._bodies.items():
            fate = self._history.fates.of(body)
            self._found.counts["poison"] += fate.is_poison
            self._found.counts["killers"] += fate is Fate.KILLER
            most = (1 + len(self._covering(place))) if fate.is_poison else 0
            least = self._history.drained and fate.is_poison and not self._passed_over(place)
            if not least <= counts[place] <= most:
                yield f"{body} ({fate}) at {place} is a dead letter {counts[place]} times; {most} may be"
        self._found.counts["dead letters"] += counts.total()


def _may_follow(earlier: Handled, later: Handled) -> bool:
    """Of one message. An older owner that stood still may deliver late, but not what it or a newer one has delivered."""
    if earlier.epoch == later.epoch or earlier.epoch < later.epoch:
        return earlier.attempt < later.attempt
    return True


def _name(one: Handled) -> str:
    return f"{one.process}'s delivery {one.epoch}.{one.attempt} of {one.queue}/{one.offset} at {one.at_s:.3f}"
