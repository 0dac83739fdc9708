"""A small IAM, for tests: does a policy allow a request? And a store that asks it before every call, as S3 does."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.coordinator.tables import Cell, CellTable, CellVersion
from penstock.log.errors import PenstockError, PermissionDenied
from penstock.log.stores import ObjectMissing, ObjectStore
from penstock.log.stores.protocol import IfMatch, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper

T = TypeVar("T")

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """One thing that somebody wants to do."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)
    """What conditions may test: ``s3:prefix`` of a list, say."""


def allows(policy: Document, request: Request) -> bool:
    """Whether any statement allows it; none of ours denies."""
    return any(_applies(statement, request) for statement in policy["Statement"])


def _applies(statement: Document, request: Request) -> bool:
    assert statement["Effect"] == "Allow"
    return (
        any(matches(pattern, request.action) for pattern in statement["Action"])
        and any(matches(pattern, request.resource) for pattern in statement["Resource"])
        and all(_passes(test, facts, request.context) for test, facts in statement.get("Condition", {}).items())
    )


def _passes(test: str, facts: Mapping[str, Sequence[str]], context: Mapping[str, str]) -> bool:
    """Of the tests for what a thing is like, only the second one is passed by a request that does not have it."""
    if test == "Null":
        return all((name not in context) == (wanted == ["true"]) for name, wanted in facts.items())
    assert test in {"StringLike", "ForAllValues:StringLike"}
    absent = test.startswith("ForAllValues")
    return all(
        any(matches(pattern, context[name]) for pattern in patterns) if name in context else absent
        for name, patterns in facts.items()
    )


def matches(pattern: str, text: str) -> bool:
    """``*`` stands for any text and ``?`` for any character, but ``${*}`` for a star."""
    return _regex(pattern).fullmatch(text) is not None


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    signs = {"*": ".*", "?": "."}
    parts = re.findall(r"\$\{[*?$]\}|.", pattern, re.DOTALL)
    return re.compile("".join(signs.get(part) or re.escape(part if len(part) == 1 else part[2]) for part in parts), re.DOTALL)


@dataclass(frozen=True)
class Bucket:
    """Where a lake lies, for requests about its keys."""

    name: str
    prefix: str

    def about(self, action: str, key: str, *, if_absent: bool = False) -> Request:
        context = {"s3:if-none-match": "*"} if if_absent else {}
        return Request(f"s3:{action}", f"arn:aws:s3:::{self.name}/{self.prefix}{key}", context)

    def listing(self, prefix: str) -> Request:
        return Request("s3:ListBucket", f"arn:aws:s3:::{self.name}", {"s3:prefix": self.prefix + prefix})

    def requests(self, call: StoreCall) -> list[Request]:
        """What S3 asks of a call's policy."""
        match call.verb:
            case "put" | "put_large":
                read = [self.about("GetObject", call.key)] if isinstance(call.mode, IfMatch) else []
                return [self.about("PutObject", call.key, if_absent=call.mode is Put.CREATE), *read]
            case "list":  # a client lists folders, and filters by what is behind the last slash itself
                return [self.listing(call.key[: call.key.rfind("/") + 1])]
            case "clock":
                return [self.about(action, ".clock/id") for action in ("PutObject", "GetObject", "DeleteObject")]
            case verb:
                return [self.about({"get": "GetObject", "delete": "DeleteObject"}[verb], call.key)]


class GuardedStore(StoreWrapper):
    """A store under a policy: it refuses what that does not allow, and a missing object to those who may not list it."""

    def __init__(self, inner: ObjectStore, policy: Document, bucket: Bucket) -> None:
        super().__init__(inner)
        self._policy = policy
        self._bucket = bucket
        self.allowed: list[Request] = []
        self.refused: list[Request] = []

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        for request in self._bucket.requests(call):
            self._ask(call, request)
        try:
            return await run()
        except ObjectMissing:
            # S3 compares the key itself with what may be listed.
            self._ask(call, self._bucket.listing(call.key))
            raise

    def _ask(self, call: StoreCall, request: Request) -> None:
        if not allows(self._policy, request):
            self.refused.append(request)
            raise PermissionDenied("the policy allows no such request", operation=call.verb, object=call.key, observed=str(request))
        self.allowed.append(request)

    async def close(self) -> None:
        """The store is shared by processes of several roles."""


class GuardedTable:
    """Cells under a policy, as DynamoDB asks it: an item's key is its leading key, and a scan has none."""

    lists_cheaply = False

    def __init__(self, inner: CellTable, policy: Document, table: str, prefix: str) -> None:
        self._inner = inner
        self._policy = policy
        self._table = table
        self._prefix = prefix
        self.allowed: list[Request] = []
        self.refused: list[Request] = []

    @property
    def url(self) -> str:
        return self._inner.url

    async def get(self, key: str) -> Cell | None:
        self._ask("GetItem", key)
        return await self._inner.get(key)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        self._ask("PutItem", key)
        return await self._inner.put(key, data, expected=expected)

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        self._ask("DeleteItem", key)
        await self._inner.delete(key, expected=expected)

    async def keys(self, prefix: str) -> list[str]:
        self._ask("Scan")
        return await self._inner.keys(prefix)

    async def read_all(
        self, prefixes: Sequence[str], *, known: Mapping[str, CellVersion]
    ) -> dict[str, Cell | CellVersion | PenstockError]:
        self._ask("Scan")
        return await self._inner.read_all(prefixes, known=known)

    async def close(self) -> None:
        """The table is shared by processes of several roles."""

    def _ask(self, action: str, key: str | None = None) -> None:
        context = {} if key is None else {"dynamodb:LeadingKeys": self._prefix + key}
        request = Request(f"dynamodb:{action}", self._table, context)
        if not allows(self._policy, request):
            self.refused.append(request)
            raise PermissionDenied("the policy allows no such request", operation=action, object=key, observed=str(request))
        self.allowed.append(request)
