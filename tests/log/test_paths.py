"""Names and paths: there and back, and nothing that a store or a Delta reader stumbles over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.errors import ForeignObject, InvalidArgument, LimitExceeded
from penstock.log.paths import TopicPaths, check_topic_name, parse_padded, topic_folder, topic_name

NAMES = st.from_regex(r"(%DLQ%)?[A-Za-z0-9_-]{1,122}", fullmatch=True)
NUMBERS = st.integers(0, 10**20 - 1)


@given(NAMES)
def test_a_name_comes_back_from_its_folder(name: str) -> None:
    folder = topic_folder(name)
    assert topic_name(folder) == name
    assert "%" not in folder
    assert len(folder.encode()) <= 255


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


@pytest.mark.parametrize("folder", ["", "a.b", "dlq.", "dlq.a.b", "a%b", "a b", "x" * 300, ".hidden"])
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
    paths = TopicPaths.of("%DLQ%" + "x" * 122)
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
