"""What goes over the wire, how often, and what its answers mean."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from typing import NoReturn

import obstore
import pytest

from penstock.log.errors import (
    ClockSkewError,
    ClosedError,
    ForkedError,
    InvalidArgument,
    NotSupported,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
    UnsafeStoreError,
)
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    Conflict,
    IfMatch,
    ObjectMissing,
    ObjectStore,
    Put,
    Version,
    open_store,
    probe_conditional_writes,
)
from penstock.log.stores.remote import RemoteStore
from tests.log.stores.scripted_http import Answer, ScriptedServer, scripted_server
from tests.servers import S3Server

pytestmark = pytest.mark.s3


def opened(server: ScriptedServer, **options: str) -> ObjectStore:
    # A region of its own tells the credentials' scope; nothing but the endpoint is ever asked.
    place = S3Server(server.endpoint)
    return open_store(place.url("p"), options={**place.credentials, **options})


def create(store: ObjectStore) -> Awaitable[object]:
    return store.put("k", b"body", mode=Put.CREATE)


def replace(store: ObjectStore) -> Awaitable[object]:
    return store.put("k", b"body", mode=Put.REPLACE)


def match(store: ObjectStore) -> Awaitable[object]:
    return store.put("k", b"body", mode=IfMatch(Version('"old"')))


def get(store: ObjectStore) -> Awaitable[object]:
    return store.get("k")


def listing(store: ObjectStore) -> Awaitable[object]:
    return store.list("k/")


def delete(store: ObjectStore) -> Awaitable[object]:
    return store.delete("k")


async def awaited(call: Awaitable[object]) -> object:
    return await call


def test_credentials_that_are_refused_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they were accepted, and every five seconds at most."""
    refused = Answer(400, "ExpiredToken")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    async def use(server: ScriptedServer) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "former")
        store = open_store(S3Server(server.endpoint).url("p"))
        await replace(store)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
        for _ in range(3):
            with pytest.raises(PermissionDenied):
                await replace(store)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "too soon")
        await replace(store)

    with scripted_server(Answer(), refused, refused, refused, Answer()) as server:
        asyncio.run(use(server))
        keys = [request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in server.requests]
    assert keys == ["former", "former", "renewed", "renewed", "renewed"]


def test_credentials_are_not_read_again_before_they_were_accepted_nor_for_other_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    def renew() -> NoReturn:
        raise AssertionError("they are read again")

    async def use(server: ScriptedServer) -> None:
        store = opened(server)
        monkeypatch.setattr(store, "_renew", renew)
        with pytest.raises(PermissionDenied):
            await replace(store)
        await replace(store)
        with pytest.raises(StoreUnavailable):
            await replace(store)

    with scripted_server(Answer(403, "AccessDenied"), Answer(), Answer(503, "SlowDown")) as server:
        asyncio.run(use(server))


