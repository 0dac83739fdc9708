"""Documents over cells: no change is lost or made twice, whoever writes beside, and whatever the table answers."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from penstock.coordinator.cells.cells import WRITE_ID_BYTES, CellChanged, Cells
from penstock.coordinator.cells.document import LONG_WRITE_S, WRITE_S, Codec, Document
from penstock.coordinator.tables import Cell, CellVersion, MemoryTable
from penstock.log.errors import DataDamaged, InvalidArgument, StoreUnavailable, UnknownOutcome
from penstock.log.runtime.runtime import Runtime
from tests.coordinator.stage import Stage
from tests.coordinator.test_cells import FaultyTable

Words = tuple[str, ...]


def _decoded(data: bytes, *, where: str) -> Words:
    try:
        return tuple(data.decode().split())
    except UnicodeDecodeError as error:
        raise DataDamaged("no words", object=where) from error


WORDS = Codec[Words](encode=lambda words: " ".join(words).encode(), decode=_decoded)
NOBODY = ("nobody",)


class Counting(MemoryTable):
    """Counts requests. Something may happen before the next put; all puts may get no answer, carried out or not."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.before_put: list[Callable[[], Awaitable[object]]] = []
        self.is_out = False

    async def get(self, key: str) -> Cell | None:
        self.calls["get"] += 1
        return await super().get(key)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        self.calls["put"] += 1
        if self.before_put:
            await self.before_put.pop(0)()
        if self.is_out:
            raise StoreUnavailable("no answer", operation="put")
        return await super().put(key, data, expected=expected)


def made(table: MemoryTable, *, write_s: float = WRITE_S, runtime: Runtime | None = None) -> Document[Words]:
    runtime = runtime or Runtime()
    return Document(Cells(table, runtime), runtime.clock, "words", WORDS, absent=NOBODY, write_s=write_s)


def adding(word: str) -> Callable[[Words], Words]:
    return lambda words: words if word in words else (*words, word)


def same(words: Words) -> Words:
    return words


async def test_a_document_is_what_its_cell_says() -> None:
    document, other = made(Counting()), made(Counting())
    assert (document.key, document.value, document.stored) == ("words", NOBODY, None)
    assert await document.read() == NOBODY
    assert await document.change(adding("one")) == ("nobody", "one")
    assert document.value == ("nobody", "one")
    assert document.stored is not None
    assert document.stored.data == b"nobody one"
    other = Document(document._cells, document._clock, "words", WORDS, absent=NOBODY)
    assert await other.read() == other.value == ("nobody", "one")
    assert other.stored == document.stored


async def test_what_another_wrote_is_changed_and_not_replaced() -> None:
    table = Counting()
    one, other = made(table), made(table)
    table.before_put = [lambda: other.change(adding("theirs"))]
    tried: list[Words] = []

    def mine(words: Words) -> Words:
        tried.append(words)
        return adding("mine")(words)

    assert await one.change(mine) == one.value == ("nobody", "theirs", "mine")
    assert tried == [NOBODY, ("nobody", "theirs")]
    assert await other.read() == one.value
    assert other.stored == one.stored


async def test_a_write_that_finds_another_s_goes_on_from_that() -> None:
    table = Counting()
    one, other = made(table), made(table)
    await other.change(adding("theirs"))
    with pytest.raises(CellChanged):
        await one.write(("mine",))
    assert (one.value, one.stored) == (other.value, other.stored)
    await one.write(("mine",))
    assert (one.value, await other.read()) == (("mine",), ("mine",))


async def test_nothing_is_written_where_nothing_changes_unless_it_is_asked_for() -> None:
    table = Counting()
    one, other = made(table), made(table)
    assert await one.change(same) == NOBODY
    assert table.calls == {"get": 1}
    assert await one.change(same, anew=True) == NOBODY
    assert table.calls == {"get": 2, "put": 1}
    stored = one.stored
    assert await other.change(same, anew=True) == NOBODY
    assert table.calls == {"get": 3, "put": 2}
    with pytest.raises(CellChanged):  # a write that is based on the former version is refused
        await one.write(("mine",))
    assert one.stored == other.stored != stored


async def test_a_change_of_the_known_content_asks_for_it_only_when_it_was_changed() -> None:
    table = Counting()
    one, other = made(table), made(table)
    assert await one.change_known(adding("one")) == ("nobody", "one")
    assert await one.change_known(adding("two")) == ("nobody", "one", "two")
    assert table.calls == {"put": 2}
    await other.change(adding("theirs"))
    assert await one.change_known(adding("three")) == ("nobody", "one", "two", "theirs", "three")
    assert await one.change_known(same) == one.value
    assert table.calls == {"put": 5, "get": 2}


