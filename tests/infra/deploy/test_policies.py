"""Policies against what the code really asks of a store: all of it is allowed, nothing more, and nothing of anybody else's."""

from __future__ import annotations

import json

import pytest

from penstock.coordinator.cells.keys import TABLE, players_key
from penstock.coordinator.timers.role import TIMERS
from penstock.infra.deploy.access import ProcessRole, as_objects, cell_access, topic_access
from penstock.infra.deploy.policies import policy
from penstock.log import InvalidArgument
from tests.infra.deploy.iam import Request, allows, matches
from tests.infra.deploy.workload import BUCKET, CELLS, DEAD, GROUP, TOPICS, World, everything

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

URL = f"s3://{BUCKET.name}/{BUCKET.prefix.rstrip('/')}?region=eu-west-1"
ARN_MAX_BYTES = 6_144
"""Of a managed policy, without white space."""


NARROW: dict[ProcessRole, dict[str, list[str]]] = {
    role: {"topics": [*TOPICS, DEAD]} | ({"groups": [GROUP]} if role is ProcessRole.CONSUMER else {}) for role in ProcessRole
}


@pytest.fixture(scope="module")
def narrow() -> World:
    """The same with policies for these topics and this group alone, and with cells in DynamoDB."""
    place = {"coordination": f"dynamodb://cells/{CELLS.rstrip('/')}?region=eu-west-1", "account": "123456789012"}
    policies = {role: policy([role], URL, **place, **NARROW[role]) for role in ProcessRole}  # type: ignore[arg-type]
    return everything(policies, named=(*TOPICS, DEAD), dynamodb=True)


@pytest.fixture(scope="module")
def world() -> World:
    """A lake after all its work was done under the policies."""
    return everything({role: policy([role], URL) for role in ProcessRole})


def test_everything_that_a_role_asks_for_is_allowed(world: World) -> None:
    refused = [(role, request) for role, store in world.stores.items() for request in store.refused]
    # A sender begins a young topic's timers where it may; where it may not, those who maintain the lake do, a little later.
    assert {request.resource.rpartition("/prod/")[2] for role, request in refused if role is ProcessRole.PRODUCER} <= {
        f"coordination/{players_key(TIMERS)}",
        RECORD,
    }
    assert not [request for role, request in refused if role is not ProcessRole.PRODUCER]
    assert all(store.allowed for store in world.stores.values())
    assert world.settling.allowed
    assert not world.settling.refused


@pytest.mark.thorough
def test_the_same_under_policies_for_these_topics_and_this_group_alone_with_cells_in_dynamodb(narrow: World) -> None:
    assert not [request for store in narrow.stores.values() for request in store.refused]
    assert not [request for role, table in narrow.tables.items() for request in table.refused if role is not ProcessRole.PRODUCER]
    assert narrow.settling_table is not None
    assert narrow.settling_table.allowed
    assert not [*narrow.settling.refused, *narrow.settling_table.refused]
    assert all(guard.allowed for role, guard in narrow.tables.items() if role not in {ProcessRole.PRODUCER, ProcessRole.CAPTURE})


