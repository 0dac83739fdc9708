"""Least-privilege policies: the rights of `access` as statements for AWS or Terraform. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from ...coordinator.cells.keys import LAKE as LAKE_CELL
from ...coordinator.tables.open import InDynamoDB, InStore, table_place
from ...log.errors import InvalidArgument
from .access import KeyPatterns, ProcessRole, as_objects, cell_access, topic_access

VERSION = "2012-10-17"
GET, PUT, ABORT, DELETE, LIST = "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListBucket"
DECRYPT, ENCRYPT = "kms:Decrypt", "kms:GenerateDataKey"
CELL_GET, CELL_PUT, CELL_DELETE = "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:DeleteItem"
CELL_DESCRIBE, CELL_SCAN = "dynamodb:DescribeTable", "dynamodb:Scan"


_LOOKING_AT_NOBODY = frozenset({ProcessRole.TRANSACTIONS, ProcessRole.CONSUMER, ProcessRole.GATEWAY, ProcessRole.SYNC})
"""The roles that read cells whose keys they know, and list none."""


class Applicability(StrEnum):
    """The condition under which a statement is needed."""

    ALWAYS = "always"
    STORE = "store"
    """Cells lie in the lake."""
    DYNAMODB = "dynamodb"
    """Cells lie in DynamoDB."""
    KMS = "kms"
    """The bucket's objects are encrypted by a key of KMS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCondition:
    """A test that a request must pass."""

    test: str
    variable: str
    values: tuple[str, ...]


_IF_ABSENT = PolicyCondition(test="Null", variable="s3:if-none-match", values=("false",))
"""The request has ``If-None-Match: *``, and replaces nothing. Parts of a large upload have no such header, and are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyStatement:
    """A permission."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition: PolicyCondition | None = None
    when: Applicability = Applicability.ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """ARNs, or Terraform references in their stead."""

    bucket: str
    objects: str
    """The bucket's name, a slash and the lake's prefix."""
    prefix: str = ""
    """The prefix of the lake inside the bucket: empty, or ending with ``/``."""
    table: str = ""
    cells: str = ""
    """The prefix of the cells inside the table: empty, or ending with ``/``."""
    key: str = ""


def statements(
    role: ProcessRole, names: ResourceNames, *, topics: Sequence[str] = (), groups: Sequence[str] = ()
) -> list[PolicyStatement]:
    """All permissions of a role; each statement has its purpose."""
    found = _objects("", topic_access(role, topics, groups), names, Applicability.ALWAYS)
    cells = cell_access(role, topics, groups)
    found += _objects("Cells", as_objects(cells), names, Applicability.STORE)
    found += _items(role, cells, names)
    keys = (DECRYPT,) if role is ProcessRole.READER else (DECRYPT, ENCRYPT)
    found.append(PolicyStatement(sid="Key", actions=keys, resources=(names.key,), when=Applicability.KMS))
    return found


def _objects(what: str, access: KeyPatterns, names: ResourceNames, when: Applicability) -> list[PolicyStatement]:
    def keys(patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.objects + pattern for pattern in patterns)

    found = [
        # A large upload that is broken off leaves parts behind, unless it may be aborted.
        PolicyStatement(sid=f"{verb}{what}", actions=actions, resources=keys(patterns), condition=condition, when=when)
        for verb, actions, patterns, condition in (
            ("Get", (GET,), access.get, None),
            ("Create", (PUT,), access.create, _IF_ABSENT),
            ("Put", (PUT, ABORT), access.put, None),
            ("Delete", (DELETE,), access.delete, None),
        )
        if patterns
    ]
    if access.list:
        prefixes = tuple(names.prefix + pattern for pattern in access.list)
        seen = PolicyCondition(test="StringLike", variable="s3:prefix", values=prefixes)
        found.append(PolicyStatement(sid=f"List{what}", actions=(LIST,), resources=(names.bucket,), condition=seen, when=when))
    return found


