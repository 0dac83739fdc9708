"""Plays of producers: types, limits of what a message may have, delays, recalls and transactions."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from .scene import Group, Play, Scene, bodies, outcome, outcomes

KINDS = {"n": "NORMAL", "f": "FIFO", "d": "DELAY", "t": "TRANSACTION"}
OWN: dict[str, dict[str, Any]] = {"n": {}, "f": {"message_group": "A"}, "d": {"delay_s": 1}, "t": {"transaction": "commit"}}
"""What makes a message one of the type."""
MIB = 1 << 20


def sends(scene: Scene, topic: str, cases: dict[str, dict[str, Any]]) -> str:
    """Each message, and what becomes of it."""
    scene.producer()
    return outcomes({name: partial(scene.send, topic, **{"body": "x", **more}) for name, more in cases.items()})


def round_trip(scene: Scene) -> str:
    scene.producer()
    said: dict[str, Any] = {"tag": "标签", "keys": ["键一", "k2"], "properties": {"地区": "北京", "amount": "10"}}
    sent = scene.send("t", "你好", **said)
    scene.simple("g", "t")
    (found,) = scene.received(1)
    same = {
        "body": found["body"] == "你好",
        "tag": found["tag"] == said["tag"],
        "keys": sorted(found["keys"]) == sorted(said["keys"]),
        "properties": {name: found["properties"].get(name) for name in said["properties"]} == said["properties"],
        "message id": found["message_id"] == sent["message_id"],
        "birth": abs(found["born_ms"] / 1000 - time.time()) < 3600 and bool(found["born_host"]),
    }
    lost = [name for name, is_same in same.items() if not is_same]
    return f"all but {', '.join(lost)} as sent" if lost else "all as sent"


def tags(scene: Scene) -> str:
    return sends(
        scene, "t", {"`a`": {"tag": "a"}, "`a\\|b`": {"tag": "a|b"}, "blank": {"tag": " "}, "a tab in it": {"tag": "a\tb"}}
    )


def keys(scene: Scene) -> str:
    cases = {"64 keys": {"keys": [f"k{n}" for n in range(64)]}, "16 KiB": {"keys": ["k" * 16384]}, "blank": {"keys": [" "]}}
    return sends(scene, "t", {**cases, "a tab in it": {"keys": ["a\tb"]}})


def properties(scene: Scene) -> str:
    cases = {
        "128": {"properties": {f"p{n}": "v" for n in range(128)}},
        "129": {"properties": {f"p{n}": "v" for n in range(129)}},
        "16 KiB": {"properties": {"p": "v" * 16383}},
        "16 KiB + 1": {"properties": {"p": "v" * 16384}},
        "a control character": {"properties": {"p": "a\x01b"}},
        "named KEYS": {"properties": {"KEYS": "v"}},
    }
    return sends(scene, "t", cases)


def groups(scene: Scene) -> str:
    cases = {
        "63 letters": {"message_group": "g" * 63},
        "64 letters": {"message_group": "g" * 64},
        "blank": {"message_group": " "},
        "a tab in it": {"message_group": "a\tb"},
    }
    return sends(scene, "f", cases)


def sizes(scene: Scene) -> str:
    scene.producer(checks={})
    said = []
    for name, size in (("4 MiB", 4 * MIB), ("4 MiB + 1", 4 * MIB + 1)):
        calls = {KINDS[topic]: partial(scene.send, topic, body_bytes=size, **OWN[topic]) for topic in KINDS}
        said.append(f"{name}, {outcomes(calls)}")
    return "; ".join(said)


def empty_body(scene: Scene) -> str:
    return sends(scene, "n", {"empty": {"body": ""}})


def other_types(scene: Scene) -> str:
    scene.producer(checks={})
    calls = {
        f"{KINDS[own]} to {KINDS[topic]}": partial(scene.send, topic, "x", **OWN[own])
        for topic in KINDS
        for own in KINDS
        if own != topic
    }
    return outcomes(calls)


def two_types(scene: Scene) -> str:
    scene.producer(checks={})
    both = {"a group and a delay": OWN["f"] | OWN["d"], "a group in a transaction": OWN["f"] | OWN["t"]}
    return outcomes({name: partial(scene.send, "f", "x", **more) for name, more in both.items()})


def delay_limits(scene: Scene) -> str:
    day_s = 86_400
    cases = {"23 h": day_s - 3600, "25 h": day_s + 3600, "39 days": 39 * day_s, "41 days": 41 * day_s}
    return sends(scene, "d", {name: {"delay_s": seconds} for name, seconds in cases.items()})


def delays(scene: Scene) -> str:
    scene.producer()
    scene.simple("g", "d", await_s=20)
    scene.send("d", "past", delay_s=-60)
    (past,) = scene.received(1, ack=True)
    begun_s = time.time()
    scene.send("d", "later", delay_s=10)
    (later,) = scene.received(1, ack=True)
    waited_s = time.time() - begun_s
    early = "a second early at most" if 9 <= waited_s < 10 else "not early" if waited_s >= 10 else f"after {waited_s:.1f} s"
    return f"{past['body']}: at once; 10 s: {'not early' if waited_s >= 9 else early}; {later['body']} once"


def recalls(scene: Scene) -> str:
    scene.producer()
    sent = scene.send("d", "later", delay_s=600)
    call = {"topic": scene.named("d"), "handle": sent["recall_handle"] or ""}
    again = partial(scene.sdk.call, "recall", name=scene.named("producer"), **call)
    return outcomes({"once": again, "again": again})


def ended(scene: Scene) -> str:
    scene.producer(checks={})
    scene.simple("g", "t")
    scene.send("t", "committed", transaction="commit")
    scene.send("t", "rolled back", transaction="rollback")
    found = bodies(scene.received(1, ack=True)) + bodies(scene.received(1, seconds=6, ack=True))
    return f"visible: {', '.join(found)}"


def asked(scene: Scene) -> str:
    scene.producer(checks={"yes": "COMMIT", "no": "ROLLBACK"})
    scene.simple("g", "t")
    for body in ("yes", "no"):
        scene.send("t", body, transaction="leave")
    scene.asked_until(2)
    found = bodies(scene.received(1, ack=True)) + bodies(scene.received(1, seconds=6, ack=True))
    return f"asked about each; visible: {', '.join(found)}"


def asked_again(scene: Scene) -> str:
    scene.producer(checks={})
    scene.send("t", "perhaps", transaction="leave")
    return "asked again" if scene.asked_until(2) >= 2 else "asked once"


def unchecked(scene: Scene) -> str:
    scene.producer()
    return outcome(lambda: scene.send("t", "x", transaction="commit"))


CONCURRENT, NORMAL, OF_TRANSACTIONS = {"g": Group("CONCURRENT")}, {"t": "NORMAL"}, {"t": "TRANSACTION"}
PLAYS = (
    Play("round-trip", "tag, keys, properties and body in Chinese", round_trip, NORMAL, CONCURRENT),
    Play("tags", "tags", tags, NORMAL),
    Play("keys", "keys", keys, NORMAL),
    Play("properties", "properties: number, size, content", properties, NORMAL),
    Play("message-groups", "message groups", groups, {"f": "FIFO"}),
    Play("sizes", "bodies of 4 MiB, and a byte more", sizes, KINDS),
    Play("empty-body", "a body without a byte", empty_body, {"n": "NORMAL"}),
    Play("other-types", "a message of another type than its topic's", other_types, KINDS),
    Play("two-types", "a message of two types, to FIFO", two_types, {"f": "FIFO"}),
    Play("delays", "a delivery time in the past, and in 10 s", delays, {"d": "DELAY"}, CONCURRENT),
    Play("delay-limits", "a delay of", delay_limits, {"d": "DELAY"}),
    Play("recall", "a delayed message recalled", recalls, {"d": "DELAY"}),
    Play("transactions", "a transaction committed, and one rolled back", ended, OF_TRANSACTIONS, CONCURRENT),
    Play("asked", "two left open; the checker says COMMIT and ROLLBACK", asked, OF_TRANSACTIONS, CONCURRENT),
    Play("asked-again", "one left open; the checker does not know", asked_again, OF_TRANSACTIONS),
    Play("unchecked", "a transaction of a producer without a checker", unchecked, OF_TRANSACTIONS),
)
