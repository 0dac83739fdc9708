"""The table in DynamoDB: what goes over the wire, how often, and what its answers mean."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace as replace_
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from penstock.coordinator.tables import CellTable, CellVersion, Conflict, TableMismatch, TableNotFound, create_table, open_table
from penstock.coordinator.tables.dynamodb import THREADS, DynamoDBTable
from penstock.log.errors import (
    ClockSkewError,
    ForkedError,
    InvalidArgument,
    LimitExceeded,
    MissingDependency,
    PenstockError,
    PermissionDenied,
    StoreUnavailable,
)
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from tests.log.stores.scripted_http import Answer, ScriptedServer, scripted_server
from tests.log.topics import HandClock
from tests.servers import DynamoDBServer, S3Server, free_port

pytestmark = pytest.mark.dynamodb

Use = Callable[[CellTable], Awaitable[object]]
DONE = Answer(body=b"{}")
COST = {"ConsumedCapacity": {"TableName": "cells", "CapacityUnits": 1.0}}
CELL = Answer(body=json.dumps({"Item": {"pk": {"S": "k"}, "version": {"N": "7"}, "data": {"B": "b25l"}}, **COST}).encode())


CUT_OFF = "DynamoDB did not answer|DynamoDB's answer was cut off"
"""What is said of such an answer: older versions of botocore take it for none."""


def fault(code: str, status: int = 400, message: str = "as scripted") -> Answer:
    return Answer(status, body=json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}).encode())


def use_table(url: str, use: Use, options: dict[str, str] | None = None) -> None:
    async def main() -> None:
        table = open_table(url, store=MemoryStore(), runtime=Runtime(), options=options)
        try:
            await use(table)
        finally:
            await table.close()

    asyncio.run(main())


def against(server: ScriptedServer, use: Use, *, timeout_s: float = 10) -> None:
    running = DynamoDBServer(server.endpoint)
    use_table(running.url("cells").replace("timeout_s=10", f"timeout_s={timeout_s}"), use, running.credentials)


def create(table: CellTable) -> Awaitable[object]:
    return table.put("k", b"one", expected=None)


def replace(table: CellTable) -> Awaitable[object]:
    return table.put("k", b"two", expected=CellVersion("7"))


def delete(table: CellTable) -> Awaitable[object]:
    return table.delete("k", expected=CellVersion("7"))


def get(table: CellTable) -> Awaitable[object]:
    return table.get("k")


def keys(table: CellTable) -> Awaitable[object]:
    return table.keys("")


def failing(kind: type[PenstockError], said: str, call: Use) -> Use:
    async def use(table: CellTable) -> None:
        with pytest.raises(kind, match=said):
            await call(table)

    return use


# --- Requests -----------------------------------------------------------------------------------------------------------------------


def test_writes_are_conditional_and_reads_consistent() -> None:
    async def use(table: CellTable) -> None:
        assert await table.put("k", b"two", expected=CellVersion("7")) == CellVersion("8")
        await table.put("k", b"one", expected=None)
        await table.delete("k", expected=CellVersion("7"))

    with scripted_server(DONE) as server:
        against(server, use)
        replaced, created, deleted = [json.loads(request.body) for request in server.requests]
        targets = [request.headers["x-amz-target"].partition(".")[2] for request in server.requests]
    assert targets == ["PutItem", "PutItem", "DeleteItem"]
    named = {
        "ConditionExpression": "#version = :expected",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":expected": {"N": "7"}},
    }
    item = {"pk": {"S": "k"}, "version": {"N": "8"}, "data": {"B": "dHdv"}}
    assert replaced == {"TableName": "cells", "Item": item, **named}
    assert created["ConditionExpression"] == "attribute_not_exists(pk)"
    assert deleted == {"TableName": "cells", "Key": {"pk": {"S": "k"}}, **named}

    async def read(table: CellTable) -> None:
        found = await table.get("k")
        assert found is not None
        assert (found.data, found.version) == (b"one", CellVersion("7"))

    with scripted_server(CELL, Answer(body=b'{"Items": []}')) as server:
        against(server, read)
        against(server, keys)
        asked = [json.loads(request.body) for request in server.requests]
    assert [request["ConsistentRead"] for request in asked] == [True, True]


THROTTLED = (
    r"DynamoDB throttles the table.*operation: \w+; object: cells/k.*ProvisionedThroughputExceeded.*raise the table's capacity"
)


@pytest.mark.parametrize("write", [create, replace, delete])
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (fault("ProvisionedThroughputExceededException"), StoreUnavailable, THROTTLED),
        (fault("ThrottlingException"), StoreUnavailable, "throttles"),
        (fault("InternalServerError", 500), StoreUnavailable, "did not answer as it should"),
        (Answer(503, body=b"no JSON at all"), StoreUnavailable, "did not answer as it should"),
        (replace_(fault("ConditionalCheckFailedException"), sent_bytes=30), StoreUnavailable, CUT_OFF),
        (fault("ConditionalCheckFailedException"), Conflict, "not as expected.*object: cells/k"),
        (fault("TransactionConflictException"), StoreUnavailable, "changing what this call meets"),
    ],
    ids=["throttled", "throttling", "500", "503", "cut off", "refused", "transaction"],
)
def test_a_write_is_tried_once(write: Use, answer: Answer, kind: type[PenstockError], said: str) -> None:
    with scripted_server(answer, DONE) as server:
        against(server, failing(kind, said, write))
        assert len(server.requests) == 1


def test_a_write_without_an_answer_is_an_unknown_outcome() -> None:
    with scripted_server(Answer(silent=True)) as server:
        against(server, failing(StoreUnavailable, "DynamoDB did not answer.*Read timeout", create), timeout_s=0.3)
        assert len(server.requests) == 1


def test_an_answer_that_is_cut_off_is_not_that_of_an_absent_cell() -> None:
    for sent_bytes in (0, 1, 20, len(CELL.body) - 1):
        for call in (get, keys):
            with scripted_server(replace_(CELL, sent_bytes=sent_bytes)) as server:
                against(server, failing(StoreUnavailable, CUT_OFF, call))


@pytest.mark.slow
def test_a_read_is_tried_again_for_a_while() -> None:
    throttled, broken = fault("ProvisionedThroughputExceededException"), fault("InternalServerError", 500)
    with scripted_server(throttled, broken, CELL) as server:
        against(server, get)
        assert len(server.requests) == 3
    with scripted_server(throttled) as server:
        against(server, failing(StoreUnavailable, "throttles", get))
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (fault("ResourceNotFoundException"), TableNotFound, r"no such DynamoDB table.*object: cells/k.*create_table\(url\)"),
        (fault("AccessDeniedException"), PermissionDenied, "refused this use of the credentials.*Allow dynamodb:GetItem, PutItem"),
        (fault("UnrecognizedClientException"), PermissionDenied, "refused the credentials.*Set AWS_ACCESS_KEY_ID"),
        (fault("ExpiredTokenException"), PermissionDenied, "refused the credentials"),
        (fault("InvalidSignatureException", message="the signature does not match"), PermissionDenied, "refused the credentials"),
        (
            fault("InvalidSignatureException", message="Signature expired: 2026"),
            ClockSkewError,
            "this machine's clock.*Set the clock",
        ),
        (fault("ItemCollectionSizeLimitExceededException"), LimitExceeded, "too large"),
        (fault("UnknownOperationException"), InvalidArgument, "refused the request.*Check the table's name, region and endpoint"),
    ],
    ids=["no table", "no right", "no such key", "expired", "bad signature", "clock", "large", "no DynamoDB"],
)
def test_an_answer_is_told_with_what_to_do(answer: Answer, kind: type[PenstockError], said: str) -> None:
    for call in (get, create):
        with scripted_server(answer) as server:
            against(server, failing(kind, said, call))


def test_credentials_that_are_refused_are_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the file, for example, which another program writes."""
    file = tmp_path / "credentials"
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def write(name: str) -> None:
        file.write_text(f"[default]\naws_access_key_id = {name}\naws_secret_access_key = secret\n")

    async def use(table: CellTable) -> None:
        await get(table)
        write("renewed")
        with pytest.raises(PermissionDenied):
            await get(table)
        await get(table)
        await create(table)

    write("former")
    with scripted_server(CELL, fault("ExpiredTokenException"), CELL, DONE) as server:
        use_table(f"dynamodb://cells?region=eu-west-1&endpoint={server.endpoint}", use)
        keys = [request.headers["authorization"].partition("Credential=")[2].partition("/")[0] for request in server.requests]
    assert keys == ["former", "former", "renewed", "renewed"]


