"""What `ObjectStore` promises, as checks that run on any store. Each starts with an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.log.errors import InvalidArgument
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    Buffer,
    Conflict,
    IfMatch,
    ObjectMissing,
    ObjectStore,
    Put,
    Version,
    probe_conditional_writes,
)

Check = Callable[[ObjectStore], Awaitable[None]]
SECOND_MS = 1000


async def put_all(store: ObjectStore, keys: list[str], data: bytes = b"x") -> None:
    limit = asyncio.Semaphore(16)

    async def put(key: str) -> None:
        async with limit:
            await store.put(key, data, mode=Put.CREATE)

    await asyncio.gather(*map(put, keys))


async def keys_of(store: ObjectStore, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[str]:
    return [info.key for info in await store.list(prefix, after=after, max_keys=max_keys)]


async def created_objects_are_read_back(store: ObjectStore) -> None:
    bodies: dict[str, Buffer] = {
        "a/empty": b"",
        "a/bytes": b"bytes",
        "a/array": bytearray(b"array"),
        "a/view": memoryview(b"-view-")[1:5],
        "a/binary": bytes(range(256)) * 8,
    }
    for key, body in bodies.items():
        await store.put(key, body, mode=Put.CREATE)
        assert (await store.get(key)).data == bytes(body)
    await store.put("a/pieces", [b"in ", bytearray(b"three "), memoryview(b"pieces")], mode=Put.CREATE)
    assert (await store.get("a/pieces")).data == b"in three pieces"


async def a_second_create_is_refused_and_changes_nothing(store: ObjectStore) -> None:
    await store.put("k", b"one", mode=Put.CREATE)
    for body in (b"two", b"one"):
        with pytest.raises(Conflict):
            await store.put("k", body, mode=Put.CREATE)
    assert (await store.get("k")).data == b"one"


async def a_large_create_is_refused_like_a_small_one(store: ObjectStore) -> None:
    await store.put("k", b"1" * 1024 * 1024, mode=Put.CREATE)
    with pytest.raises(Conflict):
        await store.put("k", b"2" * 1024 * 1024, mode=Put.CREATE)
    assert (await store.get("k")).data == b"1" * 1024 * 1024


async def if_match_replaces_only_what_it_names(store: ObjectStore) -> None:
    first = await store.put("k", b"one", mode=Put.CREATE)
    assert first == (await store.get("k")).version
    second = await store.put("k", b"two", mode=IfMatch(first))
    assert second != first
    with pytest.raises(Conflict):
        await store.put("k", b"three", mode=IfMatch(first))
    assert (await store.get("k")).data == b"two"
    await store.put("k", b"four", mode=IfMatch((await store.get("k")).version))
    assert (await store.get("k")).data == b"four"


async def if_match_on_an_absent_key_is_refused(store: ObjectStore) -> None:
    version = await store.put("k", b"one", mode=Put.CREATE)
    with pytest.raises(Conflict):
        await store.put("other", b"two", mode=IfMatch(version))
    await store.delete("k")
    with pytest.raises(Conflict):
        await store.put("k", b"three", mode=IfMatch(version))
    assert await store.list("") == []


async def replace_writes_whatever_is_there(store: ObjectStore) -> None:
    await store.put("k", b"one", mode=Put.REPLACE)
    version = await store.put("k", b"two", mode=Put.REPLACE)
    assert isinstance(version, Version)
    found = await store.get("k")
    assert (found.data, found.version) == (b"two", version)


async def what_is_missing_is_said_to_be(store: ObjectStore) -> None:
    await store.put("folder/k", b"", mode=Put.CREATE)
    for key in ("nothing", "folder", "folder/other", "no/such/folder"):
        with pytest.raises(ObjectMissing):
            await store.get(key)
        with pytest.raises(ObjectMissing):
            await store.get_range(key, 0, 10)
        with pytest.raises(ObjectMissing):
            await store.get_range(key, -10, 0)


async def ranges_are_cut_where_the_object_ends(store: ObjectStore) -> None:
    await store.put("k", b"0123456789", mode=Put.CREATE)
    cases = {
        (0, 10): b"0123456789",
        (2, 5): b"234",
        (8, 100): b"89",
        (10, 20): b"",
        (50, 60): b"",
        (3, 3): b"",
        (-3, 0): b"789",
        (-100, 0): b"0123456789",
    }
    for (start, limit), expected in cases.items():
        assert await store.get_range("k", start, limit) == expected, (start, limit)
    await store.put("empty", b"", mode=Put.CREATE)
    assert await store.get_range("empty", -8, 0) == b""
    assert await store.get_range("empty", 0, 8) == b""


async def lists_are_in_key_order_and_start_after(store: ObjectStore) -> None:
    # "-" and "." sort before "/", "0" after it: the order of keys is not the order of folders.
    keys = ["a-b", "a.c", "a/1", "a/2/x", "a/2/y", "a/3", "a0", "b/1"]
    await put_all(store, list(reversed(keys)))
    assert await keys_of(store, "") == keys
    assert await keys_of(store, "a") == keys[:-1]
    assert await keys_of(store, "a/") == keys[2:6]
    assert await keys_of(store, "a/2") == ["a/2/x", "a/2/y"]
    assert await keys_of(store, "c") == []
    assert await keys_of(store, "a/1") == ["a/1"]
    for position, after in enumerate(keys):
        assert await keys_of(store, "", after=after) == keys[position + 1 :]
        assert await keys_of(store, "a/", after=after) == [key for key in keys[position + 1 :] if key.startswith("a/")]
    assert await keys_of(store, "", after="a/2") == keys[3:]
    assert await keys_of(store, "", after="a/2/xx") == keys[4:]
    assert await keys_of(store, "", max_keys=3) == keys[:3]
    assert await keys_of(store, "a", after="a/1", max_keys=2) == ["a/2/x", "a/2/y"]
    assert await keys_of(store, "", max_keys=0) == []


async def a_prefix_is_text_not_a_folder(store: ObjectStore) -> None:
    await put_all(store, ["log/0001", "log/0002", "log/0010", "log/0011/x", "logs/1"])
    assert await keys_of(store, "log/000") == ["log/0001", "log/0002"]
    assert await keys_of(store, "log/001") == ["log/0010", "log/0011/x"]
    assert await keys_of(store, "log") == ["log/0001", "log/0002", "log/0010", "log/0011/x", "logs/1"]
    assert await keys_of(store, "log/000", after="log/0001") == ["log/0002"]


async def lists_pass_the_page_of_a_thousand(store: ObjectStore) -> None:
    keys = [f"many/{number:020}" for number in range(1050)]
    await put_all(store, keys)
    assert await keys_of(store, "many/") == keys
    assert await keys_of(store, "many/", after=keys[1020]) == keys[1021:]
    assert await keys_of(store, "many/", max_keys=1001) == keys[:1001]


async def lists_tell_sizes_and_times(store: ObjectStore) -> None:
    before_ms = await store.clock_ms()
    await store.put("k", b"12345", mode=Put.CREATE)
    after_ms = await store.clock_ms()
    (info,) = await store.list("k")
    assert info.size_bytes == 5
    assert info.last_modified_ms == (await store.get("k")).last_modified_ms
    assert before_ms - SECOND_MS <= info.last_modified_ms <= after_ms + SECOND_MS


async def lists_tell_the_tags_of_versions(store: ObjectStore) -> None:
    version = await store.put("k", b"one", mode=Put.CREATE)
    (before,) = await store.list("k")
    assert before.tag
    assert before.tag == version.tag == (await store.get("k")).version.tag
    await store.put("k", b"two", mode=IfMatch(version))
    (after,) = await store.list("k")
    assert after.tag not in ("", before.tag)


async def learning_the_clock_leaves_nothing(store: ObjectStore) -> None:
    await store.clock_ms()
    assert await store.list("") == []


async def folders_are_those_with_objects(store: ObjectStore) -> None:
    await put_all(store, ["topics/b/topic.json", "topics/a/log/1", "topics/file", "other/x"])
    assert await store.list_folders("topics/") == ["a", "b"]
    assert await store.list_folders("") == ["other", "topics"]
    assert await store.list_folders("nothing/") == []
    await store.delete("topics/a/log/1")
    assert await store.list_folders("topics/") == ["b"]


async def deleted_objects_are_gone_and_their_key_is_free(store: ObjectStore) -> None:
    await store.put("a/b/k", b"one", mode=Put.CREATE)
    for _ in range(2):
        await store.delete("a/b/k")
    await store.delete("a/b/never")
    with pytest.raises(ObjectMissing):
        await store.get("a/b/k")
    assert await store.list("") == []
    await store.put("a/b/k", b"two", mode=Put.CREATE)
    assert (await store.get("a/b/k")).data == b"two"


async def large_objects_arrive_whole(store: ObjectStore) -> None:
    pieces = [bytes([number]) * 1_000_001 for number in range(18)]
    await store.put_large("large/pieces", pieces)
    await store.put_large("large/whole", pieces[1])
    await store.put_large("large/small", [b"a", b"b"])
    assert (await store.get("large/pieces")).data == b"".join(pieces)
    assert (await store.get("large/whole")).data == pieces[1]
    assert (await store.get("large/small")).data == b"ab"
    assert await store.get_range("large/pieces", -4, 0) == b"\x11" * 4


async def names_may_hold_what_tables_need(store: ObjectStore) -> None:
    keys = [
        "t/_delta_log/00000000000000000000.json",
        "t/a b+c,d",
        "t/dlq.a.b!2f!20c",
        "t/p@q~r",
        "t/queue=3/0-9-id.parquet",
        "t/ünï",
    ]
    await put_all(store, keys)
    assert await keys_of(store, "t/") == keys
    for key in keys:
        assert (await store.get(key)).data == b"x"
        await store.delete(key)
    assert await store.list("") == []


async def keys_that_not_every_store_can_hold_are_refused(store: ObjectStore) -> None:
    for key in ("", "/k", "k/", "a//b", ".", "../k", "a/../b", "a/./b", "a\0b", ".penstock", ".penstock/locks/0"):
        calls: list[Callable[[str], Awaitable[object]]] = [
            lambda key: store.put(key, b"", mode=Put.CREATE),
            lambda key: store.put_large(key, b""),
            store.get,
            lambda key: store.get_range(key, 0, 1),
            store.delete,
        ]
        for call in calls:
            with pytest.raises(InvalidArgument):
                await call(key)
    for prefix in ("/", "../", "a//b", "a/../b", ".penstock/"):
        for listing in (store.list, store.list_folders):
            with pytest.raises(InvalidArgument):
                await listing(prefix)
    assert await store.list("") == []


async def the_probe_is_passed_and_leaves_nothing(store: ObjectStore) -> None:
    await probe_conditional_writes(store, Runtime())
    assert await store.list("") == []


async def many_calls_run_side_by_side(store: ObjectStore) -> None:
    results = await asyncio.gather(
        *(store.put("k", str(number).encode(), mode=Put.CREATE) for number in range(64)), return_exceptions=True
    )
    winners = [number for number, result in enumerate(results) if isinstance(result, Version)]
    assert len(winners) == 1
    assert all(isinstance(result, Version | Conflict) for result in results)
    assert (await store.get("k")).data == str(winners[0]).encode()


async def a_url_is_shown_without_secrets(store: ObjectStore) -> None:
    assert "://" in store.url
    assert "secret" not in store.url


CHECKS: list[Check] = [
    created_objects_are_read_back,
    a_second_create_is_refused_and_changes_nothing,
    a_large_create_is_refused_like_a_small_one,
    if_match_replaces_only_what_it_names,
    if_match_on_an_absent_key_is_refused,
    replace_writes_whatever_is_there,
    what_is_missing_is_said_to_be,
    ranges_are_cut_where_the_object_ends,
    lists_are_in_key_order_and_start_after,
    a_prefix_is_text_not_a_folder,
    lists_pass_the_page_of_a_thousand,
    lists_tell_sizes_and_times,
    lists_tell_the_tags_of_versions,
    learning_the_clock_leaves_nothing,
    folders_are_those_with_objects,
    deleted_objects_are_gone_and_their_key_is_free,
    large_objects_arrive_whole,
    names_may_hold_what_tables_need,
    keys_that_not_every_store_can_hold_are_refused,
    the_probe_is_passed_and_leaves_nothing,
    many_calls_run_side_by_side,
    a_url_is_shown_without_secrets,
]
