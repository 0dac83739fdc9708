"""Cells as items of a DynamoDB table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from ...log.errors import PenstockError, PermissionDenied, StoreUnavailable
from ...log.runtime.runtime import Runtime
from ...log.stores.refusals import RENEWED_EVERY_S
from .dynamodb_errors import code_of, mismatch, translate
from .protocol import Cell, CellVersion, check_cell, check_cell_key
from .threads import TableThreads
from .versions import first_number, number_of, version_of

T = TypeVar("T")

THREADS = 16
_WAIT_S = 1
_WAITS_MAX = 120
_DATA: dict[str, object] = {"ExpressionAttributeNames": {"#version": "version", "#data": "data"}}
"""Reserved words in DynamoDB's expressions."""


class DynamoDBClient(Protocol):
    """The used part of a boto3 client."""

    def get_item(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401 - boto3 has no types of its own
    def put_item(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401
    def delete_item(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401
    def scan(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401
    def describe_table(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401
    def create_table(self, **request: Any) -> dict[str, Any]: ...  # noqa: ANN401
    def get_waiter(self, name: str) -> Any: ...  # noqa: ANN401
    def close(self) -> None: ...


class DynamoDBTable:
    """A cell is one item: ``pk`` (its key after ``prefix``), ``version`` (a number) and ``data`` (binary).

    ``reader`` retries passing faults, ``writer`` tries once. Reads are consistent.
    """

    lists_cheaply = False

    def __init__(
        self,
        url: str,
        table: str,
        *,
        prefix: str = "",
        reader: DynamoDBClient,
        writer: DynamoDBClient,
        runtime: Runtime,
        renew: Callable[[], tuple[DynamoDBClient, DynamoDBClient]] | None = None,
    ) -> None:
        """``renew`` makes both clients anew after refused credentials."""
        self._renew = renew
        self._renewed_s = -RENEWED_EVERY_S
        self._renewing = threading.Lock()
        self._former: tuple[DynamoDBClient, ...] = ()
        self._url = url
        self._table = table
        self._prefix = f"{prefix}/" if prefix else ""
        self._reader = reader
        self._writer = writer
        self._runtime = runtime
        # Separate pools, so that no heartbeat waits for reads that are retried.
        self._reads = TableThreads("penstock-dynamodb-read", THREADS, url=url)
        self._writes = TableThreads("penstock-dynamodb-write", THREADS, url=url)

    @property
    def url(self) -> str:
        return self._url

    async def get(self, key: str) -> Cell | None:
        check_cell_key(key)
        # The capacity is asked for because an answer that is cut off reads like that of an absent cell.
        request = {**self._item(key), "ConsistentRead": True, "ReturnConsumedCapacity": "TOTAL"}
        answer = await self._call(self._reads, "get", key, lambda: self._reader.get_item(**request))
        self._require("ConsumedCapacity", answer, "get", key)
        item = answer.get("Item")
        return None if item is None else Cell(bytes(item["data"]["B"]), version_of(item["version"]["N"]))

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        check_cell(key, data)
        version = first_number(self._runtime) if expected is None else number_of(expected) + 1
        item = {"pk": {"S": self._prefix + key}, "version": {"N": str(version)}, "data": {"B": bytes(data)}}
        await self._call(
            self._writes, "put", key, lambda: self._writer.put_item(TableName=self._table, Item=item, **_condition(expected))
        )
        return version_of(version)

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        check_cell_key(key)
        await self._call(self._writes, "delete", key, lambda: self._writer.delete_item(**self._item(key), **_condition(expected)))

    async def keys(self, prefix: str) -> list[str]:
        rows = await self._call(self._reads, "keys", prefix, lambda: self._scan("keys", [prefix], "pk"))
        return sorted(self._key_of(item) for item in rows)

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        names = "pk, #version, #data"
        rows = await self._call(
            self._reads, "read all", " ".join(prefixes), lambda: self._scan("read all", prefixes, names, **_DATA)
        )
        return {self._key_of(item): Cell(bytes(item["data"]["B"]), version_of(item["version"]["N"])) for item in rows}

    async def create(self) -> None:
        """Make the table, billed by request, and wait for it, unless it exists. Raises `TableMismatch`."""
        await self._call(self._writes, "create table", "", self._create)

    async def close(self) -> None:
        await self._reads.close(self._reader.close)
        await self._writes.close(self._close_writers)

    # --------------------------------------------------------------------------------------------------- in the table's threads

    async def _call(self, threads: TableThreads, operation: str, key: str, request: Callable[[], T]) -> T:
        def call() -> T:
            try:
                return request()
            except (BotoCoreError, ClientError) as error:
                # DynamoDB answers this, among other cases, when the table has another key.
                found = self._mismatch() if code_of(error) == "ValidationException" else None
                meant = found or translate(error, operation=operation, object=self._where(key))
                if isinstance(meant, PermissionDenied):
                    self._read_credentials_again()
                raise meant from error

        return await threads.run(call)

    def _read_credentials_again(self) -> None:
        now_s = self._runtime.clock.monotonic_s()
        with self._renewing:
            if self._renew is None or now_s - self._renewed_s < RENEWED_EVERY_S:
                return
            self._renewed_s = now_s
            with suppress(BotoCoreError):  # there are none now: the next refusal looks again
                renewed = self._renew()
                for client in self._former:
                    client.close()
                # Other threads may be using the present ones. They are closed by the next renewal, when a use is over or connects anew.
                self._former = self._reader, self._writer
                self._reader, self._writer = renewed

    def _close_writers(self) -> None:
        for client in (self._writer, *self._former):
            client.close()

    def _mismatch(self) -> PenstockError | None:
        try:
            return mismatch(self._table, self._reader.describe_table(TableName=self._table)["Table"])
        except (BotoCoreError, ClientError):
            return None  # describing it may be forbidden; then the first error says what is known

    def _scan(self, operation: str, prefixes: Sequence[str], projection: str, **more: object) -> list[dict[str, Any]]:
        values = {f":prefix{place}": self._prefix + prefix for place, prefix in enumerate(prefixes)}
        request: dict[str, Any] = {"TableName": self._table, "ConsistentRead": True, "ProjectionExpression": projection, **more}
        if all(values.values()):  # DynamoDB takes no empty string here
            request["FilterExpression"] = " OR ".join(f"begins_with(pk, {name})" for name in values)
            request["ExpressionAttributeValues"] = {name: {"S": value} for name, value in values.items()}
        found: list[dict[str, Any]] = []
        while True:
            page = self._reader.scan(**request)
            self._require("Items", page, operation, " ".join(prefixes))
            found += page["Items"]
            if "LastEvaluatedKey" not in page:
                return found
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _key_of(self, item: dict[str, Any]) -> str:
        return str(item["pk"]["S"]).removeprefix(self._prefix)

    def _create(self) -> None:
        try:
            self._writer.create_table(
                TableName=self._table,
                BillingMode="PAY_PER_REQUEST",
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            )
        except ClientError as error:
            if code_of(error) != "ResourceInUseException":
                raise
        waiter = self._reader.get_waiter("table_exists")
        waiter.wait(TableName=self._table, WaiterConfig={"Delay": _WAIT_S, "MaxAttempts": _WAITS_MAX})
        wrong = mismatch(self._table, self._reader.describe_table(TableName=self._table)["Table"])
        if wrong is not None:
            raise wrong

    def _require(self, name: str, answer: dict[str, Any], operation: str, key: str) -> None:
        if name not in answer:
            raise StoreUnavailable(
                "DynamoDB's answer was cut off",
                operation=operation,
                object=self._where(key),
                expected=name,
                observed=sorted(answer),
            )

    def _where(self, key: str) -> str:
        return f"{self._table}/{self._prefix}{key}".rstrip("/")

    def _item(self, key: str) -> dict[str, Any]:
        return {"TableName": self._table, "Key": {"pk": {"S": self._prefix + key}}}


def _condition(expected: CellVersion | None) -> dict[str, Any]:
    if expected is None:
        return {"ConditionExpression": "attribute_not_exists(pk)"}
    return {
        "ConditionExpression": "#version = :expected",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":expected": {"N": str(number_of(expected))}},
    }
