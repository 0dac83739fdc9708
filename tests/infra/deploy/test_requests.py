"""What the S3 client really sends, against the policies: the requests that a server saw, each judged as S3 judges it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from penstock.aio import Lake
from penstock.infra.cli.upkeep import maintain_once
from penstock.infra.deploy.access import Role
from penstock.infra.deploy.policies import policy
from penstock.log import Message, Runtime, TopicSettings, open_store
from penstock.log.limits import MIB
from penstock.log.paths import TopicPaths
from tests.infra.deploy.iam import Bucket, Request, allows
from tests.servers import S3Server

PREFIX = "policies"
LARGE = 17 * MIB
"""More than one part."""


@contextmanager
def seen() -> Iterator[list[tuple[str, str, int]]]:
    """The requests that the server answers inside the block: method, target, status."""
    found: list[tuple[str, str, int]] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = re.search(r'"([A-Z]+) (\S+) HTTP/1\.1" (\d+)', re.sub(r"\x1b\[[0-9;]*m", "", record.getMessage()))
            if line is not None:
                found.append((line[1], line[2], int(line[3])))

    logger, handler = logging.getLogger("werkzeug"), Listening()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def judged(bucket: Bucket, method: str, target: str, status: int) -> list[Request]:
    """What S3 asks of the policy for a request that was answered so."""
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
            return [about("PutObject")]
        case "DELETE":
            return [about("AbortMultipartUpload" if "uploadId" in query else "DeleteObject")]
    raise AssertionError(f"what is {method} {target}?")


async def work(url: str, options: dict[str, str]) -> None:
    runtime = Runtime()
    async with Lake(open_store(url, options=options), runtime=runtime) as lake:
        await lake.create_topic("orders", TopicSettings(message_type="FIFO", queues=2))  # type: ignore[arg-type]
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
    document = policy([Role.PRODUCER, Role.MAINTENANCE], moto.url(PREFIX))
    with seen() as requests:
        asyncio.run(work(moto.url(PREFIX), moto.credentials))
    asked = [request for line in requests for request in judged(bucket, *line)]
    assert not [request for request in asked if not allows(document, request)]
    assert {request.action for request in asked} == {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"}
    # So large uploads came in parts, and some of what was looked for was missing.
    assert any("uploadId" in target for _, target, _ in requests)
    assert any(status == 404 for *_, status in requests)
