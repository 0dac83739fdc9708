"""What the S3 client really sends, against the policies: the requests that a server saw, each judged as S3 judges it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from werkzeug.serving import WSGIRequestHandler

from penstock.aio import Lake
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.infra.deploy.access import ProcessRole
from penstock.infra.deploy.policies import policy
from penstock.log import Message, Runtime, TopicSettings, open_store
from penstock.log.limits import MIB
from penstock.log.paths import TopicPaths
from tests.infra.deploy.iam import Bucket, Request, allows
from tests.servers import S3Server

PREFIX = "policies"
LARGE = 17 * MIB
"""More than one part."""


@dataclass(frozen=True)
class Answered:
    """A request, and the status that it was answered with."""

    method: str
    target: str
    status: int
    if_none_match: str | None


@contextmanager
def seen() -> Iterator[list[Answered]]:
    """The requests that the server answers inside the block."""
    found: list[Answered] = []

    def log_request(handler: WSGIRequestHandler, code: int | str = "-", size: int | str = "-") -> None:
        found.append(Answered(handler.command, handler.path, int(code), handler.headers.get("If-None-Match")))

    with mock.patch.object(WSGIRequestHandler, "log_request", log_request):
        yield found


def judged(bucket: Bucket, one: Answered) -> list[Request]:
    """What S3 asks of the policy for a request that was answered so."""
    method, target, status = one.method, one.target, one.status
    parts = urlsplit(target)
    name, _, key = unquote(parts.path).removeprefix("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    assert name == bucket.name

    def about(action: str) -> Request:
        return Request(f"s3:{action}", f"arn:aws:s3:::{name}/{key}")

    if not key:
        assert method == "GET", target
        assert query["list-type"] == ["2"]
        return [Request("s3:ListBucket", f"arn:aws:s3:::{name}", {"s3:prefix": query.get("prefix", [""])[0]})]
    match method:
        case "GET" | "HEAD":
            looked = [Request("s3:ListBucket", f"arn:aws:s3:::{name}", {"s3:prefix": key})] if status == 404 else []
            return [about("GetObject"), *looked]
        case "PUT" | "POST":
            condition = {} if one.if_none_match is None else {"s3:if-none-match": one.if_none_match}
            return [Request("s3:PutObject", f"arn:aws:s3:::{name}/{key}", condition)]
        case "DELETE":
            return [about("AbortMultipartUpload" if "uploadId" in query else "DeleteObject")]
    raise AssertionError(f"what is {method} {target}?")


async def work(url: str, options: dict[str, str]) -> None:
    runtime = Runtime()
    async with Lake(open_store(url, options=options), runtime=runtime) as lake:
        await lake.create_topic("orders", TopicSettings(message_type="FIFO", queues=2))
        producer = await lake.producer("orders")
        for number in range(5):
            await producer.send(Message(b"x", message_group=f"user-{number}"))
        results: list[object] = []
        await maintain_once(lake, (), lambda topic, step, result: results.append(result))
        assert not [result for result in results if isinstance(result, Exception)]
        assert (await (await lake.reader("orders")).to_arrow()).num_rows == 5
        paths = TopicPaths.of("orders")
        await lake.store.put_large(paths.job_part("1", "1"), bytes(LARGE))
        await lake.store.delete(paths.job_part("1", "1"))
        await lake.store.get_range(paths.settings, -8, 0)


@pytest.mark.s3
def test_all_that_a_server_is_asked_for_is_allowed(moto: S3Server) -> None:
    bucket = Bucket(moto.bucket, f"{PREFIX}/")
    document = policy([ProcessRole.PRODUCER, ProcessRole.MAINTENANCE], moto.url(PREFIX))
    with seen() as requests:
        asyncio.run(work(moto.url(PREFIX), moto.credentials))
    asked = [request for line in requests for request in judged(bucket, line)]
    assert not [request for request in asked if not allows(document, request)]
    assert {request.action for request in asked} == {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"}
    # So large uploads came in parts, and some of what was looked for was missing.
    assert any("uploadId" in one.target for one in requests)
    assert any(one.status == 404 for one in requests)