WAITING = "waiting/"
RECORD = f"coordination/{TABLE}"
"""Of the lake's table. Whoever comes first makes it; here that is a sender of transactions."""
HANDED = "topics/*/staged/handed/"
ICEBERG = "topics/*/table*/metadata/"
GET, PUT, DELETE = "s3:GetObject", "s3:PutObject", "s3:DeleteObject"
RARE: dict[ProcessRole, dict[str, tuple[str, ...]]] = {
    ProcessRole.READER: {WAITING: (GET,)},
    ProcessRole.CONSUMER: {WAITING: (GET, PUT, DELETE), RECORD: (PUT,)},
    ProcessRole.GATEWAY: {RECORD: (PUT,)},
    ProcessRole.SYNC: {RECORD: (PUT,)},
    # Who recalls what has waited for days finds it in a run. Whether an appender has to look into what others handed over is chance.
    ProcessRole.PRODUCER: {"timers/": (GET,), HANDED: (GET,)},
    ProcessRole.CAPTURE: {HANDED: (GET,)},
    # Messages that are let go while others race for the log's end are handed over.
    # No topic of this lake is listed for Iceberg.
    ProcessRole.MAINTENANCE: {WAITING: (GET, DELETE), HANDED: (PUT,), ICEBERG: (PUT,), RECORD: (PUT,)},
}
"""What this life of a lake does not have: more than a thousand messages of a queue that wait to be retried, late recalls, races of timers."""
TRIALS = (".probe/", ".clock/", ".doctor/")
"""A writer tries the store out with any verb."""
UNPROVED = {
    ProcessRole.READER: ("roles/", "members/", "gateways", "kafka-gateways"),
    ProcessRole.PRODUCER: (),
    ProcessRole.CAPTURE: (),
    ProcessRole.SYNC: ("lake",),
    # Whoever comes first says whose the table is; here that is a sender of transactions.
    # To redrive takes a producer's policy too.
    # No message fails in this life of a lake.
    ProcessRole.CONSUMER: ("roles/", "members/", "failures/", "redrives/", "lake"),
    ProcessRole.TRANSACTIONS: (),
    ProcessRole.GATEWAY: ("lake", "workers/"),
    ProcessRole.MAINTENANCE: (
        "roles/",
        "players/",
        "members/",
        "failures/",
        "workers/",
        "lake",
        "access",
        "gateways",
        "kafka-gateways",
    ),
}
"""Cells of leased roles, with the heartbeats of who plays them, and of broadcasting members: part of the design, not of the code yet."""


@pytest.mark.parametrize("role", list(ProcessRole))
def test_nothing_is_allowed_that_is_not_asked_for(world: World, role: ProcessRole) -> None:
    asked = world.stores[role].allowed
    granted = topic_access(role) | as_objects(cell_access(role))
    verbs = {
        "s3:GetObject": granted.get,
        "s3:PutObject": (*granted.create, *granted.put),
        "s3:DeleteObject": granted.delete,
    }
    unused = [
        (action, pattern)
        for action, patterns in verbs.items()
        for pattern in patterns
        if not any(one.action == action and matches(BUCKET.about("", pattern).resource, one.resource) for one in asked)
        and not pattern.startswith((*TRIALS, *(f"coordination/{cells}" for cells in UNPROVED[role])))
        and not any(pattern.startswith(rare) and action in actions for rare, actions in RARE.get(role, {}).items())
    ]
    assert not unused


@pytest.mark.thorough
@pytest.mark.parametrize("role", [role for role in ProcessRole if role not in {ProcessRole.PRODUCER, ProcessRole.CAPTURE}])
def test_nothing_is_allowed_in_dynamodb_that_is_not_asked_for(narrow: World, role: ProcessRole) -> None:
    document = policy(
        [role], URL, coordination="dynamodb://cells/prod?region=eu-west-1", groups=NARROW.get(role, {}).get("groups", ())
    )
    unused = []
    for statement in document["Statement"]:  # type: ignore[attr-defined]
        for action in statement["Action"]:
            patterns = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"])
            asked = [one for one in narrow.tables[role].allowed if one.action == action]
            unused += [
                (action, pattern)
                for pattern in patterns
                if action.startswith("dynamodb:")
                and action != "dynamodb:DescribeTable"  # asked once something is wrong
                and not any(matches(pattern, one.context.get("dynamodb:LeadingKeys", "")) for one in asked)
                and not pattern.removeprefix(CELLS).startswith(UNPROVED[role])
            ]
    assert not unused


