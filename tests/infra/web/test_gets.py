"""What each page asks of the store: at most 20 GETs at once, however many queues it shows."""

from __future__ import annotations

from datetime import timedelta

from penstock import aio
from penstock.consumers.dead_letters.writer import DeadLetter, DeadLetterWriter
from penstock.infra.web.faults import PagePart
from penstock.infra.web.lakes.source import LakeSource
from penstock.infra.web.views.page import PageContext
from penstock.infra.web.views.pages import BY_NAME, PAGES
from penstock.log import Message, MessageType, ProducerOptions, TopicSettings
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore
from penstock.log.table.publisher import Publisher
from penstock.log.topic.records import read_record

GETS_MAX = 20
TOPICS, QUEUES, MESSAGES = 9, 4, 2_000
AT_ONCE = ProducerOptions(linger=timedelta(milliseconds=1))


async def fill(lake: aio.Lake) -> str:
    """Topic orders, half of it published, with dead letters; others; and group billing, which has begun on all. Returns a message's id."""
    await lake.create_group("billing")
    for name in ("orders", *(f"topic-{number}" for number in range(TOPICS))):
        kind = MessageType.FIFO if name == "orders" else MessageType.NORMAL
        await lake.create_topic(name, TopicSettings(queues=QUEUES, message_type=kind))
        await lake.reset_offsets("billing", name, "earliest")
    sent = []
    for half in range(2):
        producer = await lake.producer("orders", options=AT_ONCE)
        for number in range(MESSAGES):
            message = Message(b"{}", message_group=f"m-{number % 40}", keys=["k"], properties={"n": f"{half}/{number}"})
            sent.append(producer.send(message))
        await producer.close()
        if not half:
            paths = TopicPaths.of("orders")
            record = await read_record(lake.store, paths)
            assert record is not None
            await Publisher(lake.store, paths, record[0], lake.runtime).publish_once()
    for number in range(TOPICS):
        producer = await lake.producer(f"topic-{number}", options=AT_ONCE)
        producer.send(Message(b"{}"))
        await producer.close()
    (given_up,) = [one async for one in (await lake.reader("orders")).messages(queue=0, end=1)]
    writer = DeadLetterWriter(lake, "billing", "orders", 0)
    await writer.write([DeadLetter(0, given_up, 3, "no such order")])
    await writer.close()
    return given_up.message_id


def faults(shown: object) -> list[object]:
    """The parts of a page that failed."""
    parts = [getattr(shown, name) for name in getattr(shown, "__slots__", ())]
    return [one.fault for one in parts if isinstance(one, PagePart) and one.fault is not None]


async def test_no_page_asks_for_more_than_twenty_objects() -> None:
    memory, runtime = MemoryStore(), Runtime()
    async with aio.Lake(memory, runtime=runtime) as lake:
        message_id = await fill(lake)
    store = CountingStore(memory)
    refresh = timedelta(minutes=1)
    source = LakeSource("lake", lambda: aio.Lake(store, runtime=runtime), runtime, refresh)
    context = PageContext(source)
    orders = {"topic": "orders"}
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = [
        *((page.name, {}, {}) for page in PAGES if not page.names),
        *((page.name, orders, {}) for page in PAGES if page.names == ("topic",)),
        *((page.name, {"group": "billing"}, {}) for page in PAGES if page.names == ("group",)),
        ("message_group", {**orders, "message_group": "m-1"}, {}),
        ("message", {"message_id": message_id}, orders),
        ("messages", orders, {"where": "n = 'rare'"}),
        ("messages", orders, {"where": "n = '0/7'", "start": "earliest"}),
        ("messages", orders, {"tag": "none"}),
        ("messages", orders, {"key": "k"}),
        ("messages", orders, {"id": message_id}),
    ]
    assert {name for name, _, _ in asked} == {page.name for page in PAGES}
    await source.look()
    costs = {}
    for name, path, query in asked:
        page = BY_NAME[name]
        for look in range(2):
            source.memo.clear()
            await source.look()  # the look that all pages share is no page's
            before = store.statistics()
            shown = await page.gather(context, page.parse_request(path, query))  # type: ignore[attr-defined]
            costs[name, str(query), look] = (store.statistics() - before).get.requests
            assert not faults(shown), (name, faults(shown))
    await source.close()
    assert {where: gets for where, gets in costs.items() if gets > GETS_MAX} == {}
