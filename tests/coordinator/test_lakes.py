"""Lakes that a process has open: one for each place and process, none in memory, closed at the end."""

from __future__ import annotations

import asyncio
import os
import pickle
from pathlib import Path

import pytest

import penstock
from penstock.coordinator.lakes import LakePlace, OpenLake, OpenLakes
from penstock.log.errors import ClosedError, InvalidArgument
from penstock.log.topic.settings import TopicSettings


def test_a_folder_an_url_and_an_open_lake_are_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = LakePlace.of("lake")
    assert place == LakePlace.of(tmp_path / "lake") == LakePlace.of((tmp_path / "lake").as_uri())
    with penstock.connect("lake") as lake:
        assert LakePlace.of(lake) == place
    with penstock.connect("lake", coordination=f"sqlite://{tmp_path}/groups") as lake:
        assert LakePlace.of(lake).coordination == f"sqlite://{tmp_path}/groups"
    with penstock.connect("lake", read_only=True) as lake:
        assert LakePlace.of(lake) == place.as_read_only
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_lake_in_memory_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="memory of one process, and Spark's executors are other processes"):
        LakePlace.of("memory://mine")
    with penstock.connect("memory://mine") as lake, pytest.raises(InvalidArgument, match="the lake is in the memory"):
        LakePlace.of(lake)
    with pytest.raises(InvalidArgument, match="its coordination is in the memory"):
        LakePlace.of("lake", coordination="memory://")


@pytest.mark.parametrize("what", ["", None, 7])
def test_what_is_no_lake_is_refused(what: object) -> None:
    with pytest.raises(InvalidArgument, match=r"not a lake .*penstock\.Lake"):
        LakePlace.of(what)  # type: ignore[arg-type]


def test_a_process_opens_a_lake_once(tmp_path: Path) -> None:
    lakes, place = OpenLakes(), LakePlace.of(tmp_path)
    opened = lakes.open(place)
    assert lakes.open(place) is opened
    assert lakes.open(place.as_read_only) is not opened
    lakes.close()
    assert not opened.usable
    again = lakes.open(place)
    assert again is not opened
    assert again.usable
    lakes.close()


def test_it_writes_or_it_does_not(tmp_path: Path) -> None:
    lakes, place = OpenLakes(), LakePlace.of(tmp_path)
    writing, reading = lakes.open(place), lakes.open(place.as_read_only)
    writing.run(lambda: writing.lake.create_topic("orders", TopicSettings(queues=1)))
    assert list(reading.run(reading.lake.topics)) == ["orders"]
    with pytest.raises(penstock.ReadOnlyError):
        reading.run(lambda: reading.lake.create_topic("more", TopicSettings(queues=1)))
    lakes.close()
    with pytest.raises(ClosedError):
        reading.run(reading.lake.topics)


def test_consumer_groups_are_those_of_the_lake(tmp_path: Path) -> None:
    with penstock.connect(tmp_path) as lake:
        lake.create_group("billing")
    opened = OpenLake(LakePlace.of(tmp_path, read_only=True))

    async def groups() -> list[str]:
        return list(await (await opened.coordination()).groups.all())

    assert opened.run(groups) == ["billing"]
    opened.close()
    opened.close()


def test_a_child_begins_with_none(tmp_path: Path) -> None:
    lakes, place = OpenLakes(), LakePlace.of(tmp_path)
    opened = lakes.open(place)
    child = os.fork()
    if child == 0:
        try:
            mine = lakes.open(place)
            mine.run(lambda: asyncio.sleep(0))
            os._exit(0 if mine is not opened and not opened.usable else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lakes.open(place) is opened
    lakes.close()