ENTRY = "log/00000000000000000042.parquet"
FORBIDDEN = {
    ProcessRole.READER: [("PutObject", f"topics/orders/{ENTRY}"), ("DeleteObject", f"topics/orders/{ENTRY}"), ("PutObject", ".probe/x"),
                  ("PutObject", "coordination/groups/billing"), ("GetObject", "coordination/access")],
    ProcessRole.PRODUCER: [("PutObject", "topics/orders/log/floor"), ("DeleteObject", f"topics/orders/{ENTRY}"),
                    ("PutObject", "topics/orders/topic.json"), ("PutObject", "topics/orders/table/_delta_log/0.json"),
                    ("GetObject", "topics/orders/table/queue=0/a.parquet"), ("GetObject", "coordination/groups/billing"),
                    ("GetObject", "coordination/transactions/0123456789abcdef"), ("PutObject", "coordination/producer-groups"),
                    ("DeleteObject", "topics/orders/staged/handed/00000000000000000001/x")],
    ProcessRole.TRANSACTIONS: [("PutObject", "topics/orders/log/floor"), ("DeleteObject", f"topics/orders/{ENTRY}"),
                        ("PutObject", "topics/orders/topic.json"), ("GetObject", "topics/orders/table/queue=0/a.parquet"),
                        ("PutObject", "topics/orders/staged/jobs/1/a.parquet"), ("DeleteObject", "topics/orders/staged/jobs/1/a.parquet"),
                        ("PutObject", "coordination/roles/orders/maintenance"), ("PutObject", "coordination/players/maintenance"),
                        ("GetObject", "coordination/groups/billing"), ("PutObject", "coordination/queues/billing/orders/0")],
    ProcessRole.GATEWAY: [("PutObject", "coordination/access"), ("DeleteObject", "coordination/gateways"),
                   ("PutObject", f"topics/orders/{ENTRY}"), ("GetObject", f"topics/orders/{ENTRY}"),
                   ("GetObject", "coordination/groups/billing")],
    ProcessRole.CAPTURE: [("PutObject", "topics/orders/log/floor"), ("DeleteObject", f"topics/orders/{ENTRY}"),
                   ("DeleteObject", "captures/orders/penstock.json"), ("PutObject", "coordination/groups/billing"),
                   ("GetObject", "topics/orders/table/queue=0/a.parquet")],
    ProcessRole.SYNC: [("PutObject", f"topics/orders/{ENTRY}"), ("PutObject", "captures/orders/penstock.json"),
                ("PutObject", "coordination/groups/billing"), ("PutObject", "coordination/roles/orders/maintenance"),
                ("GetObject", "coordination/queues/billing/orders/0"), ("DeleteObject", "coordination/syncs/orders/orders")],
    ProcessRole.CONSUMER: [("PutObject", f"topics/orders/{ENTRY}"), ("PutObject", "topics/orders/topic.json"),
                    ("DeleteObject", "coordination/groups/billing"), ("DeleteObject", f"topics/dlq.billing/{ENTRY}"),
                    ("PutObject", "topics/dlq.billing/log/floor"), ("PutObject", "topics/orders/table/_delta_log/0.json"),
                    ("GetObject", "coordination/access"), ("PutObject", "coordination/access")],
    ProcessRole.MAINTENANCE: [("DeleteObject", "topics/orders/topic.json"), ("DeleteObject", "coordination/groups/billing"),
                       ("PutObject", "captures/orders/penstock.json"), ("DeleteObject", "coordination/producer-groups"),
                       ("DeleteObject", "coordination/queues/billing/orders/0"), ("PutObject", "coordination/members/billing/orders/m")],
}  # fmt: skip


@pytest.mark.parametrize(("role", "verb", "key"), [(role, *what) for role, them in FORBIDDEN.items() for what in them])
def test_a_role_may_not_do_what_is_another_s(role: ProcessRole, verb: str, key: str) -> None:
    for if_absent in (False, True):
        assert not allows(policy([role], URL), BUCKET.about(verb, key, if_absent=if_absent))