def test_credentials_that_cannot_be_read_now_leave_the_refusal_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program is about to write their file, for example."""

    def unreadable() -> NoReturn:
        raise obstore.exceptions.GenericError("no such file")

    async def use(server: ScriptedServer) -> None:
        store = opened(server)
        assert isinstance(store, RemoteStore)
        await replace(store)
        monkeypatch.setattr(store, "_renew", unreadable)
        with pytest.raises(PermissionDenied):
            await replace(store)
        await replace(store)

    with scripted_server(Answer(), Answer(403, "AccessDenied"), Answer()) as server:
        asyncio.run(use(server))


def test_the_precondition_goes_with_the_request() -> None:
    with scripted_server(Answer()) as server:
        store = opened(server)
        for call in (create, match, replace):
            asyncio.run(awaited(call(store)))
        first, second, third = server.requests
        assert (first.method, first.path, first.body) == ("PUT", "/penstock/p/k", b"body")
        assert first.headers["if-none-match"] == "*"
        assert "if-match" not in first.headers
        assert second.headers["if-match"] == '"old"'
        assert "if-none-match" not in second.headers
        assert not {"if-match", "if-none-match"} & third.headers.keys()


@pytest.mark.parametrize("call", [create, replace, match, delete])
@pytest.mark.parametrize("answer", [Answer(503, "SlowDown"), Answer(500, "InternalError"), Answer(sent_bytes=0, body=b"lost")])
def test_a_write_is_tried_once(call: Callable[[ObjectStore], Awaitable[object]], answer: Answer) -> None:
    with scripted_server(answer) as server:
        store = opened(server)
        if answer.status == 200:
            server.answers = [Answer(silent=True)]
            server.released.set()  # the request is read, then the connection breaks
        with pytest.raises(StoreUnavailable):
            asyncio.run(awaited(call(store)))
        assert len(server.requests) == 1


@pytest.mark.parametrize("call", [get, listing])
def test_a_read_is_tried_again(call: Callable[[ObjectStore], Awaitable[object]]) -> None:
    empty = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
    with scripted_server(Answer(500, "InternalError"), Answer(503, "SlowDown"), Answer(body=empty)) as server:
        asyncio.run(awaited(call(opened(server))))
        assert len(server.requests) == 3


def test_a_body_that_breaks_off_is_continued() -> None:
    body = b"0123456789" * 1000
    rest = Answer(206, body=body[100:], headers={"Content-Range": "bytes 100-9999/10000"})
    with scripted_server(Answer(body=body, sent_bytes=100), rest) as server:
        found = asyncio.run(opened(server).get("k"))
        assert found.data == body
        assert len(server.requests) == 2


def test_two_states_of_an_object_are_never_mixed() -> None:
    body = b"0123456789" * 1000
    rest = Answer(206, body=body[100:], headers={"Content-Range": "bytes 100-9999/10000", "ETag": '"another"'})
    with scripted_server(Answer(body=body, sent_bytes=100), rest) as server, pytest.raises(StoreUnavailable):
        asyncio.run(opened(server).get("k"))


def test_silence_is_an_unknown_outcome() -> None:
    with scripted_server(Answer(silent=True)) as server:
        with pytest.raises(StoreUnavailable):
            asyncio.run(awaited(create(opened(server, timeout_s="0.2"))))
        assert len(server.requests) == 1


def test_nobody_there_is_unavailable() -> None:
    with scripted_server(Answer()) as server:
        store = opened(server, timeout_s="0.5")
    for call in (create, get):
        with pytest.raises(StoreUnavailable):
            asyncio.run(awaited(call(store)))


LOCKED = b"""<Error><Code>InvalidRequest</Code>\
<Message>Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters</Message></Error>"""
CASES: list[tuple[Callable[[ObjectStore], Awaitable[object]], Answer, type[PenstockError], str]] = [
    (create, Answer(412, "PreconditionFailed"), Conflict, "did not confirm"),
    (create, Answer(409, "ConditionalRequestConflict"), Conflict, "did not confirm"),
    (create, Answer(409, "ExistingObjectIsDirectory"), Conflict, "did not confirm"),
    (match, Answer(412, "PreconditionFailed"), Conflict, "did not confirm"),
    (match, Answer(409, "ConditionalRequestConflict"), Conflict, "did not confirm"),
    (match, Answer(404, "NoSuchKey"), Conflict, "did not confirm"),
    (replace, Answer(409, "ExistingObjectIsDirectory"), StoreUnavailable, "is changing"),
    (get, Answer(404, "NoSuchKey"), ObjectMissing, "no such object"),
    (create, Answer(404, "NoSuchBucket"), InvalidArgument, "no such bucket.*Create s3://penstock,"),
    (match, Answer(404, "NoSuchBucket"), InvalidArgument, "no such bucket"),
    (get, Answer(404, "NoSuchBucket"), InvalidArgument, "no such bucket"),
    (listing, Answer(404, "NoSuchBucket"), InvalidArgument, "no such bucket"),
    (create, Answer(403, "AccessDenied"), PermissionDenied, "refused the credentials.*Check what they may do"),
    (get, Answer(403, "InvalidAccessKeyId"), PermissionDenied, "refused the credentials"),
    (get, Answer(401), PermissionDenied, "refused the credentials"),
    (listing, Answer(403, "AccessDenied"), PermissionDenied, "refused the credentials"),
    (create, Answer(400, "ExpiredToken"), PermissionDenied, "refused the credentials"),
    (create, Answer(403, "RequestTimeTooSkewed"), ClockSkewError, "clock"),
    (create, Answer(400, "AuthorizationHeaderMalformed"), InvalidArgument, "Check the region"),
    (create, Answer(400, body=LOCKED), InvalidArgument, "refused the request.*Object Lock.*without it"),
    (create, Answer(400, "RequestTimeout"), StoreUnavailable, "did not answer"),
    (create, Answer(507, "XMinioStorageFull"), StorageFull, "no room"),
    (create, Answer(501, "NotImplemented"), NotSupported, "does not know"),
]


@pytest.mark.parametrize(("call", "answer", "error", "text"), CASES)
def test_answers_have_their_meaning(
    call: Callable[[ObjectStore], Awaitable[object]], answer: Answer, error: type[PenstockError], text: str
) -> None:
    with scripted_server(answer) as server:
        with pytest.raises(error, match=text) as raised:
            asyncio.run(awaited(call(opened(server))))
        assert type(raised.value) is error
        assert "s3://penstock/p/k" in str(raised.value)
        assert "penstock-secret" not in str(raised.value)
        assert "Debug source" not in str(raised.value)


def test_missing_credentials_say_where_they_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own credential service, which is asked last, refuses."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with scripted_server(Answer(404), Answer(404)) as server:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.endpoint)
        store = open_store(S3Server(server.endpoint).url("p"))
        with pytest.raises(PermissionDenied, match=r"no credentials were found.*AWS_ACCESS_KEY_ID"):
            asyncio.run(awaited(create(store)))


def test_a_store_without_conditional_writes_is_refused_by_the_probe() -> None:
    with (
        scripted_server(Answer(501, "NotImplemented")) as server,
        pytest.raises(UnsafeStoreError, match="does not know conditional writes"),
    ):
        asyncio.run(probe_conditional_writes(opened(server), Runtime()))


def test_the_clock_is_the_middle_of_the_stores_second() -> None:
    with scripted_server(Answer()) as server:
        assert asyncio.run(opened(server).clock_ms()) == 1767323045_500
        assert [request.method for request in server.requests] == ["PUT", "HEAD", "DELETE"]
        assert server.requests[0].path.startswith("/penstock/p/.clock/")


def test_a_list_starts_after_what_was_asked_for() -> None:
    page = b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
    with scripted_server(Answer(body=page)) as server:
        store = opened(server)
        asyncio.run(awaited(store.list("log/0004", after="log/00041")))
        asyncio.run(awaited(store.list("log/0004")))
        first, second = (request.path for request in server.requests)
        assert "prefix=p%2Flog%2F" in first
        assert "start-after=p%2Flog%2F00041" in first
        assert "start-after=p%2Flog%2F0003%7E" in second, "a prefix of a name is no folder, so the list starts just below it"


def test_keys_that_no_store_could_hold_are_refused_before_any_request() -> None:
    with scripted_server(Answer()) as server:
        store = opened(server)
        for key in ("", "/k", "a//b", "../k", "a/."):
            with pytest.raises(InvalidArgument, match="bad key"):
                asyncio.run(awaited(store.get(key)))
        assert server.requests == []


def _get_in_child(store: ObjectStore) -> None:
    try:
        asyncio.run(awaited(store.get("k")))
    except ForkedError:
        return
    raise SystemExit(1)


def test_a_forked_child_is_told_to_open_its_own() -> None:
    with scripted_server(Answer()) as server:
        store = opened(server)
        asyncio.run(awaited(store.get("k")))
        child = multiprocessing.get_context("fork").Process(target=_get_in_child, args=(store,), daemon=True)
        child.start()
        child.join(60)
        assert child.exitcode == 0


def test_a_closed_store_says_so() -> None:
    with scripted_server(Answer()) as server:
        store = opened(server)
        asyncio.run(store.close())
        with pytest.raises(ClosedError):
            asyncio.run(awaited(store.get("k")))
