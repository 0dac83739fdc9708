"""The judge of consumers is judged: forged histories, each with one thing wrong, and one with nothing."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from penstock.consumers.feed.rows import group_hash
from penstock.coordinator.cells.keys import worker_key
from penstock.coordinator.groups.record import DeadLetterPolicy, GroupSettings
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.coordinator.workers.lease import Heartbeat, ListedMember, encode_heartbeat
from penstock.log.stores.memory import MemoryStore
from tests.simulation.consumers.judge import judge
from tests.simulation.consumers.records import (
    Altered,
    Answer,
    BackedUp,
    Died,
    Ended,
    History,
    Letter,
    Positioned,
    PutBack,
    Record,
    Send,
    Skipped,
    Started,
    Stood,
    Stored,
    Token,
    Wrote,
)
from tests.simulation.consumers.witness import Witness
from tests.simulation.kernel import Kernel

LINE = ("billing", "orders", 0)
TAKEN = QueueCell().taken_by("w/1")
BOTH = OffsetSet.of([(0, 2)])


def offsets(*which: int) -> OffsetSet:
    return OffsetSet.of_offsets(list(which))


def start(run: int, offset: int, *, epoch: int = 1, attempt: int = 1, process: str = "m0") -> Started:
    return Started(0.0, process, "billing", run, (Token("orders", 0, offset, epoch, attempt, f"id{offset}"),))


def end(run: int, answer: Answer = Answer.OK) -> Ended:
    return Ended(0.0, run, int(answer is Answer.OK), answer)


def wrote(cell: QueueCell) -> Wrote:
    return Wrote(0.0, LINE, cell)


def forged(*records: Record, settings: GroupSettings | None = None, letters: list[Letter] | None = None) -> History:
    """Two messages of one message group, and what is told of them; times rise by themselves."""
    history = History(settings={"billing": settings or GroupSettings(max_attempts=2)}, timeout_s=20.0)
    for offset in range(2):
        history.stored["orders", 0, offset] = Stored(b"%d" % offset, f"id{offset}", "g")
        history.sends.append(Send(b"%d" % offset, ("orders", 0, offset)))
    told: list[Record] = [Positioned(0.0, LINE, 0, 0), *records]
    history.records = [one._replace(at_s=float(n)) for n, one in enumerate(told)]
    history.letters["billing"] = letters or []
    return history


GRANTED = TAKEN.with_granted(BOTH)
GOOD: list[Record] = [
    wrote(TAKEN),
    wrote(GRANTED),
    start(1, 0),
    end(1),
    start(2, 1),
    end(2),
    wrote(GRANTED.with_settled(BOTH)),
    wrote(GRANTED.with_settled(BOTH).released()),
]
WAITING = Marker(0, 1, Tries(MessageState.WAITING, 1, 1, 5))
BLOCKED = replace(GRANTED, granted=OffsetSet(), settled=GRANTED.settled.with_all(BOTH), markers={group_hash("g", ""): WAITING})


def without(place: int) -> list[Record]:
    return [*GOOD[:place], *GOOD[place + 1 :]]


def test_a_good_history_is_good() -> None:
    assert judge(forged(*GOOD)) == []


@pytest.mark.parametrize(
    ("rule", "records"),
    [
        pytest.param("C1", [*without(3)[:4], wrote(GRANTED.with_settled(BOTH))], id="settled, and its handler never ended"),
        pytest.param("C1", GOOD[:6], id="done, and never settled"),
        pytest.param("C1", [wrote(TAKEN)], id="nobody ever looked at it"),
        pytest.param("C2", [*GOOD[:2], Started(0, "m0", "billing", 1, (Token("orders", 0, 7, 1, 1, "id7"),))], id="never sent"),
        pytest.param(
            "C2", [*GOOD[:2], Started(0, "m0", "billing", 1, (Token("orders", 0, 0, 1, 1, "id1"),))], id="another message"
        ),
        pytest.param("C4", [*GOOD[:2], start(2, 1)], id="the second of a group before the first"),
        pytest.param("C4", [*GOOD[:3], start(2, 1)], id="the second of a group beside the first"),
        pytest.param("C6", [*GOOD[:7], wrote(GRANTED)], id="settled, and not any more"),
        pytest.param("C7", [wrote(TAKEN), start(1, 0)], id="started before it was granted"),
        pytest.param("C7", [*GOOD[:4], start(3, 0)], id="started more often than is durable"),
        pytest.param("C7", [*GOOD[:2], start(1, 0, attempt=2)], id="told of an attempt that is none"),
        pytest.param("C7", [*GOOD[:3], wrote(TAKEN)], id="given back although it was started"),
        pytest.param("C8", [*GOOD[:2], wrote(BLOCKED)], id="a strike out of nothing"),
        pytest.param(
            "C8", [*GOOD[:3], end(1, Answer.FAILED), wrote(GRANTED.with_dead_letters((0,)))], id="a dead letter too early"
        ),
        pytest.param("C8", [*GOOD[:4], wrote(GRANTED.with_dead_letters((0,)))], id="a dead letter of what succeeded"),
        pytest.param("C9", [*GOOD[:2], start(1, 0, epoch=0)], id="started by an owner of long ago"),
        pytest.param("C9", [wrote(TAKEN.taken_by("w/2")), wrote(GRANTED)], id="a write of an old epoch"),
        pytest.param("C9", [wrote(TAKEN), wrote(replace(TAKEN, owner="w/2"))], id="two owners of one epoch"),
    ],
)
def test_what_is_wrong_is_seen(rule: str, records: list[Record]) -> None:
    wrong = judge(forged(*records))
    assert any(one.startswith(rule) for one in wrong), wrong


def test_an_acknowledgement_by_another_owner_is_none() -> None:
    later = GRANTED.taken_by("w/2")
    wrong = judge(forged(*GOOD[:6], wrote(later), wrote(later.with_settled(BOTH)), wrote(later.with_settled(BOTH).released())))
    assert [one[:2] for one in wrong] == ["C1", "C1"], "the second owner settles what only the first one's handlers did"


def test_an_older_handler_of_the_group_must_have_returned() -> None:
    again = GRANTED.taken_by("w/2")
    running = replace(again, tries={0: Tries(MessageState.RUNNING, 2, 0, 0, 2), 1: Tries(MessageState.SUSPECT, 1, 0, 0, 2)})
    told: list[Record] = [*GOOD[:3], wrote(again), wrote(running)]
    assert any("still runs there" in one for one in judge(forged(*told, start(3, 0, epoch=2, attempt=2))))
    elsewhere = judge(forged(*told, start(3, 0, epoch=2, attempt=2, process="m1")))
    assert not any("still runs there" in one for one in elsewhere)


@pytest.mark.parametrize(("seconds", "strikes"), [(19.0, 1), (40.0, 0)])
def test_a_batch_that_fails_just_in_time_names_who_failed(seconds: float, strikes: int) -> None:
    both = Started(0.0, "m0", "billing", 1, tuple(Token("orders", 0, offset, 1, 1, f"id{offset}") for offset in range(2)))
    second = Marker(1, 2, Tries(MessageState.WAITING, 1, 1, 5))
    failed = replace(GRANTED, granted=OffsetSet(), settled=GRANTED.settled.with_all(BOTH), markers={group_hash("g", ""): second})
    history = forged(*GOOD[:2], both, Ended(0.0, 1, 1, Answer.FAILED), wrote(failed))
    history.records = [one._replace(at_s=one.at_s + seconds * (place > 3)) for place, one in enumerate(history.records)]
    assert any("strikes that nothing told of" in one for one in judge(history)) == (not strikes)


@pytest.mark.parametrize("overdue", [True, False])
def test_the_strike_of_a_handler_that_ran_too_long_comes_back_with_the_backup(overdue: bool) -> None:
    running = replace(BLOCKED, markers={group_hash("g", ""): Marker(0, 1, Tries(MessageState.RUNNING, 2, 1))})
    told: list[Record] = [*GOOD[:3], wrote(BLOCKED), BackedUp(0.0), Died(0.0, "m0"), PutBack(0.0), wrote(running)]
    history = forged(*told)
    history.records = [one._replace(at_s=one.at_s + 30.0 * (overdue and place > 3)) for place, one in enumerate(history.records)]
    assert any("strikes that nothing told of" in one for one in judge(history)[1 - overdue :]) == (not overdue)


def test_a_message_that_is_given_up_again_before_its_letter_is_written_has_two() -> None:
    """Also after the table was put back, when letters may get other sequences."""
    given_up = GRANTED.with_dead_letters((0,))
    again = given_up.taken_by("w/2").reset_to(0, 1)
    granted = again.with_granted(BOTH)
    twice = granted.with_dead_letters((0,))
    told: list[Record] = [
        wrote(GRANTED),
        start(1, 0),
        end(1, Answer.REJECTED),
        wrote(given_up),
        Died(0.0, "m0"),
        BackedUp(0.0),
        PutBack(0.0),
        Positioned(0.0, LINE, 1, 0),
        wrote(again),
        wrote(granted),
        start(2, 0, epoch=2),
        end(2, Answer.REJECTED),
        wrote(twice),
    ]
    assert not [one for one in judge(forged(*told)) if "in the end" not in one]


@pytest.mark.parametrize(
    ("from_s", "until_s", "ends_s", "counts"),
    [
        pytest.param(3.0, 40.0, 40.0, True, id="it stood still until now"),
        pytest.param(3.0, 40.0, 42.0, True, id="its consumer need not have looked yet"),
        pytest.param(3.0, 40.0, 44.0, False, id="it went on long ago"),
        pytest.param(3.0, 10.0, 30.0, False, id="it went on before the handler's time was up"),
        pytest.param(27.0, 40.0, 41.0, False, id="the time was up long before it stood still"),
        pytest.param(23.0, 40.0, 41.0, True, id="it stood still just when the time was up"),
    ],
)
def test_a_handler_counts_no_more_once_its_process_ran_too_long(from_s: float, until_s: float, ends_s: float, counts: bool) -> None:
    one = GRANTED.with_settled(offsets(0))
    history = forged(*GOOD[:3], Stood(0.0, "m0", until_s), end(1), wrote(one))
    history.records[4:] = [now._replace(at_s=at_s) for now, at_s in zip(history.records[4:], (from_s, ends_s, ends_s), strict=True)]
    assert any("no handler of it succeeded" in wrong for wrong in judge(history)) == (not counts)
    assert history.counts["end: too late"] == (not counts)


def _left_out(*more: tuple[float, Record], owner: str = "w/1") -> History:
    """The second of three messages is left out while it has no marker before it, the first fails at 100 s, and all is done at 200 s."""
    key, all_of_them = group_hash("g", ""), OffsetSet.of([(0, 3)])
    taken = TAKEN.with_granted(offsets(0, 2))
    filtered = taken.with_settled(offsets(1))
    failed = replace(
        taken, granted=OffsetSet(), settled=taken.settled.with_all(all_of_them), markers={key: replace(WAITING, limit=3)}
    )
    running = replace(failed, markers={key: Marker(0, 3, Tries(MessageState.RUNNING, 2, 1))})
    if owner != "w/1":
        failed = failed.taken_by(owner)
        running = replace(failed, markers=running.markers)
    epoch = running.epoch
    told: list[tuple[float, Record]] = [
        (0.0, Positioned(0.0, LINE, 0, 0)),
        (1.0, wrote(TAKEN)),
        (2.0, wrote(taken)),
        (3.0, wrote(filtered)),
        (4.0, Altered(0.0, "billing", GroupSettings(max_attempts=2))),
        (98.0, start(1, 0)),
        (99.0, end(1, Answer.FAILED)),
        (100.0, wrote(replace(failed, epoch=1, owner="w/1"))),
        *([] if owner == "w/1" else [(101.0, wrote(failed))]),
        (198.0, wrote(running)),
        (198.0, start(2, 0, epoch=epoch, attempt=2)),
        (199.0, end(2)),
        (199.0, start(3, 2, epoch=epoch, attempt=2)),
        (200.0, end(3)),
        (200.0, wrote(replace(running, markers={}))),
        *more,
    ]
    history = forged(settings=GroupSettings(max_attempts=2, filters={"orders": "b"}))
    for offset, tag in enumerate("bab"):
        history.stored["orders", 0, offset] = Stored(b"%d" % offset, f"id{offset}", "g", tag)
    history.records = [one._replace(at_s=at_s) for at_s, one in sorted(told, key=lambda pair: pair[0])]
    return history


def _altered(at_s: float, tags: str) -> tuple[float, Record]:
    return at_s, Altered(at_s, "billing", GroupSettings(max_attempts=2, filters={"orders": tags}))


def test_what_was_left_out_before_its_group_failed_stays_so_for_its_owner() -> None:
    """The filter had become a wider one before the failure, so that the owner reads nothing again."""
    history = _left_out()
    assert judge(history) == []
    assert history.counts["left out, and behind a blocked message later"] == 1


@pytest.mark.parametrize(
    ("alterations", "again"),
    [
        pytest.param([_altered(110.0, "a || b")], True, id="long ago"),
        pytest.param([_altered(160.0, "a || b")], False, id="just now"),
        pytest.param([_altered(110.0, "a"), _altered(150.0, "*")], False, id="and back before its owner need have looked"),
        pytest.param([_altered(110.0, "a || b"), _altered(180.0, "*")], True, id="and back when its owner had looked"),
    ],
)
def test_what_was_left_out_is_read_again_when_the_filter_changes_behind_a_failure(
    alterations: list[tuple[float, Record]], again: bool
) -> None:
    wrong = judge(_left_out(*alterations))
    assert [one[:2] for one in wrong] == (["C4", "C1"] if again else []), wrong


def test_the_next_owner_reads_again_what_a_former_filter_left_out_behind_a_failure() -> None:
    assert [one[:2] for one in judge(_left_out(owner="w/2"))] == ["C4", "C1"]


def test_who_is_alone_is_alone() -> None:
    again = replace(
        GRANTED.taken_by("w/2"), tries={0: Tries(MessageState.RUNNING, 2, 0, 0, 1), 1: Tries(MessageState.SUSPECT, 1, 0, 0, 1)}
    )
    both = replace(again, tries={0: Tries(MessageState.RUNNING, 2, 0, 0, 1), 1: Tries(MessageState.RUNNING, 2, 0, 0, 1)})
    told: list[Record] = [
        wrote(GRANTED),
        Died(0, "m0"),
        wrote(both),
        start(1, 0, epoch=2, attempt=2),
        start(2, 1, epoch=2, attempt=2),
    ]
    assert any("must be alone" in one for one in judge(forged(*told)))
    late = forged(*told)
    late.records[-1] = late.records[-1]._replace(at_s=30.0)  # the first was given up meanwhile, though that is not written yet
    assert not any("beside" in one for one in judge(late))


def _dead(settled: bool = True) -> list[Record]:
    """The first message is given up by right, the second done."""
    running = Marker(0, 1, Tries(MessageState.RUNNING, 2, 1))
    after = replace(
        BLOCKED, markers={group_hash("g", ""): Marker(1, 1, Tries(MessageState.WAITING, 0))}, dead_letters=DeadLetters(1, (0,))
    )
    second = replace(after, markers={group_hash("g", ""): Marker(1, 2, Tries(MessageState.RUNNING, 1))})
    done = replace(second, markers={}, dead_letters=DeadLetters(1))
    told: list[Record] = [
        *GOOD[:3],
        end(1, Answer.FAILED),
        wrote(BLOCKED),
        wrote(replace(BLOCKED, markers={group_hash("g", ""): running})),
    ]
    told += [start(3, 0, attempt=2), end(3, Answer.FAILED), wrote(after), wrote(second), start(4, 1), end(4)]
    return [*told, wrote(done)] if settled else told


LETTER = Letter(("orders", 0, 0), 0, b"0", "id0")


def test_dead_letters_are_by_right_and_once() -> None:
    assert judge(forged(*_dead(), letters=[LETTER])) == []
    for letters in ([], [LETTER, LETTER], [LETTER._replace(body=b"1")], [LETTER._replace(origin=("orders", 0, 1))]):
        assert any(one.startswith("C8") for one in judge(forged(*_dead(), letters=letters))), letters


def test_a_parking_group_has_no_dead_letters_but_skipped_ones() -> None:
    settings = GroupSettings(max_attempts=2, dead_letter_policy=DeadLetterPolicy.PARK)
    assert any("no operator" in one for one in judge(forged(*_dead(), letters=[LETTER], settings=settings)))
    skipped = _dead()
    skipped.insert(8, Skipped(0, LINE, 0, (0,), release=False))
    assert judge(forged(*skipped, letters=[LETTER], settings=settings)) == []


def test_after_a_reset_all_from_the_position_on_is_done_again_and_nothing_before_it() -> None:
    reset = GRANTED.with_settled(BOTH).reset_to(0, 1)
    granted = reset.with_granted(BOTH)
    told: list[Record] = [*GOOD[:7], Positioned(0, LINE, 1, 0), wrote(reset), wrote(granted)]
    assert judge(forged(*told, start(5, 0), end(5), start(6, 1), end(6), wrote(granted.with_settled(BOTH)))) == []
    assert any("no handler of it succeeded" in one for one in judge(forged(*told, wrote(granted.with_settled(BOTH)))))

    reset = GRANTED.with_settled(BOTH).reset_to(1, 1)
    granted = reset.with_granted(offsets(1))
    told = [*GOOD[:7], Positioned(0, LINE, 1, 1), wrote(reset), wrote(granted), start(5, 0)]
    assert any("before position 1" in one for one in judge(forged(*told)))


def test_of_two_resets_that_a_cell_carries_out_at_once_the_first_is_no_generation_of_it() -> None:
    """An owner that does not know yet that its write is done starts what it had before both."""
    reset = GRANTED.reset_to(0, 2)
    granted = reset.with_granted(BOTH)
    told = [*GOOD[:2], Positioned(0, LINE, 1, 1), Positioned(0, LINE, 2, 0), wrote(reset), start(1, 0), end(1), wrote(granted)]
    assert judge(forged(*told, start(5, 0), end(5), start(6, 1), end(6), wrote(granted.with_settled(BOTH)))) == []


def test_a_generation_is_somebodys_order() -> None:
    assert any("nobody's order" in one for one in judge(forged(*GOOD[:7], wrote(TAKEN.reset_to(0, 1)))))


def test_what_was_sent_must_stand_where_the_producer_was_told() -> None:
    history = forged(*GOOD)
    history.sends.append(Send(b"0", ("orders", 0, 1)))
    assert [one[:2] for one in judge(history)] == ["C3"]


def test_a_worker_that_has_left_is_over_though_its_first_heartbeat_lands_once_more() -> None:
    witness = Witness(History(), Kernel(0).loop, [], MemoryStore())

    async def leave() -> None:
        beat = bytes(16) + encode_heartbeat(Heartbeat(worker="a", lease_ms=1000, members=(ListedMember(1),)))
        version = await witness.put(worker_key("a"), beat, expected=None)
        assert not witness.is_over("a/1")
        await witness.delete(worker_key("a"), expected=version)
        await witness.put(worker_key("a"), beat, expected=None)

    asyncio.run(leave())
    assert witness.is_over("a/1")