async def test_clients_of_credentials_that_were_refused_are_not_kept() -> None:
    """An hour of refusals would leave a thousand of them."""
    clock, made = HandClock(), list[Mock]()
    refused = ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "as scripted"}}, "GetItem")

    def renew() -> tuple[Mock, Mock]:
        made.extend(Mock(get_item=Mock(side_effect=refused)) for _ in range(2))
        return made[-2], made[-1]

    def count_open() -> int:
        return sum(not client.close.called for client in made)

    reader, writer = renew()
    table = DynamoDBTable(
        "dynamodb://cells", "cells", reader=reader, writer=writer, runtime=replace_(Runtime(), clock=clock), renew=renew
    )
    for _ in range(10):
        for _ in range(2):  # the second time at once, when nothing is read again
            with pytest.raises(PermissionDenied):
                await get(table)
        clock.advance(seconds=10)
    assert (len(made), count_open()) == (22, 4)
    await table.close()
    assert count_open() == 0


async def test_credentials_are_read_again_for_refusals_only_and_if_there_are_none_the_refusal_is_told() -> None:
    errors = [
        ClientError({"Error": {"Code": code, "Message": "as scripted"}}, "GetItem")
        for code in ("ThrottlingException", "ExpiredTokenException")
    ]
    client, renewed = Mock(get_item=Mock(side_effect=errors)), Mock(side_effect=NoCredentialsError())
    table = DynamoDBTable("dynamodb://cells", "cells", reader=client, writer=client, runtime=Runtime(), renew=renewed)
    with pytest.raises(StoreUnavailable):
        await get(table)
    assert not renewed.called
    with pytest.raises(PermissionDenied):
        await get(table)
    assert renewed.called
    await table.close()


