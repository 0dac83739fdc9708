"""Names and paths: there and back, and nothing that a store or a Delta reader stumbles over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import ForeignObject, InvalidArgument, LimitExceeded
from penstock.log.paths import (
    TopicPaths,
    check_group_name,
    check_topic_name,
    collides,
    dead_letter_group,
    dead_letter_topic,
    group_folder,
    group_name,
    parse_padded,
    timer_log_name,
    topic_folder,
    topic_name,
)


def is_refused(check: Callable[[str], object], name: str) -> bool:
    try:
        check(name)
    except (InvalidArgument, LimitExceeded):
        return True
    return False


PLAIN = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda name: not is_refused(check_topic_name, name))
GROUPS = st.one_of(
    st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True),
    st.text("ab.!%/#αß\u0308日 *=~+\\\"'", min_size=1, max_size=30),
    st.text(min_size=1, max_size=20),
).filter(lambda name: not is_refused(check_group_name, name))
NAMES = st.one_of(PLAIN, PLAIN.map(timer_log_name), GROUPS.map(dead_letter_topic))
NUMBERS = st.integers(0, 10**20 - 1)


@given(NAMES)
def test_a_name_comes_back_from_its_folder(name: str) -> None:
    folder = topic_folder(name)
    assert topic_name(folder) == name
    assert "%" not in folder
    assert folder.isascii()
    assert len(folder) <= 255


@given(st.lists(NAMES, unique=True, max_size=5))
def test_two_names_never_share_a_folder(names: list[str]) -> None:
    assert len({topic_folder(name) for name in names}) == len(names)


@given(st.text(max_size=140))
def test_any_text_is_a_name_or_refused(name: str) -> None:
    try:
        check_topic_name(name)
    except (InvalidArgument, LimitExceeded):
        return
    assert topic_name(topic_folder(name)) == name


@given(GROUPS)
def test_a_group_comes_back_from_its_keys_and_from_its_dead_letters(group: str) -> None:
    assert group_name(group_folder(group)) == group
    assert dead_letter_group(dead_letter_topic(group)) == group
    assert "%" not in group_folder(group)
    assert all(group_folder(group).startswith(group_folder(group[:end])) for end in range(1, len(group)))


@given(st.lists(GROUPS, unique=True, max_size=5))
def test_two_groups_never_share_a_key_also_where_capitals_do_not_count(groups: list[str]) -> None:
    assert len({group_folder(group) for group in groups}) == len(groups)
    assert all(group_folder(one).lower() == group_folder(one.lower()) for one in groups if one.isascii())


@given(st.text(max_size=300))
def test_any_text_is_a_group_or_refused(group: str) -> None:
    if not is_refused(check_group_name, group):
        assert group_name(group_folder(group)) == group


def test_the_groups_of_before_lie_where_they_lay() -> None:
    for group in ("billing", "-", "_a-B9", "x" * 122):
        assert group_folder(group) == group
        assert dead_letter_topic(group) == f"%DLQ%{group}"
        assert topic_folder(dead_letter_topic(group)) == f"dlq.{group}"


@pytest.mark.parametrize(
    ("group", "folder"),
    [
        ("com.acme.billing", "com.acme.billing"),
        ("connect-cluster/αβ group#1", "connect-cluster!2f!ce!b1!ce!b2!20group!231"),
        (".", "!2e"),
        ("..", "!2e."),
        ("!2e", "!212e"),
        ("*", "!2a"),
        ("dlq.x", "dlq.x"),
    ],
)
def test_a_group_s_part_of_the_keys(group: str, folder: str) -> None:
    assert group_folder(group) == folder


@pytest.mark.parametrize(
    "folder", ["", ".", "..", ".x", "a b", "a/b", "!2E", "!61", "!6", "!", "!ff", "!ce", "!0a", "!25DLQ!25x", "ä", "x" * 250]
)
def test_a_strangers_key_is_no_group(folder: str) -> None:
    with pytest.raises(ForeignObject, match="not a consumer group's key"):
        group_name(folder)
    with pytest.raises(ForeignObject):
        topic_name(f"dlq.{folder}")
    with pytest.raises((InvalidArgument, LimitExceeded)):
        check_topic_name(f"%DLQ%{folder}")


@pytest.mark.parametrize("group", ["", "a\nb", "\x00", "a\x7f", "a\x85", "\u2028", "\u202e", "\u2066", "\ud800", "%DLQ%a"])
def test_a_group_that_steers_a_terminal_is_refused(group: str) -> None:
    with pytest.raises(InvalidArgument, match="consumer group"):
        group_folder(group)


@pytest.mark.parametrize("group", ["g" * 250, "α" * 42, "日" * 28, "/" * 84, "x" * 10_000_000])
def test_a_group_that_fits_no_path_part_is_refused_with_the_limit(group: str) -> None:
    with pytest.raises(LimitExceeded, match=r"at most 249 characters, where each byte .* counts as 3"):
        group_folder(group)
    assert len(topic_folder(dead_letter_topic(group[: 249 // len(group_folder(group[0]))]))) <= 255


@pytest.mark.parametrize(
    "name", [".", "..", "dlq.", "dlq.billing", "timer.orders", "a!2eb", "%TIMER%dlq.a", "%TIMER%%DLQ%a", "%DLQ%%TIMER%a"]
)
def test_a_topic_s_name_that_could_be_another_s_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="bad topic name"):
        check_topic_name(name)


def test_the_longest_names_fill_a_path_part() -> None:
    for name in ("t" * 249, timer_log_name("t" * 249), dead_letter_topic("t" * 249)):
        assert len(topic_folder(name)) <= 255
        with pytest.raises(LimitExceeded, match=r"at most 249 characters.*250"):
            check_topic_name(name + "t")


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("a.b", "a_b", True),
        ("a_b.c", "a.b_c", True),
        ("a.b", "a.b", False),
        ("a.b", "a-b", False),
        ("a_b", "a__b", False),
    ],
)
def test_names_collide_as_kafka_judges_them(name: str, other: str, expected: bool) -> None:
    assert collides(name, other) is collides(other, name) is expected


@pytest.mark.parametrize(
    "folder", ["", "dlq.", "timer.", "timer.dlq.a", "timer..", "a%b", "a b", "x" * 300, "%DLQ%a", "%TIMER%a", "a!2fb"]
)
def test_a_strangers_folder_is_no_topic(folder: str) -> None:
    with pytest.raises(ForeignObject):
        topic_name(folder)


@given(NUMBERS, NUMBERS)
def test_numbers_come_back_from_keys_and_keys_sort_as_numbers(one: int, other: int) -> None:
    paths = TopicPaths.of("orders")
    assert paths.entry_number(paths.entry(one)) == one
    assert paths.checkpoint_entry(paths.checkpoint(one)) == one
    assert paths.handed_parts(paths.handed_object(one, "name")) == (one, "name")
    assert (paths.entry(one) < paths.entry(other)) == (one < other)


@pytest.mark.parametrize(
    "name", ["floor", "checkpoints/00000000000000000001", "1.parquet", "0000000000000000000x.parquet", "00000000000000000001"]
)
def test_what_is_no_entry_has_no_number(name: str) -> None:
    paths = TopicPaths.of("orders")
    assert paths.entry_number(paths.log + name) is None
    assert paths.entry_number(f"elsewhere/{name}") is None


def test_padded_numbers_are_plain_digits() -> None:
    assert parse_padded("0" * 20) == 0
    assert parse_padded("٠" * 20) is None
    assert parse_padded("-0000000000000000001") is None


def test_no_key_is_the_folder_of_another_and_no_part_too_long() -> None:
    paths = TopicPaths.of("%TIMER%" + "x" * 249)
    made = [
        paths.settings,
        paths.entry(1),
        paths.floor,
        paths.checkpoint(1),
        paths.handed_object(1, "n" * 255),
        paths.job_record("j"),
        paths.job_part("j", "p" * 240),
        paths.table("table") + "_delta_log/x",
    ]
    for key in made:
        assert not any(other.startswith(key + "/") for other in made)
        assert all(0 < len(part.encode()) <= 255 for part in key.split("/"))
    with pytest.raises(LimitExceeded, match=r"too long.*256"):
        paths.handed_object(1, "n" * 256)