VERSION = "table/_delta_log/00000000000000000007"
MADE_ONCE = [
    *((role, f"topics/orders/{key}")
      for role in (ProcessRole.PRODUCER, ProcessRole.TRANSACTIONS, ProcessRole.CAPTURE, ProcessRole.MAINTENANCE)
      for key in (ENTRY, "log/checkpoints/00000000000000000064")),
    (ProcessRole.CONSUMER, f"topics/dlq.billing/{ENTRY}"),
    (ProcessRole.CONSUMER, "waiting/orders/billing/0/0123.parquet"),
    (ProcessRole.MAINTENANCE, f"topics/orders/{VERSION}.json"),
    (ProcessRole.MAINTENANCE, f"topics/orders/{VERSION}.checkpoint.parquet"),
    (ProcessRole.MAINTENANCE, "topics/orders/table/metadata/v7.metadata.json"),
]  # fmt: skip


@pytest.mark.parametrize(("role", "key"), MADE_ONCE)
def test_what_is_made_once_is_put_only_where_there_is_nothing(role: ProcessRole, key: str) -> None:
    """Nor in parts, which carry no condition, so nobody needs to abort them."""
    for document in (policy([role], URL), policy([role], URL, **NARROW[role])):  # type: ignore[arg-type]
        assert allows(document, BUCKET.about("PutObject", key, if_absent=True))
        assert not allows(document, BUCKET.about("PutObject", key))
        assert not allows(document, BUCKET.about("AbortMultipartUpload", key))


@pytest.mark.parametrize("role", list(ProcessRole))
def test_nothing_beside_the_lake_is_allowed(world: World, role: ProcessRole) -> None:
    document = policy([role], URL)
    distinct = {(one.action, one.resource, *one.context.items()): one for one in world.stores[role].allowed}
    for request in distinct.values():
        elsewhere = (
            request.resource.replace("lakes", "lakes-too"),
            request.resource.replace("/prod/", "/test/"),
            request.resource.replace("/prod/", "/prod2/"),
            request.resource.replace("/prod/", "/"),
        )
        beside = [Request(request.action, resource, request.context) for resource in elsewhere if resource != request.resource]
        prefix = request.context.get("s3:prefix")
        if prefix is not None:
            beside += [Request(request.action, request.resource, {"s3:prefix": other}) for other in ("", "prod", "test/" + prefix)]
            beside.append(Request(request.action, request.resource))
        assert beside
        assert not [one for one in beside if allows(document, one)]


def test_a_policy_for_some_topics_knows_no_other() -> None:
    document = policy([ProcessRole.PRODUCER], URL, topics=["orders"])
    assert allows(document, BUCKET.about("PutObject", f"topics/orders/{ENTRY}", if_absent=True))
    for key in (f"topics/payments/{ENTRY}", f"topics/orders2/{ENTRY}", f"topics/dlq.orders/{ENTRY}"):
        assert not allows(document, BUCKET.about("PutObject", key, if_absent=True))
        assert not allows(document, BUCKET.about("GetObject", key))
        assert not allows(document, BUCKET.listing(key))
    assert not allows(document, BUCKET.listing("topics/"))
    assert allows(policy([ProcessRole.PRODUCER], URL), BUCKET.listing("topics/"))


def test_a_consumer_of_some_groups_buries_only_theirs() -> None:
    document = policy([ProcessRole.CONSUMER], URL, topics=["orders"], groups=["billing"])
    assert allows(document, BUCKET.about("PutObject", f"topics/dlq.billing/{ENTRY}", if_absent=True))
    assert allows(document, BUCKET.about("GetObject", f"topics/dlq.billing/{ENTRY}"))
    assert not allows(document, BUCKET.about("PutObject", f"topics/dlq.audit/{ENTRY}", if_absent=True))
    for key in ("groups/billing", "queues/billing/orders/0", "workers/w-1"):
        assert allows(document, BUCKET.about("PutObject", f"coordination/{key}"))
    for key in ("groups/audit", "groups/billing2", "queues/audit/orders/0", "queues/billing2/orders/0", "roles/orders/maintenance"):
        assert not allows(document, BUCKET.about("PutObject", f"coordination/{key}"))
        assert not allows(document, BUCKET.about("GetObject", f"coordination/{key}"))