# --- Tables that are not there, or are others' --------------------------------------------------------------------------------------


@pytest.fixture(params=["moto", pytest.param("dynoxide", marks=pytest.mark.dynoxide)])
def server(request: pytest.FixtureRequest) -> DynamoDBServer:
    running: DynamoDBServer | S3Server = request.getfixturevalue(request.param)
    return DynamoDBServer(running.endpoint)


def test_a_missing_table_is_named_with_the_way_to_make_it(server: DynamoDBServer) -> None:
    url = server.url("missing-cells")
    for call in (get, create, keys):
        use_table(url, failing(TableNotFound, r"missing-cells.*create_table\(url\)", call), server.credentials)
    for _ in range(2):
        asyncio.run(create_table(url, options=server.credentials))
    use_table(url, create, server.credentials)


def make_table(server: DynamoDBServer, name: str, schema: dict[str, str], types: dict[str, str]) -> None:
    client: Any = boto3.client(
        "dynamodb",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id="penstock",
        aws_secret_access_key="penstock-secret",
    )
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in schema.items()],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in types.items()],
    )
    client.close()


def check_refusal(server: DynamoDBServer, name: str, observed: str) -> None:
    said = (
        rf"another key.*object: {name}; expected: partition key 'pk' of type S, no sort key; observed: {observed}\)\. Name another"
    )
    for call in (get, create, delete):
        use_table(server.url(name), failing(TableMismatch, said, call), server.credentials)
    with pytest.raises(TableMismatch, match=said):
        asyncio.run(create_table(server.url(name), options=server.credentials))


