"""What operators order, carried out in the cell of a queue: once, and only on what they meant."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from penstock.coordinator.groups.record import Command, CommandKind, GroupRecord, GroupSettings, Position
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.commands import begin, caught_up, with_commands_applied
from penstock.coordinator.queues.offsets import SettledOffsets

RELEASE, SKIP = CommandKind.RELEASE, CommandKind.SKIP


def parked_at(*heads: int, limit: int | None = None, strikes: int = 17) -> QueueCell:
    """A cell in which message groups 100, 101, … are parked at these offsets, and what lies below 20 is settled."""
    cell = QueueCell(settled=SettledOffsets(20), epoch=4, owner="w/1")
    markers = {
        100 + place: Marker(head, limit or head + 1, Tries(MessageState.PARKED, strikes, strikes))
        for place, head in enumerate(heads)
    }
    return structs.replace(cell, markers=markers)


def command(kind: CommandKind, *heads: int, number: int = 1, generation: int = 0, attempts: int = 17) -> Command:
    return Command(number, kind, "orders", 0, generation, heads, (attempts,) * len(heads))


def test_a_released_group_is_due_at_once_with_no_strike() -> None:
    cell = with_commands_applied(parked_at(3, 7), [command(RELEASE, 7)])
    assert cell.markers == {
        100: Marker(3, 4, Tries(MessageState.PARKED, 17, 17)),
        101: Marker(7, 8, Tries(MessageState.WAITING, attempts=17, strikes=0, due_ms=0)),
    }
    assert cell.commands == 1
    assert cell.dead_letters.assigned == ()


def test_a_skipped_message_is_a_dead_letter_and_its_group_goes_on_behind_it() -> None:
    cell = with_commands_applied(parked_at(9, 3), [command(SKIP, 3, 9)])
    waiting = Tries(MessageState.WAITING, attempts=0)
    assert cell.markers == {100: Marker(10, 10, waiting), 101: Marker(4, 4, waiting)}
    assert cell.dead_letters.sequences() == [(3, 0), (9, 1)]
    assert 3 in cell.settled
    assert decode_cell(encode_cell(cell), where="cell") == cell


def test_what_was_delivered_with_a_skipped_message_keeps_its_attempts() -> None:
    cell = with_commands_applied(parked_at(3, limit=9, strikes=5), [command(SKIP, 3, attempts=5)])
    assert cell.markers == {100: Marker(4, 9, Tries(MessageState.WAITING, attempts=5))}


def test_a_command_does_nothing_a_second_time() -> None:
    commands = [command(RELEASE, 3, number=4), command(SKIP, 7, number=5)]
    cell = with_commands_applied(parked_at(3, 7), commands)
    assert cell.commands == 5
    assert with_commands_applied(cell, commands) is cell
    again = structs.replace(cell, markers=parked_at(3, 7).markers)  # both failed and are parked once more
    assert with_commands_applied(again, commands) is again
    assert with_commands_applied(again, [*commands, command(RELEASE, 3, number=6)]).markers[100].tries.state is MessageState.WAITING


def test_a_command_for_one_parking_is_not_carried_out_on_the_next() -> None:
    """The one order is carried out and fails, before the other, given at the same time, is read."""
    release, skip = command(RELEASE, 3, number=1), command(SKIP, 3, number=2)
    cell = with_commands_applied(parked_at(3), [release])
    assert cell.markers[100].tries.state is MessageState.WAITING
    again = structs.replace(cell, markers=parked_at(3, strikes=18).markers)
    after = with_commands_applied(again, [release, skip])
    assert after == structs.replace(again, commands=2)
    assert with_commands_applied(after, [command(SKIP, 3, number=3, attempts=18)]).dead_letters.assigned == (3,)


def test_only_a_group_that_is_parked_at_that_message_is_meant() -> None:
    cell = parked_at(3, 7)
    running = Marker(7, 9, Tries(MessageState.RUNNING, 18))
    cell = structs.replace(cell, markers={**cell.markers, 101: running})
    after = with_commands_applied(cell, [command(SKIP, 7, 8, 4)])
    assert after == structs.replace(cell, commands=1)


def test_a_command_from_before_a_reset_is_void() -> None:
    record = GroupRecord(settings=GroupSettings(), positions={"orders": Position((0,), (2,))}, commanded=1)
    late = replace(record, commands=(command(SKIP, 3, generation=1),))
    cell = structs.replace(parked_at(3), generation=2)
    assert caught_up(cell, late, "orders", 0) == structs.replace(cell, commands=1)


def test_a_cell_that_is_behind_is_reset_first_and_then_obeys() -> None:
    record = GroupRecord(settings=GroupSettings(), positions={"orders": Position((0, 5), (2, 2))})
    record = replace(record, commands=(command(RELEASE, 3, generation=1), command(SKIP, 3, number=2, generation=2)))
    old = structs.replace(parked_at(3), generation=1)
    cell = caught_up(old.with_dead_letters((2,)), record, "orders", 0)
    assert (cell.generation, cell.commands, cell.settled, cell.markers) == (2, 2, SettledOffsets(0), {})
    assert (cell.epoch, cell.owner) == (4, "w/1")
    assert cell.dead_letters.sequences() == [(2, 0)]
    assert caught_up(cell, record, "orders", 0) is cell


def test_dead_letters_of_a_former_life_are_not_those_of_the_messages_that_have_their_offsets_now() -> None:
    record = GroupRecord(settings=GroupSettings(), positions={"orders": Position((0,), (3,), life=9, since=2)})
    before = structs.replace(parked_at(3), generation=1).with_dead_letters((2, 5))
    cell = caught_up(before, record, "orders", 0)
    assert cell.dead_letters == DeadLetters(2, (2, 5), former=2)
    assert (cell.dead_letters.own, cell.dead_letters.former) == ((), 2)
    cell = cell.with_dead_letters((2,))
    assert (cell.dead_letters.own, cell.dead_letters.former) == ((2,), 2)
    assert decode_cell(encode_cell(cell), where="here") == cell
    again = replace(record, positions={"orders": Position((0,), (4,), life=9, since=2)})
    assert caught_up(cell, again, "orders", 0).dead_letters == cell.dead_letters, "a reset within a life"
    assert cell.with_dead_letters_written(0, lost=1).dead_letters == DeadLetters(3, (5, 2), former=1, lost=1)
    assert cell.with_dead_letters_written(2, lost=2).dead_letters == DeadLetters(3, (), lost=2)
    assert cell.with_dead_letters_written(2, lost=2).with_dead_letters_written(2, lost=2).dead_letters == DeadLetters(
        3, (), lost=2
    ), "told once"


def test_commands_of_other_queues_and_topics_are_left_alone() -> None:
    record = GroupRecord(settings=GroupSettings(), positions={"orders": Position((0, 0), (0, 0)), "events": Position((0,), (0,))})
    record = replace(record, commands=(command(SKIP, 3),))
    cell = parked_at(3)
    assert caught_up(cell, record, "orders", 1) is cell
    assert caught_up(cell, record, "events", 0) is cell
    assert caught_up(cell, record, "orders", 0) != cell


def test_a_queue_that_nobody_has_taken_begins_where_the_group_does() -> None:
    position = Position((5, 7), (0, 3))
    assert begin(position, 1) == QueueCell(generation=3, settled=SettledOffsets(7))
    record = GroupRecord(settings=GroupSettings(), positions={"orders": position})
    assert caught_up(begin(position, 1), record, "orders", 1) == begin(position, 1)


@given(st.sets(st.integers(0, 19)), st.lists(st.tuples(st.sampled_from(CommandKind), st.sets(st.integers(0, 19)))))
def test_commands_do_the_same_in_one_write_or_in_several(heads: set[int], orders: list[tuple[CommandKind, set[int]]]) -> None:
    cell = parked_at(*sorted(heads))
    commands = [command(kind, *sorted(meant), number=number) for number, (kind, meant) in enumerate(orders, 1)]
    together = with_commands_applied(cell, commands)
    one_by_one = cell
    for place in range(len(commands)):
        one_by_one = with_commands_applied(one_by_one, commands[: place + 1])
    assert one_by_one == together
    assert together.settled == cell.settled
    given_up = {offset for offset, _ in together.dead_letters.sequences()}
    assert given_up <= heads
    assert len(given_up) == together.dead_letters.next_sequence