def test_a_group_s_name_is_no_pattern_of_a_policy() -> None:
    document = policy([ProcessRole.CONSUMER], URL, topics=["a.b"], groups=["team/*"])
    assert allows(document, BUCKET.about("PutObject", f"topics/dlq.team!2f!2a/{ENTRY}", if_absent=True))
    assert allows(document, BUCKET.about("GetObject", f"topics/a.b/{ENTRY}"))
    for kind, behind in (("groups", ""), ("queues", "/a.b/0"), ("redrives", "/1")):
        assert allows(document, BUCKET.about("PutObject", f"coordination/{kind}/team!2f!2a{behind}"))
        for other in ("team!2fbilling", "team", "team!2f!2a2"):
            assert not allows(document, BUCKET.about("PutObject", f"coordination/{kind}/{other}{behind}"))


def test_a_capture_and_a_sync_of_some_topics_know_no_others() -> None:
    document = policy([ProcessRole.CAPTURE, ProcessRole.SYNC], URL, topics=["orders"])
    for key in ("captures/{}/penstock.json", "topics/{}/topic.json", "coordination/roles/{}/sync-all", "coordination/syncs/{}/all"):
        assert allows(document, BUCKET.about("PutObject", key.format("orders")))
        for other in ("payments", "orders2"):
            assert not allows(document, BUCKET.about("PutObject", key.format(other)))
            assert not allows(document, BUCKET.about("GetObject", key.format(other)))


def test_cells_in_dynamodb_need_nothing_of_them_in_the_bucket() -> None:
    document = policy([ProcessRole.CONSUMER], URL, coordination="dynamodb://cells/prod?region=eu-west-1", account="123456789012")
    table = "arn:aws:dynamodb:eu-west-1:123456789012:table/cells"
    own = {"dynamodb:LeadingKeys": "prod/queues/billing/orders/0"}
    assert not allows(document, BUCKET.about("GetObject", "coordination/groups/billing"))
    for action in ("GetItem", "PutItem"):
        assert allows(document, Request(f"dynamodb:{action}", table, own))
        assert not allows(document, Request(f"dynamodb:{action}", table, {"dynamodb:LeadingKeys": "test/groups/billing"}))
        assert not allows(document, Request(f"dynamodb:{action}", table + "-too", own))
    heartbeat = {"dynamodb:LeadingKeys": "prod/workers/w-1"}
    assert allows(document, Request("dynamodb:DeleteItem", table, heartbeat))
    assert allows(document, Request("dynamodb:DescribeTable", table))
    for action in ("Scan", "DeleteItem", "DeleteTable", "CreateTable", "UpdateTable", "BatchWriteItem", "Query"):
        assert not allows(document, Request(f"dynamodb:{action}", table, own))


@pytest.mark.parametrize(
    ("role", "actions"),
    [
        (ProcessRole.READER, {"GetItem", "DescribeTable", "Scan"}),
        (ProcessRole.PRODUCER, set()),
        (ProcessRole.CAPTURE, set()),
        (ProcessRole.SYNC, {"GetItem", "PutItem", "DeleteItem", "DescribeTable"}),
        (ProcessRole.TRANSACTIONS, {"GetItem", "PutItem", "DeleteItem", "DescribeTable"}),
        (ProcessRole.CONSUMER, {"GetItem", "PutItem", "DeleteItem", "DescribeTable"}),
        (ProcessRole.MAINTENANCE, {"GetItem", "PutItem", "DeleteItem", "DescribeTable", "Scan"}),
    ],
)
def test_what_roles_do_in_dynamodb(role: ProcessRole, actions: set[str]) -> None:
    document = policy([role], URL, coordination="dynamodb://cells")
    found = {action for one in document["Statement"] for action in one["Action"]}  # type: ignore[attr-defined]
    assert {action.removeprefix("dynamodb:") for action in found if action.startswith("dynamodb:")} == actions