def test_a_table_with_another_key_is_refused(server: DynamoDBServer) -> None:
    make_table(server, "with-a-sort-key", {"pk": "HASH", "sk": "RANGE"}, {"pk": "S", "sk": "S"})
    check_refusal(server, "with-a-sort-key", "partition key 'pk' of type S, sort key 'sk' of type S")
    make_table(server, "by-id", {"id": "HASH"}, {"id": "S"})
    check_refusal(server, "by-id", "partition key 'id' of type S")


@pytest.mark.dynoxide
def test_a_table_with_a_key_of_another_type_is_refused(dynoxide: DynamoDBServer) -> None:
    """moto takes a string for a number."""
    make_table(dynoxide, "numbers", {"pk": "HASH"}, {"pk": "N"})
    check_refusal(dynoxide, "numbers", "partition key 'pk' of type N")


def test_lakes_with_a_prefix_each_share_a_table(server: DynamoDBServer) -> None:
    asyncio.run(create_table(server.url("shared-cells"), options=server.credentials))

    async def main() -> None:
        one, two, everything = (
            open_table(server.url("shared-cells", prefix), store=MemoryStore(), runtime=Runtime(), options=server.credentials)
            for prefix in ("lake/1", "lake/10", "")
        )
        first = await one.put("k", b"one", expected=None)
        await two.put("k", b"ten", expected=None)
        await one.put("k", b"uno", expected=first)
        found = await two.get("k")
        assert found is not None
        assert found.data == b"ten"
        assert (await one.keys(""), await two.keys(""), await two.keys("x")) == (["k"], ["k"], [])
        assert await everything.keys("lake/") == ["lake/1/k", "lake/10/k"]
        for table in (one, two, everything):
            await table.close()

    asyncio.run(main())


# --- Surroundings -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # there is no machine's role to wait for


@pytest.mark.usefixtures("no_settings")
def test_missing_credentials_and_regions_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"dynamodb://cells?region=eu-west-1&endpoint=http://127.0.0.1:{free_port()}"
    use_table(url, failing(PermissionDenied, "no credentials were found.*AWS_ACCESS_KEY_ID", create))
    with pytest.raises(InvalidArgument, match=r"no region is named.*dynamodb://table\?region=…, or set AWS_REGION"):
        open_table("dynamodb://cells", store=MemoryStore(), runtime=Runtime())
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert open_table("dynamodb://cells", store=MemoryStore(), runtime=Runtime()).url == "dynamodb://cells"
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(PermissionDenied, match=r"profile of AWS's settings cannot be used.*nobody"):
        open_table("dynamodb://cells", store=MemoryStore(), runtime=Runtime())


def test_a_server_that_is_not_there() -> None:
    server = DynamoDBServer(f"http://127.0.0.1:{free_port()}")
    use_table(server.url("cells"), failing(StoreUnavailable, "DynamoDB did not answer", create), server.credentials)


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "botocore.session", None)
    with pytest.raises(MissingDependency, match=r"need boto3.*pip install '\.\[dynamodb\]'"):
        open_table("dynamodb://cells?region=x", store=MemoryStore(), runtime=Runtime())


def test_a_forked_child_is_told_to_open_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(table: CellTable) -> None:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(ForkedError, match="Open the lake in the child"):
            await table.get("k")
        monkeypatch.undo()

    with scripted_server(DONE) as server:
        against(server, use)
        assert server.requests == []


async def test_no_write_waits_for_reads_that_are_tried_again() -> None:
    """Every reading thread hangs; a heartbeat gets through."""
    released = threading.Event()

    def hang(**_request: object) -> dict[str, object]:
        released.wait(60)
        return {"ConsumedCapacity": {}}

    reader, writer = Mock(get_item=hang), Mock(put_item=Mock(return_value={}))
    table = DynamoDBTable("dynamodb://cells", "cells", reader=reader, writer=writer, runtime=Runtime())
    reads = asyncio.gather(*(table.get("k") for _ in range(THREADS)))
    await asyncio.sleep(0)  # they are given to their threads
    try:
        await asyncio.wait_for(table.put("heartbeat", b"", expected=None), 30)
    finally:
        released.set()
    assert await reads == [None] * THREADS
    await table.close()
