"""The cell of a queue, against a model that keeps a word for every message."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Receive, Tries, removed_queue
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.log.errors import DataDamaged, InternalError, NewerFormatError
from tests.cells import blocked, failed
from tests.thorough import examples


def offsets(*numbers: int) -> OffsetSet:
    return OffsetSet.of((number, number + 1) for number in numbers)


class CellMachine(RuleBasedStateMachine):
    """Grants, successes, failures, deaths and dead letters of a CONCURRENT group, in any order."""

    @initialize(start=st.integers(0, 1000))
    def begin(self, start: int) -> None:
        self.cell = QueueCell(settled=SettledOffsets(start)).taken_by("w0")
        self.start = self.end = start
        self.granted: set[int] = set()
        self.tracked: dict[int, Tries] = {}
        self.done: set[int] = set()
        self.letters: list[tuple[int, int]] = []
        self.deaths = 0
        self.transactions: set[str] = set()

    @rule(count=st.integers(1, 20))
    def grant(self, count: int) -> None:
        self.cell = self.cell.with_granted(OffsetSet.of([(self.end, self.end + count)]))
        self.granted |= set(range(self.end, self.end + count))
        self.end += count

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.in_flight())), min_size=1))
        self.cell = self.cell.with_settled(offsets(*chosen))
        self._end(chosen)

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data(), due_ms=st.integers(0, 10**13))
    def fail(self, data: st.DataObject, due_ms: int) -> None:
        offset = data.draw(st.sampled_from(sorted(self.in_flight())))
        before = self.tracked.get(offset, Tries(MessageState.RUNNING))
        tries = Tries(MessageState.WAITING, before.attempts, before.strikes + 1, due_ms)
        self.cell = self.cell.with_tries(offset, tries)
        self.granted.discard(offset)
        self.tracked[offset] = tries

    @precondition(lambda self: any(tries.state in (MessageState.WAITING, MessageState.SUSPECT) for tries in self.tracked.values()))
    @rule(data=st.data(), alone=st.booleans())
    def run_again(self, data: st.DataObject, alone: bool) -> None:
        idle = sorted(offset for offset, tries in self.tracked.items() if tries.state is not MessageState.RUNNING)
        offset = data.draw(st.sampled_from(idle))
        old = self.tracked[offset]
        tries = Tries(MessageState.RUNNING, old.attempts + 1, old.strikes, company=1 if alone else old.company)
        self.cell = self.cell.with_tries(offset, tries)
        self.tracked[offset] = tries

    @precondition(lambda self: self.in_flight())
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(sorted(self.in_flight())))
        self.letters.append((offset, self.cell.dead_letters.next_sequence))
        self.cell = self.cell.with_dead_letters((offset,))
        self._end({offset})

    @precondition(lambda self: self.letters)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        sequence = data.draw(st.sampled_from([given for _, given in self.letters]))
        self.cell = self.cell.with_dead_letters_written(sequence)
        self.letters = [(offset, given) for offset, given in self.letters if given > sequence]

    @rule()
    def commit(self) -> None:
        transaction = f"{len(self.transactions):032x}"
        self.cell = self.cell.with_transaction(transaction)
        self.transactions.add(transaction)

    @rule()
    def die(self) -> None:
        in_flight = len(self.in_flight())
        self.deaths += 1
        self.cell = self.cell.taken_by(f"w{self.deaths}")
        for offset in self.in_flight():
            old = self.tracked.get(offset, Tries(MessageState.RUNNING))
            company = max(1, (old.company or in_flight) // 2)
            self.tracked[offset] = Tries(MessageState.SUSPECT, old.attempts, old.strikes + (old.company == 1), company=company)
        self.granted.clear()

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        for offset in range(self.start, self.end + 2):
            listed = offset in self.tracked
            assert (offset in self.cell.granted) == (offset in self.granted)
            assert (offset in self.cell.settled) == (listed or offset in self.done)
            assert self.cell.tries.get(offset) == self.tracked.get(offset)

    @invariant()
    def nothing_listed_holds_the_floor(self) -> None:
        assert self.cell.settled.floor == min([self.end, *self.granted])

    @invariant()
    def it_is_stored_as_it_is(self) -> None:
        assert decode_cell(encode_cell(self.cell), where="cell") == self.cell

    @invariant()
    def the_rest_agrees(self) -> None:
        assert self.cell.in_flight == len(self.in_flight())
        assert (self.cell.epoch, self.cell.owner) == (self.deaths + 1, f"w{self.deaths}")
        assert self.cell.dead_letters.sequences() == self.letters
        assert self.cell.transactions == self.transactions

    def in_flight(self) -> set[int]:
        return self.granted | {offset for offset, tries in self.tracked.items() if tries.state is MessageState.RUNNING}

    def _end(self, chosen: set[int]) -> None:
        self.granted -= chosen
        self.done |= chosen
        for offset in chosen:
            self.tracked.pop(offset, None)


TestCell = CellMachine.TestCase
TestCell.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


def test_a_failure_blocks_its_group_and_the_floor_goes_on() -> None:
    cell = QueueCell().taken_by("w").with_granted(OffsetSet.of([(0, 6)]))
    cell = blocked(cell, 77, 1, due_ms=500, behind=offsets(3)).with_settled(offsets(0, 2, 4, 5))
    assert cell.settled.floor == 6
    assert cell.markers == {77: Marker(1, 2, Tries(MessageState.WAITING, 1, 1, 500))}
    cell = cell.with_granted(offsets(6)).with_listed(offsets(7)).with_settled(offsets(6))
    assert cell.settled.floor == 8
    cell = cell.with_marker(77, Marker(1, 8, Tries(MessageState.RUNNING, 2, 1)))
    assert cell.in_flight == 1
    dead = cell.taken_by("x")
    assert dead.markers[77] == Marker(1, 8, Tries(MessageState.SUSPECT, 2, 1, 0, 1))
    assert decode_cell(encode_cell(dead), where="cell") == dead
    assert dead.with_markers({77: None}, OffsetSet()).markers == {}


def test_company_shrinks_death_by_death_until_it_is_alone_and_only_then_a_death_counts() -> None:
    cell = QueueCell().taken_by("w0").with_granted(OffsetSet.of([(0, 1500)]))
    companies, strikes = [], []
    for death in range(14):
        cell = cell.taken_by(f"w{death + 1}")
        companies.append(cell.tries[0].company)
        strikes.append(cell.tries[0].strikes)
        cell = cell.with_tries(0, replace(cell.tries[0], state=MessageState.RUNNING, attempts=cell.tries[0].attempts + 1))
    assert companies == [750, 375, 187, 93, 46, 23, 11, 5, 2, 1, 1, 1, 1, 1]
    assert strikes == [0] * 10 + [1, 2, 3, 4]


def test_1500_suspects_fit_into_a_few_bytes() -> None:
    cell = QueueCell().taken_by("w").with_granted(OffsetSet.of([(0, 1500)])).taken_by("x")
    assert len(encode_cell(cell)) < 40


def test_a_reset_forgets_what_was_in_flight_but_no_dead_letter() -> None:
    cell = QueueCell().taken_by("w").with_granted(OffsetSet.of([(0, 9)]))
    cell = blocked(failed(cell, 3, due_ms=1), 5, 4, due_ms=2).with_dead_letters((6,))
    cell = cell.reset_to(2, 1)
    assert (cell.settled, cell.granted, cell.tries, cell.markers) == (SettledOffsets(2), OffsetSet(), {}, {})
    assert (cell.epoch, cell.owner, cell.generation) == (1, "w", 1)
    assert cell.dead_letters.sequences() == [(6, 0)]


def test_the_cell_of_a_queue_that_is_no_more_is_parted_with_once() -> None:
    cell = QueueCell(generation=3).taken_by("w").with_granted(offsets(1, 2)).with_settled(offsets(2)).with_dead_letters((1,))
    over = removed_queue(cell, 4)
    assert (over.generation, over.owner, over.epoch, over.dead_letters.assigned) == (4, "", 2, ())
    assert over.dead_letters.lost == 1
    assert removed_queue(over, 4) is over, "what takes it apart again changes nothing: its epoch would fence the next owner"
    assert removed_queue(over, 3) is over


TRANSACTION = "0123456789abcdef0123456789abcdef"


def test_what_a_transaction_settled_stays_told_through_takes_releases_and_resets() -> None:
    cell = QueueCell().taken_by("w").with_transaction(TRANSACTION)
    for after in (
        cell.taken_by("x"),
        cell.released(),
        cell.reset_to(4, 1),
        cell.with_granted(offsets(1)),
        cell.with_dead_letters_written(3),
    ):
        assert after.transactions == {TRANSACTION}
    assert cell.without_transactions(["f" * 32]) is cell
    assert cell.without_transactions([TRANSACTION, "f" * 32]).transactions == frozenset()


def test_a_cell_without_transactions_is_written_as_before_them_and_one_with_them_is_refused_by_versions_of_before() -> None:
    cell = QueueCell().taken_by("w").with_granted(offsets(1))
    with_one = cell.with_transaction(TRANSACTION)
    assert encode_cell(cell)[0] == encode_cell(with_one.without_transactions([TRANSACTION]))[0] == 1
    assert encode_cell(with_one)[0] == 2
    assert len(encode_cell(with_one)) == len(encode_cell(cell)) + 3 + 16
    whole = encode_cell(with_one)
    for cut in range(1, len(whole)):
        with pytest.raises(DataDamaged):
            decode_cell(whole[:cut], where="cell 5")
    with pytest.raises(NewerFormatError, match="section 1"):
        decode_cell(whole[:-19] + b"\x02" + whole[-18:] + b"\x63\x00", where="cell 5")


def test_what_cannot_be_is_refused() -> None:
    cell = failed(QueueCell().taken_by("w").with_granted(offsets(0, 1, 2)).with_settled(offsets(1)), 2)
    attempts: list[Callable[[], QueueCell]] = [
        lambda: cell.with_granted(offsets(0)),
        lambda: cell.with_granted(offsets(1)),
        lambda: cell.with_granted(offsets(2)),
        lambda: cell.with_ungranted(offsets(0, 7)),
        cell.released,
        lambda: cell.with_marker(9, Marker(0, 1, Tries(MessageState.PARKED))),
    ]
    for wrong in attempts:
        with pytest.raises(InternalError):
            wrong()


def test_a_cell_of_a_later_version_or_damaged_is_named() -> None:
    with pytest.raises(NewerFormatError, match=r"later version of Penstock.*cell 5"):
        decode_cell(b"\x03rest", where="cell 5")
    whole = encode_cell(failed(QueueCell().taken_by("w").with_granted(offsets(1)), 1, due_ms=7))
    for size in range(1, len(whole)):
        with pytest.raises(DataDamaged):
            decode_cell(whole[:size], where="cell 5")
    with pytest.raises(DataDamaged, match="more to it"):
        decode_cell(whole + b"\x00", where="cell 5")


@given(st.binary(max_size=80))
def test_any_bytes_are_a_cell_or_damaged(data: bytes) -> None:
    try:
        cell = decode_cell(b"\x01" + data, where="cell")
    except DataDamaged:
        return
    assert decode_cell(encode_cell(cell), where="cell") == cell


hashes = st.integers(0, 2**64 - 1)
receives = st.builds(Receive, hashes, hashes)
dues = st.integers(0, 10**13)


@given(
    tries=st.dictionaries(
        st.integers(0, 10**6),
        st.builds(Tries, st.just(MessageState.OUT), st.integers(1, 99), st.integers(0, 9), dues, receive=receives),
    ),
    lanes=st.dictionaries(
        hashes, st.tuples(st.integers(0, 10**12), st.integers(1, 50), st.integers(0, 50), dues, st.one_of(st.none(), receives))
    ),
)
@settings(max_examples=examples(100), deadline=None)
def test_the_receives_that_messages_are_out_to_are_stored(
    tries: dict[int, Tries], lanes: dict[int, tuple[int, int, int, int, Receive | None]]
) -> None:
    markers = {
        lane: Marker(
            head,
            head + out + more,
            Tries(MessageState.OUT, 2, 1, due_ms, receive=receive and replace(receive, end=head + out)),
        )
        for lane, (head, out, more, due_ms, receive) in lanes.items()
    }
    cell = QueueCell(settled=SettledOffsets(10**12), tries=tries, markers=markers)
    assert decode_cell(encode_cell(cell), where="cell") == cell
    many = [replace(one, receive=None) for one in tries.values()]
    unnamed = replace(cell, tries=dict(zip(tries, many, strict=True)), markers={})
    assert encode_cell(unnamed)[0] == 1, "a cell that names none is written as before, and earlier versions read it"


def test_receives_take_little_of_a_cell() -> None:
    """32 messages of one receive, tracked each by itself; and a thousand message groups, each out to a receive of its own."""
    one = Receive(2**63 + 5, 2**63 + 7)
    out = Tries(MessageState.OUT, 1, 0, 2**41)
    cell = QueueCell(settled=SettledOffsets(10**9), tries={10**9 - 2 * n: out for n in range(32)})
    named = replace(cell, tries=dict.fromkeys(cell.tries, replace(out, receive=one)))
    assert len(encode_cell(named)) - len(encode_cell(cell)) <= 40
    lanes = {2**63 + n: Marker(10**9 + n, 10**9 + n + 1, out) for n in range(1_000)}
    each = {lane: replace(marker, tries=replace(out, receive=Receive(lane, 7, marker.limit))) for lane, marker in lanes.items()}
    sizes = [len(encode_cell(replace(cell, markers=markers))) for markers in (lanes, each)]
    assert (sizes[1] - sizes[0]) / 1_000 <= 24
    assert sizes[1] <= 64 * 1_000


def test_receives_that_cannot_be_are_refused() -> None:
    out = Tries(MessageState.OUT, 1, 0, 50, receive=Receive(1, 2))
    beyond = Marker(3, 5, replace(out, receive=Receive(1, 2, end=6)))
    nothing = Marker(3, 5, replace(out, receive=Receive(1, 2, end=3)))
    for cell in (
        QueueCell(settled=SettledOffsets(9), markers={7: beyond}),
        QueueCell(settled=SettledOffsets(9), markers={7: nothing}),
        QueueCell(settled=SettledOffsets(9), tries={3: replace(out, state=MessageState.WAITING)}),
        QueueCell(
            settled=SettledOffsets(9),
            markers={7: Marker(3, 5, replace(out, state=MessageState.PARKED, receive=Receive(1, 2, end=4)))},
        ),
    ):
        with pytest.raises(DataDamaged):
            decode_cell(encode_cell(cell), where="cell")


@pytest.mark.parametrize("kept", [((1, 7),), ((1, 6),), ((1, 4), (2, 3)), ((1, 3), (2, 3)), ((3, 2),), ((1, 2), (1, 3))])
def test_dead_letters_that_cannot_have_been_kept_are_refused(kept: tuple[tuple[int, int], ...]) -> None:
    good = DeadLetters(next_sequence=8, assigned=(3, 5)).only([(5, 7), (1, 4), (2, 3), (3, 6)], next_sequence=8)
    assert good == DeadLetters(next_sequence=8, assigned=(3, 5), kept=((2, 3), (1, 4)))
    assert good.sequences() == [(2, 3), (1, 4), (3, 6), (5, 7)]
    cell = QueueCell(settled=SettledOffsets(9), dead_letters=good)
    assert decode_cell(encode_cell(cell), where="cell") == cell
    with pytest.raises(DataDamaged):
        decode_cell(encode_cell(replace(cell, dead_letters=replace(good, kept=kept))), where="cell")


@pytest.mark.parametrize("refused", [((3, 0),), ((3, 2), (3, 2)), ((4, 1),)])
def test_messages_that_cannot_have_been_given_up_are_refused(refused: tuple[tuple[int, int], ...]) -> None:
    good = DeadLetters(next_sequence=2, assigned=(3, 5), refused=((5, 1), (3, 2)))
    cell = QueueCell(settled=SettledOffsets(9), dead_letters=good)
    assert decode_cell(encode_cell(cell), where="cell") == cell
    with pytest.raises(DataDamaged):
        decode_cell(encode_cell(replace(cell, dead_letters=replace(good, refused=refused))), where="cell")