async def test_what_a_change_raises_changes_nothing() -> None:
    table = Counting()
    one, other = made(table), made(table)
    table.before_put = [lambda: other.change(adding("theirs"))]

    def refusing(words: Words) -> Words:
        if "theirs" in words:
            raise InvalidArgument("theirs is there")
        return (*words, "mine")

    with pytest.raises(InvalidArgument):
        await one.change(refusing)
    assert await other.read() == one.value == ("nobody", "theirs")


async def test_a_cell_that_cannot_be_read_is_named() -> None:
    table = MemoryTable()
    await table.put("words", bytes(16) + b"\xff", expected=None)
    document = made(table)
    with pytest.raises(DataDamaged, match=r"no words.*words"):
        await document.read()
    with pytest.raises(DataDamaged, match=r"no words.*words"):
        await document.write(("one",))
    assert (document.value, document.stored) == (NOBODY, None)


@pytest.mark.parametrize("write_s", [WRITE_S, LONG_WRITE_S])
@pytest.mark.parametrize("way", ["write", "change", "change_known"])
def test_a_table_that_does_not_answer_is_given_up_in_time(way: str, write_s: float) -> None:
    async def run() -> None:
        table = Counting()
        table.is_out = True
        document = made(table, runtime=process.runtime, write_s=write_s)
        began_s = kernel.loop.now
        with pytest.raises(UnknownOutcome):
            await (document.write(("one",)) if way == "write" else getattr(document, way)(adding("one")))
        assert write_s - 3 < kernel.loop.now - began_s <= write_s
        assert (document.value, document.stored) == (NOBODY, None)

        began_s = kernel.loop.now
        with pytest.raises(UnknownOutcome):
            await document.write(("one",), deadline_s=process.runtime.clock.monotonic_s() + 4)
        assert 2 < kernel.loop.now - began_s <= 4

    kernel = Stage().kernel
    process = kernel.process("a")
    kernel.run(process.run(run()))


@pytest.mark.parametrize("way", ["change", "change_known"])
def test_reading_and_all_tries_of_a_change_have_one_deadline(way: str) -> None:
    """While others write the cell answers; from the last of their writes on it does not."""

    async def run() -> None:
        class Slow(Counting):
            async def get(self, key: str) -> Cell | None:
                await asyncio.sleep(2)
                return await super().get(key)

        table = Slow()
        one, other = made(table, runtime=process.runtime), made(table, runtime=process.runtime)

        async def beside() -> None:
            await other.change_known(adding(f"theirs {table.calls['put']}"))
            table.before_put = [last if table.calls["put"] > 4 else beside]

        async def last() -> None:
            table.is_out = True

        table.before_put = [beside]
        began_s = kernel.loop.now
        with pytest.raises(UnknownOutcome):
            await getattr(one, way)(adding("mine"))
        assert 6 < kernel.loop.now - began_s <= 12.1

    kernel = Stage().kernel
    process = kernel.process("a")
    kernel.run(process.run(run()))


@pytest.mark.parametrize("write_s", [60.0, 0.0])
def test_changes_of_many_are_made_once_each_whatever_the_table_answers(write_s: float) -> None:
    async def writer(table: FaultyTable, seed: int, name: str) -> tuple[set[str], set[str]]:
        document = made(table, write_s=write_s, runtime=Runtime(random=random.Random(f"{seed} {name}")))
        certain, unknown = set[str](), set[str]()
        for word in (f"{name}{step}" for step in range(4)):
            while True:
                try:
                    await (document.change if random.Random(word).random() < 0.5 else document.change_known)(adding(word))
                except StoreUnavailable:
                    continue  # of a read
                except UnknownOutcome:
                    unknown.add(word)
                else:
                    certain.add(word)
                break
        return certain, unknown

    async def run(seed: int) -> None:
        table = FaultyTable(random.Random(seed), 0.3)
        found = await asyncio.gather(*(writer(table, seed, name) for name in "abc"))
        await asyncio.gather(*table.late)
        cell = await MemoryTable.get(table, "words")
        words = [] if cell is None else cell.data[WRITE_ID_BYTES:].decode().split()[1:]
        assert len(words) == len(set(words))
        certain = set[str]().union(*(one for one, _ in found))
        assert certain <= set(words) <= certain.union(*(two for _, two in found))
        assert not write_s or len(certain) == 12

    for seed in range(15):
        asyncio.run(run(seed))
