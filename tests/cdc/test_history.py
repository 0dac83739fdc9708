from __future__ import annotations

from penstock.cdc.changes import NEVER
from penstock.cdc.fold import Version
from penstock.cdc.history import chains
from penstock.cdc.types import KEEP


def version(
    op: str, position: int | None, time_us: int, *values: object, queue: int = 0, key: tuple[object, ...] = (1,)
) -> Version:
    return Version(() if op == "t" else key, op, () if op == "t" else values or (None, None), position, time_us, (queue, time_us))


def test_each_version_is_valid_until_the_next_and_lacking_columns_come_from_the_one_before() -> None:
    first, second, third = chains([version("c", 1, 10, 1, "a"), version("u", 2, 20, 1, KEEP), version("d", 3, 30)])
    assert (first.values, first.valid_from_us, first.valid_to_us, first.since) == ((1, "a"), 10, 20, (1, 1))
    assert (second.values, second.valid_to_us, second.since) == ((1, "a"), 30, (2, 1))
    assert (third.op, third.valid_from_us, third.valid_to_us) == ("d", 30, None)


def test_what_only_the_target_knows_is_asked_for_until_a_version_says_it() -> None:
    links = chains([version("u", 1, 10, 1, KEEP), version("u", 2, 20, 1, KEEP), version("u", 3, 30, 1, "x")])
    assert [link.since for link in links] == [(1, NEVER), (2, NEVER), (3, 3)]
    gone = chains([version("d", 1, 10), version("c", 2, 20, 1, KEEP)])
    assert (gone[1].since, gone[1].values) == ((2, 1), (1, None))


def test_versions_that_are_told_again_or_came_by_another_queue_fall_into_place() -> None:
    links = chains([version("u", 5, 50, 1, "b"), version("u", 3, 30, 1, "a", queue=1), version("u", 5, 50, 1, "b", queue=1)])
    assert [(link.position, link.valid_from_us, link.valid_to_us) for link in links] == [(3, 30, 50), (5, 50, None)]


def test_a_truncate_ends_every_row() -> None:
    links = chains([version("c", 1, 10, 1, "a"), version("t", 2, 20), version("c", 3, 30, 2, "b", key=(2,))])
    assert [(link.key, link.op, link.valid_from_us, link.valid_to_us) for link in links] == [
        ((1,), "c", 10, 20),
        ((1,), "d", 20, None),
        ((2,), "d", 20, 30),
        ((2,), "c", 30, None),
    ]


def test_changes_without_positions_by_several_queues_go_by_their_times() -> None:
    links = chains([version("c", None, 50, 1, "a", queue=1), version("t", None, 10, queue=2)])
    assert [(link.op, link.valid_from_us, link.valid_to_us) for link in links] == [("d", 10, 50), ("c", 50, None)]
    of_one_queue = [version("c", None, 50, 1, "a"), version("u", None, 50, 1, "b")]
    assert [link.values for link in chains(of_one_queue)] == [(1, "a"), (1, "b")]


def test_what_is_told_at_one_position_counts_in_its_order_unless_it_says_the_same() -> None:
    """As a compressed transaction of MySQL does, and a connector that tells its last statement again."""
    links = chains(
        [version("u", 5, 1, 1, "a"), version("u", 5, 2, 1, "b"), version("u", 5, 3, 1, "b"), version("u", 5, 4, 1, KEEP)]
    )
    assert [(link.values, link.last) for link in links] == [((1, "a"), False), ((1, "b"), True)]
    links = chains([version("d", 5, 1), version("d", 5, 2), version("c", 5, 3, 1, "a"), version("u", 6, 4, 1, "b")])
    assert [(link.op, link.last) for link in links] == [("d", False), ("c", True), ("u", True)]


def test_positions_go_before_the_clocks_of_what_told_them() -> None:
    links = chains([version("c", 1, 90, 1, "a", queue=1), version("u", 2, 10, 1, "b"), version("u", 3, 20, 1, "c")])
    assert [(link.position, link.values) for link in links] == [(1, (1, "a")), (2, (1, "b")), (3, (1, "c"))]


def test_what_is_told_again_is_passed_over_also_beside_what_has_no_position() -> None:
    links = chains(
        [version("c", 4, 10, 1, "a"), version("u", 5, 20, 1, "b"), version("c", 4, 30, 1, "a"), version("u", None, 40, 1, "c")]
    )
    assert [(link.position, link.values) for link in links] == [(4, (1, "a")), (5, (1, "b")), (None, (1, "c"))]