def _items(role: ProcessRole, cells: KeyPatterns, names: ResourceNames) -> list[PolicyStatement]:
    """The statements for items in DynamoDB, with the lake's claim where several lakes could share the table."""

    def items(sid: str, action: str, patterns: tuple[str, ...]) -> PolicyStatement:
        keys = tuple(names.cells + pattern for pattern in patterns)
        own = PolicyCondition(test="ForAllValues:StringLike", variable="dynamodb:LeadingKeys", values=keys)
        return PolicyStatement(sid=sid, actions=(action,), resources=(names.table,), condition=own, when=Applicability.DYNAMODB)

    found = []
    if cells.get:
        # A scan has no leading keys: a process that lists groups and workers reads the keys of all lakes in the table.
        looks = (CELL_DESCRIBE,) if role in _LOOKING_AT_NOBODY else (CELL_DESCRIBE, CELL_SCAN)
        found += [
            items("GetItems", CELL_GET, (LAKE_CELL, *cells.get)),
            PolicyStatement(sid="Table", actions=looks, resources=(names.table,), when=Applicability.DYNAMODB),
        ]
    if cells.put:
        found.append(items("PutItems", CELL_PUT, (LAKE_CELL, *cells.put)))
    if cells.delete:
        found.append(items("DeleteItems", CELL_DELETE, cells.delete))
    return found


def policy(
    roles: Sequence[ProcessRole],
    lake_url: str,
    *,
    coordination: str | None = None,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
    account: str = "*",
    kms_key: str | None = None,
    principal: str | None = None,
) -> dict[str, object]:
    """The policy of a process that has all these roles, for a lake on S3, as IAM takes it.

    ``coordination`` is as in ``connect``; ``account`` is that of the DynamoDB table (default: any). With a ``principal`` (an ARN) it is a policy
    for the bucket itself, without statements for other services. Raises `InvalidArgument` for a lake that is not on S3, and for bad names.
    """
    lake = urlsplit(lake_url)
    if lake.scheme != "s3":
        raise InvalidArgument(
            "policies are there for lakes on S3", operation="policy", object=lake_url, expected="s3://bucket/prefix"
        )
    prefix = unquote(lake.path).strip("/")
    if groups and ProcessRole.CONSUMER not in roles:
        raise InvalidArgument("only a consumer's policy can be narrowed to groups", operation="policy", observed=", ".join(roles))
    place = table_place(coordination, lake_url)
    needed = {Applicability.ALWAYS} | ({Applicability.STORE} if isinstance(place, InStore) else set())
    table = cells = ""
    if isinstance(place, InDynamoDB) and principal is None:
        needed.add(Applicability.DYNAMODB)
        table = f"arn:aws:dynamodb:{place.region or '*'}:{account}:table/{place.table}"
        cells = literal(f"{place.prefix}/") if place.prefix else ""
    if kms_key is not None and principal is None:
        needed.add(Applicability.KMS)
    bucket, below = f"arn:aws:s3:::{lake.netloc}", literal(f"{prefix}/") if prefix else ""
    names = ResourceNames(
        bucket=bucket,
        objects=f"{bucket}/{below}",
        prefix=below,
        table=table,
        cells=cells,
        key=kms_key or "",
    )
    found = [
        (role, one)
        for role in dict.fromkeys(roles)
        for one in statements(role, names, topics=topics, groups=groups)
        if one.when in needed
    ]
    return {"Version": VERSION, "Statement": [_document(role, one, principal) for role, one in found]}


def literal(text: str) -> str:
    """Text that means itself in a policy."""
    return "".join(f"${{{char}}}" if char in "*?$" else char for char in text)


def _document(role: ProcessRole, one: PolicyStatement, principal: str | None) -> Mapping[str, object]:
    document: dict[str, object] = {"Sid": f"{role.title()}{one.sid}", "Effect": "Allow"}
    if principal is not None:
        document["Principal"] = {"AWS": principal}
    document |= {"Action": list(one.actions), "Resource": list(one.resources)}
    if one.condition is not None:
        document["Condition"] = {one.condition.test: {one.condition.variable: list(one.condition.values)}}
    return document
