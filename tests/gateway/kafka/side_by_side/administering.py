"""Plays about topics and their configs."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.gateway.kafka.wire.apis import ApiKey
from tests.waiting import until

from .scene import APPEND, BROKER, DELETE, SET, TOPIC, Play, Scene, ends, word, words

# --- Metadata ---------------------------------------------------------------------------------------------------------------------


async def all_topics(scene: Scene) -> str:
    topic = await scene.topic()
    every = await scene.ask(ApiKey.METADATA, 9, topics=None, allow_auto_topic_creation=False)
    none = await scene.ask(ApiKey.METADATA, 9, topics=[], allow_auto_topic_creation=False)
    return f"null: {'with the new one' if topic in {one.name for one in every.topics} else 'without it'}; none: {len(none.topics)}"


async def unknown_topic(scene: Scene) -> str:
    name = scene.named("t")
    found = (await scene.metadata_of(name))[name].error_code
    by_id = await scene.ask(ApiKey.METADATA, topics=[{"name": None, "topic_id": UUID(int=77)}], allow_auto_topic_creation=False)
    described = await scene.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": name}], response_partition_limit=10, cursor=None)
    codes = {"name": found, "id": by_id.topics[0].error_code, "DescribeTopicPartitions": described.topics[0].error_code}
    return words(codes)


async def pages(scene: Scene) -> str:
    names = [await scene.topic("t", 3), scene.named("tt"), await scene.topic("u", 2)]
    said, cursor = [], None
    while True:
        asked = {"topics": [{"name": name} for name in names], "response_partition_limit": 2, "cursor": cursor}
        answer = await scene.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, **asked)
        told = [f"{one.name.rpartition('-')[2]} {[part.partition_index for part in one.partitions]}" for one in answer.topics]
        said.append(", ".join(told))
        if answer.next_cursor is None or len(said) == 5:
            return "; ".join(said)
        cursor = answer.next_cursor


async def automatic(scene: Scene) -> str:
    name = scene.named("t")

    async def code() -> int:
        return int((await scene.metadata_of(name, creates=True))[name].error_code)

    first = await code()
    await until(code, lambda seen: seen == 0, "the topic is made")
    return f"first {word(first)}; then there"


async def names(scene: Scene) -> str:
    cases = {"no letter": "", ".": ".", "..": "..", "`a b`": "a b", "`a/b`": "a/b", "`ä`": "ä", "250 letters": "a" * 250}
    codes = {name: await scene.created(one) for name, one in cases.items()}
    letters = (scene.named("n") + "." + "x" * 249)[:249]
    return words({**codes, "249 letters": await scene.created(letters)})


async def names_in_metadata(scene: Scene) -> str:
    cases = {"no letter": "", "`a b`": "a b", "250 letters": "a" * 250}
    return words({name: (await scene.metadata_of(one, creates=True))[one].error_code for name, one in cases.items()})


async def collision(scene: Scene) -> str:
    first, second = scene.named("a.b_c"), scene.named("a_b.c")
    return words({"`a.b_c`": await scene.created(first), "then `a_b.c`": await scene.created(second)})


async def brokers(scene: Scene) -> str:
    answer = await scene.ask(
        ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=False, endpoint_type=1, include_fenced_brokers=False
    )
    controllers = await scene.ask(
        ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=False, endpoint_type=2, include_fenced_brokers=False
    )
    known = answer.controller_id in {one.broker_id for one in answer.brokers}
    return f"{len(answer.brokers)} broker, {'the controller' if known else 'another controller'}; controllers: {word(controllers.error_code)}"


# --- Topics -----------------------------------------------------------------------------------------------------------------------


async def twice(scene: Scene) -> str:
    topic = await scene.topic()
    asked = {"name": scene.named("u"), "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = await scene.ask(ApiKey.CREATE_TOPICS, topics=[asked, asked], timeout_ms=30_000, validate_only=False)
    codes = {"that is there": await scene.created(topic), "named twice in a request": answer.topics[0].error_code}
    return words(codes)


async def numbers(scene: Scene) -> str:
    cases = {"0 partitions": (0, 1), "-2 partitions": (-2, 1), "factor 0": (1, 0), "no numbers": (-1, -1)}
    return words({name: await scene.created(scene.named(f"t{at}"), *case) for at, (name, case) in enumerate(cases.items())})


async def factor(scene: Scene) -> str:
    return word(await scene.created(scene.named("t"), replicas=3))


async def configs(scene: Scene) -> str:
    cases = {
        "no.such": ("no.such", "1"),
        "retention.ms=x": ("retention.ms", "x"),
        "retention.ms=-2": ("retention.ms", "-2"),
        "retention.ms null": ("retention.ms", None),
        "cleanup.policy=shred": ("cleanup.policy", "shred"),
        "compression.type=rar": ("compression.type", "rar"),
        "segment.bytes=x": ("segment.bytes", "x"),
        "min.insync.replicas=0": ("min.insync.replicas", "0"),
        "message.timestamp.type=x": ("message.timestamp.type", "x"),
    }
    codes = {}
    for at, (name, (config, value)) in enumerate(cases.items()):
        codes[f"`{name}`"] = await scene.created(scene.named(f"t{at}"), configs=[{"name": config, "value": value}])
    return words(codes)


async def trial(scene: Scene) -> str:
    name = scene.named("t")
    asked = {"name": name, "num_partitions": 3, "replication_factor": 1, "assignments": [], "configs": []}
    answer = (await scene.ask(ApiKey.CREATE_TOPICS, topics=[asked], timeout_ms=30_000, validate_only=True)).topics[0]
    there = (await scene.metadata_of(name))[name].error_code == 0
    return f"{word(answer.error_code)}, {answer.num_partitions} partitions; {'made' if there else 'not made'}"


async def more_partitions(scene: Scene) -> str:
    topic = await scene.topic(partitions=2)
    codes = {}
    for name, asked, count in (
        ("2 to 4", topic, 4),
        ("to 5", topic, 5),
        ("to 1", topic, 1),
        ("of an unknown topic", scene.named("other"), 4),
    ):
        topics = [{"name": asked, "count": count, "assignments": None}]
        answer = await scene.ask(ApiKey.CREATE_PARTITIONS, topics=topics, timeout_ms=30_000, validate_only=False)
        codes[name] = answer.results[0].error_code
    return words(codes)


async def unknown_deleted(scene: Scene) -> str:
    asked = [{"name": None, "topic_id": UUID(int=77)}]
    by_id = await scene.ask(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout_ms=30_000)
    codes = {
        "name": await scene.deleted(scene.named("other")),
        "id": by_id.responses[0].error_code,
        "`a b`": await scene.deleted("a b"),
    }
    return words(codes)


# --- Configs ----------------------------------------------------------------------------------------------------------------------


async def described(scene: Scene, topic: str) -> dict[str, tuple[str, int]]:
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    answer = await scene.ask(ApiKey.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=False, include_documentation=False)
    assert not answer.results[0].error_code
    return {one.name: (one.value, one.config_source) for one in answer.results[0].configs}


async def config_sources(scene: Scene) -> str:
    topic = await scene.topic(retention__ms="60000")
    found = await described(scene, topic)
    sources = {1: "of the topic", 5: "a default"}
    told = {
        name: f"{found[name][0]}, {sources[found[name][1]]}" for name in ("retention.ms", "cleanup.policy", "max.message.bytes")
    }
    return "; ".join(f"`{name}`: {one}" for name, one in told.items())


async def config_names(scene: Scene) -> str:
    return ", ".join(f"`{name}`" for name in sorted(await described(scene, await scene.topic())))


async def no_configs(scene: Scene) -> str:
    codes = {}
    for name, kind, resource in (
        ("topic", TOPIC, scene.named("other")),
        ("name `a b`", TOPIC, "a b"),
        ("broker 77", BROKER, "77"),
        ("broker `x`", BROKER, "x"),
        ("kind 99", 99, "x"),
    ):
        asked = [{"resource_type": kind, "resource_name": resource, "configuration_keys": None}]
        answer = await ends(
            scene.ask(ApiKey.DESCRIBE_CONFIGS, resources=asked, include_synonyms=False, include_documentation=False)
        )
        codes[name] = answer.results[0].error_code
    return words(codes)


async def altered(scene: Scene) -> str:
    topic = await scene.topic(retention__ms="60000", retention__bytes="1000000")
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": [{"name": "retention.bytes", "value": "2000000"}]}
    answer = await scene.ask(ApiKey.ALTER_CONFIGS, resources=[resource], validate_only=False)

    async def found() -> dict[str, tuple[str, int]]:
        return await described(scene, topic)

    now = await until(found, lambda seen: seen["retention.bytes"][0] == "2000000", "the change is there")
    return f"{word(answer.responses[0].error_code)}; what is not named: {'the default' if now['retention.ms'][0] != '60000' else 'stays'}"


async def incrementally(scene: Scene) -> str:
    topic = await scene.topic(retention__ms="60000", retention__bytes="1000000")
    unknown = scene.named("other")
    cases = {
        "set": (topic, "retention.ms", SET, "90000"),
        "deleted": (topic, "retention.bytes", DELETE, None),
        "appended to a number": (topic, "retention.ms", APPEND, "5"),
        "a wrong value": (topic, "retention.ms", SET, "x"),
        "an unknown config": (topic, "no.such", SET, "x"),
        "an unknown topic": (unknown, "retention.ms", SET, "90000"),
    }
    codes = {
        name: await scene.altered(where, config, value, operation) for name, (where, config, operation, value) in cases.items()
    }

    async def found() -> dict[str, tuple[str, int]]:
        return await described(scene, topic)

    now = await until(
        found, lambda seen: seen["retention.ms"][0] == "90000" and seen["retention.bytes"][0] == "-1", "the changes are there"
    )
    return f"{words(codes)}; {now['retention.ms'][0]}, {now['retention.bytes'][0]}"


async def list_appended(scene: Scene) -> str:
    topic = await scene.topic()
    code = await scene.altered(topic, "cleanup.policy", "compact", APPEND)

    async def found() -> str:
        return (await described(scene, topic))["cleanup.policy"][0]

    return f"{word(code)}, then it is {await until(found, lambda seen: seen != 'delete', 'the change is there')}"


async def compact(scene: Scene) -> str:
    topic = await scene.topic(cleanup__policy="compact")
    return f"`cleanup.policy` is {(await described(scene, topic))['cleanup.policy'][0]}"


async def acls(scene: Scene) -> str:
    fields: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
    }
    answer = await scene.ask(ApiKey.DESCRIBE_ACLS, **fields, host_filter=None, operation=1, permission_type=1)
    return word(answer.error_code)


async def directories(scene: Scene) -> str:
    topic = await scene.topic(partitions=2)
    answer = await scene.ask(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": topic, "partitions": [0, 1]}])
    found = [len(one.partitions) for place in answer.results for one in place.topics if one.name == topic]
    return f"{len(answer.results)} directory, {sum(found)} partitions"


PLAYS = (
    Play("all-topics", "Metadata of topics", all_topics),
    Play("unknown-topic", "Metadata of an unknown", unknown_topic),
    Play("pages", "DescribeTopicPartitions, 2 at a time, of `t` with 3, `u` with 2 and an unknown `tt`", pages),
    Play("automatic", "Metadata of an unknown topic that may be made", automatic),
    Play("names", "CreateTopics with the name", names),
    Play("names-in-metadata", "Metadata that may make the name", names_in_metadata),
    Play("collision", "CreateTopics of", collision),
    Play("brokers", "DescribeCluster", brokers),
    Play("twice", "CreateTopics of a topic", twice),
    Play("numbers", "CreateTopics with", numbers),
    Play("factor", "CreateTopics with the replication factor 3", factor),
    Play("configs", "CreateTopics with the config", configs),
    Play("trial", "CreateTopics with `validateOnly`", trial),
    Play("more-partitions", "CreatePartitions", more_partitions),
    Play("unknown-deleted", "DeleteTopics of an unknown", unknown_deleted),
    Play("config-sources", "DescribeConfigs of a topic with `retention.ms=60000`", config_sources),
    Play("config-names", "the configs of a topic", config_names),
    Play("no-configs", "DescribeConfigs of an unknown", no_configs),
    Play("altered", "AlterConfigs of one of two configs", altered),
    Play("incrementally", "IncrementalAlterConfigs", incrementally),
    Play("list-appended", "IncrementalAlterConfigs that appends `compact` to `cleanup.policy`", list_appended),
    Play("compact", "DescribeConfigs of a topic with `cleanup.policy=compact`", compact),
    Play("acls", "DescribeAcls without an authorizer", acls),
    Play("directories", "DescribeLogDirs of a topic with 2 partitions", directories),
)