def test_a_key_of_kms_is_used_as_the_role_needs() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/1"
    assert allows(policy([ProcessRole.READER], URL, kms_key=key), Request("kms:Decrypt", key))
    assert not allows(policy([ProcessRole.READER], URL, kms_key=key), Request("kms:GenerateDataKey", key))
    assert allows(policy([ProcessRole.PRODUCER], URL, kms_key=key), Request("kms:GenerateDataKey", key))
    assert not allows(policy([ProcessRole.PRODUCER], URL), Request("kms:Decrypt", key))


def test_a_bucket_policy_names_its_principal_and_speaks_of_the_bucket_only() -> None:
    who = "arn:aws:iam::123456789012:role/worker"
    document = policy([ProcessRole.CONSUMER], URL, coordination="dynamodb://cells", kms_key="arn:aws:kms:::key/1", principal=who)
    statements = document["Statement"]
    assert isinstance(statements, list)
    assert all(one["Principal"] == {"AWS": who} for one in statements)
    assert {action.partition(":")[0] for one in statements for action in one["Action"]} == {"s3"}


def test_roles_add_up_and_their_statements_have_names_of_their_own() -> None:
    document = policy([ProcessRole.PRODUCER, ProcessRole.READER, ProcessRole.PRODUCER], URL)
    statements = document["Statement"]
    assert isinstance(statements, list)
    names = [one["Sid"] for one in statements]
    assert len(names) == len(set(names))
    assert all(name.isalnum() for name in names)
    assert allows(document, BUCKET.about("PutObject", f"topics/orders/{ENTRY}", if_absent=True))
    assert allows(document, BUCKET.about("GetObject", "topics/orders/table/queue=0/a.parquet"))


@pytest.mark.parametrize("role", list(ProcessRole))
def test_a_policy_fits_into_one(role: ProcessRole) -> None:
    document = policy(
        [role], URL, coordination="dynamodb://cells/prod", kms_key="arn:aws:kms:eu-west-1:123456789012:key/1" + "0" * 36
    )
    assert len(json.dumps(document, separators=(",", ":"))) < ARN_MAX_BYTES


def test_a_prefix_with_signs_means_itself() -> None:
    document = policy([ProcessRole.READER], "s3://lakes/a*b?region=eu-west-1")
    key = "topics/orders/topic.json"
    assert allows(document, Request("s3:GetObject", f"arn:aws:s3:::lakes/a*b/{key}"))
    assert not allows(document, Request("s3:GetObject", f"arn:aws:s3:::lakes/axb/{key}"))


def test_a_lake_may_fill_its_bucket() -> None:
    document = policy([ProcessRole.READER], "s3://lakes")
    assert allows(document, Request("s3:GetObject", "arn:aws:s3:::lakes/topics/orders/topic.json"))
    assert allows(document, Request("s3:ListBucket", "arn:aws:s3:::lakes", {"s3:prefix": "topics/"}))
    assert not allows(document, Request("s3:ListBucket", "arn:aws:s3:::lakes", {"s3:prefix": ""}))


def test_only_lakes_on_s3_have_policies() -> None:
    with pytest.raises(InvalidArgument, match="policies are there for lakes on S3"):
        policy([ProcessRole.READER], "gs://lakes/prod")
    with pytest.raises(InvalidArgument, match="bad topic name"):
        policy([ProcessRole.READER], URL, topics=["../other"])
    with pytest.raises(InvalidArgument, match="bad consumer group name"):
        policy([ProcessRole.CONSUMER], URL, groups=["a\nb"])
