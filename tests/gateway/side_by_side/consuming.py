"""Plays of consumers: order, acknowledgements, invisible durations, retries, filters, resets and members."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from functools import partial
from typing import Any

from tests.waiting import wait_until

from .scene import OK, PATIENCE_S, Group, Play, Scene, bodies, in_order, outcome, outcomes, with_attempts

SOON_S = 6.0
"""After that a live consumer knows of a reset."""


def hundred_in_order(scene: Scene) -> str:
    scene.producer()
    sent = [f"{group}{number}" for number in range(50) for group in "AB"]
    scene.send_all("t", *sent)
    scene.push("g", "t")
    found = bodies(scene.pushed_until(len(sent)))
    return "each once, in order" if sorted(found) == sorted(sent) and in_order(found) else " ".join(found)


def simple_in_order(scene: Scene) -> str:
    scene.producer()
    sent = [f"{group}{number}" for number in range(10) for group in "AB"]
    scene.send_all("t", *sent)
    scene.simple("g", "t")
    found = bodies(scene.received(len(sent), ack=True))
    return "each once, in order" if sorted(found) == sorted(sent) and in_order(found) else " ".join(found)


def never_acknowledged(scene: Scene) -> str:
    scene.producer()
    scene.send_all("t", "A1", "A2", "A3")
    scene.simple("g", "t")
    found = scene.received(3, seconds=PATIENCE_S, most=1, invisible_s=10)
    return f"{'only ' if len(set(bodies(found))) == 1 else ''}{with_attempts(found)}"


def all_but_the_first(scene: Scene) -> str:
    scene.producer()
    scene.simple("g", "t")
    scene.send_all("t", "W1")
    scene.received(1, ack=True)  # a consumer that has just begun may be given the first message alone
    scene.send_all("t", "A1", "A2", "A3")
    scene.pause(1)
    found = scene.batch(3, invisible_s=10)
    for message in found[1:]:
        scene.ack(message)
    again = scene.batch(3, invisible_s=30)
    more = {two["attempt"] - one["attempt"] for one, two in zip(found, again, strict=True)}
    return f"then {', '.join(bodies(again))}, {' or '.join(map(str, more))} attempt later"


def another_group_beside(scene: Scene) -> str:
    scene.producer()
    scene.send_all("t", "A1", "A2")
    scene.simple("g", "t")
    (first,) = scene.received(1, most=1, invisible_s=60)
    scene.send_all("t", "B1")
    beside = bodies(scene.received(1, seconds=8))
    return f"while {first['body']} is out: {', '.join(beside) or 'nothing'}"


def fifo_retries(scene: Scene) -> str:
    scene.producer()
    sent = [f"{group}{number}" for group in "ABC" for number in (1, 2)]
    scene.send_all("t", *sent)
    scene.push("g", "t", fails={"A1": 1, "B1": 1, "C1": 1})
    found = scene.pushed_until(9)
    attempts = sorted({(one["body"][1:], one["attempt"]) for one in found})
    order = "in order" if in_order(bodies(found)) else "not in order"
    return f"{order}; " + ", ".join(f"message {number} at attempt {attempt}" for number, attempt in attempts)


def fifo_gives_up(scene: Scene) -> str:
    scene.producer()
    scene.send_all("t", "A1", "A2")
    scene.push("g", "t", fails={"A1": 9})
    return with_attempts(scene.pushed_until(4))


def concurrent_gives_up(scene: Scene) -> str:
    scene.producer()
    scene.send("t", "m1")
    scene.push("g", "t", fails={"m1": 9})
    scene.pushed_until(3)
    scene.pause(8)
    return with_attempts(scene.pushed())


def simple_gives_up(scene: Scene) -> str:
    scene.producer()
    scene.send("t", "m1")
    scene.simple("g", "t")
    found = scene.received(2, invisible_s=10)
    more = scene.received(1, seconds=30, invisible_s=10)
    return f"{with_attempts(found)}; then {with_attempts(more) or 'nothing'}"


def dead_letters(scene: Scene) -> str:
    scene.producer()
    sent = scene.send("t", "A1", message_group="A", tag="tag", keys=["key"])
    scene.push("g", "t", fails={"A1": 9})
    scene.pushed_until(1)
    letter = _letters(scene, 1)[0]
    kept = (letter["message_id"], letter["tag"], letter["keys"], letter["message_group"])
    same = kept == (sent["message_id"], "tag", ["key"], "A")
    return f"{letter['body']} with the same id, tag, keys and group" if same else f"{letter['body']}, not as it was sent"


def acknowledged_ahead(scene: Scene) -> str:
    scene.producer()
    scene.simple("g", "t")
    scene.send_all("t", "W1")
    scene.received(1, ack=True)
    scene.send_all("t", "A1", "A2")
    scene.pause(1)
    for message in scene.batch(2, invisible_s=10):
        if message["body"] == "A2":
            scene.ack(message)
    again = scene.batch(2, invisible_s=10)
    scene.ack(again[1])
    scene.pause(11)
    more = scene.received(1, seconds=10)
    return f"then {with_attempts(more) or 'nothing'}; dead letters: {', '.join(sorted(bodies(_letters(scene, 2))))}"


def _letters(scene: Scene, count: int) -> list[dict[str, Any]]:
    """The dead letters of the group, which a consumer reads as any topic; RocketMQ makes it by the first one."""
    subscriptions = {f"%DLQ%{scene.named('g')}": "*"}
    deadline_s = time.monotonic() + 60

    def opened() -> bool:
        stated = {"group": scene.named("letters"), "subscriptions": subscriptions, "await_s": 5, "timeout_s": scene.timeout_s}
        return outcome(lambda: scene.sdk.call("simple", name=scene.named("letters"), **stated)) == OK

    wait_until(lambda: opened() or time.monotonic() > deadline_s, "the dead letters are read", timeout_s=PATIENCE_S)
    return scene.received(count, seconds=20, name="letters", ack=True)


def other_filter(scene: Scene) -> str:
    scene.simple("g", "t", "a", name="a")
    scene.receive(name="a")
    scene.simple("g", "t", "b", name="b")
    return outcome(lambda: scene.receive(name="b"))


def invisible_limits(scene: Scene) -> str:
    scene.simple("g", "t")
    seconds = {"9 s": 9, "10 s": 10, "12 h": 43_200, "12 h 1 s": 43_201}
    return outcomes({name: partial(scene.receive, invisible_s=one) for name, one in seconds.items()})


def late(scene: Scene) -> str:
    scene.producer()
    scene.send_all("f", "A1")
    scene.send("n", "m1")
    scene.simple("o", "f", name="ordered")
    scene.simple("c", "n", name="concurrent")
    found = {name: scene.received(1, name=name, invisible_s=10)[0] for name in ("ordered", "concurrent")}
    scene.pause(12)
    said = {f"ORDERLY {what}": _late_call(scene, found["ordered"], "ordered", what) for what in ("ack", "change")}
    said |= {f"CONCURRENT {what}": _late_call(scene, found["concurrent"], "concurrent", what) for what in ("ack", "change")}
    return "; ".join(f"{what}: {word}" for what, word in said.items())


def _late_call(scene: Scene, message: dict[str, object], name: str, what: str) -> str:
    if what == "ack":
        return outcome(lambda: scene.ack(message, name=name))
    return outcome(lambda: scene.change(message, 20, name=name))


def after_an_ack(scene: Scene) -> str:
    scene.producer()
    scene.send_all("f", "A1")
    scene.send("n", "m1")
    said = []
    for order, group, topic in (("ORDERLY", "o", "f"), ("CONCURRENT", "c", "n")):
        scene.simple(group, topic, name=group)
        (message,) = scene.received(1, name=group, ack=True)
        calls = {"ack again": partial(scene.ack, message, name=group), "change": partial(scene.change, message, 20, name=group)}
        said.append(f"{order} {outcomes(calls)}")
    return "; ".join(said)


def change(scene: Scene) -> str:
    scene.producer()
    scene.send_all("f", "A1")
    scene.simple("o", "f")
    (message,) = scene.received(1, invisible_s=60)
    said = outcome(lambda: scene.change(message, 2))
    return f"{said}; then {with_attempts(scene.received(1, seconds=40))}"


def batches(scene: Scene) -> str:
    scene.producer()
    for number in range(40):
        scene.send("t", f"m{number}")
    scene.simple("g", "t")
    sizes: list[int] = []

    def all_of_them() -> None:
        while sum(sizes) < 40:
            sizes.append(len(scene.receive(most=32)))

    said = outcomes({"33": lambda: sizes.append(len(scene.receive(most=33))), "32": all_of_them})
    return f"{said}; {'never more than 32' if max(sizes) <= 32 else f'up to {max(sizes)}'}"


def empty(scene: Scene) -> str:
    scene.simple("g", "t")
    return "nothing, no error" if not scene.receive() else "something"


def filters(scene: Scene) -> str:
    scene.producer()
    for group, (tag, amount) in zip("ABC", (("a", "1"), ("b", "10"), ("c", "20")), strict=True):
        scene.send("n", f"{tag}{amount}", tag=tag, properties={"amount": amount})
        scene.send("f", f"{tag}{amount}", tag=tag, properties={"amount": amount}, message_group=group)
    asked = {"tag": ("a || b", 2), "sql": ("SQL:amount > 5 AND TAGS = 'b'", 1)}
    said = []
    for (topic, kind), (name, (expression, count)) in itertools.product((("n", "NORMAL"), ("f", "FIFO")), asked.items()):
        scene.simple(f"{topic}-{name}", topic, expression, name=f"{topic}-{name}")
        found = bodies(scene.received(count, name=f"{topic}-{name}", ack=True))
        said.append(f"{kind} {name}: {', '.join(sorted(found))}")
    return "; ".join(said)


def wrong_filter(scene: Scene) -> str:
    def used() -> None:
        scene.simple("g", "t", "SQL:amount >")
        scene.receive()

    return outcome(used)


def resets(scene: Scene) -> str:
    scene.producer()
    scene.send_all("t", "A1", "A2", "A3")
    scene.simple("g", "t")
    scene.received(3, ack=True)
    scene.reset(scene.named("g"), scene.named("t"), "earliest")
    scene.pause(SOON_S)
    again = bodies(scene.received(3, seconds=60, ack=True))
    scene.send_all("t", "A4")
    scene.reset(scene.named("g"), scene.named("t"), "latest")
    scene.pause(SOON_S)
    skipped = bodies(scene.received(1, seconds=12, ack=True))
    return f"earliest: {', '.join(again) or 'nothing'}; latest, with A4 unread: {', '.join(skipped) or 'nothing'}"


def members_of_one_group(scene: Scene) -> str:
    scene.producer()
    for member in "abc":
        scene.push("g", "t", name=member)
    sent = [f"m{number}" for number in range(60)]
    for body in sent:
        scene.send("t", body)
    found: list[str] = []
    for member in itertools.cycle("abc"):
        found = [body for one in "abc" for body in bodies(scene.pushed(one))]
        if len(found) >= len(sent):
            break
        scene.pushed(member)
    scene.pause(1)
    found = [body for one in "abc" for body in bodies(scene.pushed(one))]
    return "each message once" if Counter(found) == Counter(sent) else f"{len(found)} of {len(sent)}"


def three_groups(scene: Scene) -> str:
    scene.producer()
    sent = [f"m{number}" for number in range(20)]
    for group in "abc":
        scene.push(group, "t", name=group)
    for body in sent:
        scene.send("t", body)
    whole = all(Counter(bodies(scene.pushed_until(len(sent), group))) == Counter(sent) for group in "abc")
    return "each message once in each group" if whole else "not all"


def new_group(scene: Scene) -> str:
    scene.producer()
    scene.send("t", "m1")
    scene.simple("g", "t")
    return f"gets what was sent before: {', '.join(bodies(scene.received(1, seconds=20))) or 'nothing'}"


def unknown_group(scene: Scene) -> str:
    scene.producer()
    scene.send("t", "m1")

    def used() -> None:
        scene.simple("nobody-made-it", "t")
        scene.receive()

    return outcome(used)


def reserved_groups(scene: Scene) -> str:
    def used(name: str) -> None:
        subscriptions = {scene.named("t"): "*"}
        scene.sdk.call(
            "simple", name=scene.named(name), group=name, subscriptions=subscriptions, await_s=5, timeout_s=scene.timeout_s
        )
        scene.sdk.call("receive", name=scene.named(name))

    names = {"CID_RMQ_SYS_TRANS": "CID_RMQ_SYS_TRANS", "`a group`": "a group", "256 letters": "g" * 256}
    return outcomes({what: partial(used, name) for what, name in names.items()})


def unknown_topic(scene: Scene) -> str:
    def consumed() -> None:
        scene.simple("g", "nothing")
        scene.receive()

    def sent() -> None:
        scene.producer(topics=["nothing"])
        scene.send("nothing", "m1")

    return outcomes({"send": sent, "receive": consumed})


FIFO, NORMAL = {"t": "FIFO"}, {"t": "NORMAL"}
ORDERLY, CONCURRENT = Group(), Group("CONCURRENT")
PLAYS = (
    Play("order-push", "100 messages of 2 message groups, a FIFO push consumer", hundred_in_order, FIFO, {"g": ORDERLY}),
    Play("order-simple", "20 messages of 2 message groups, received and acknowledged", simple_in_order, FIFO, {"g": ORDERLY}),
    Play("never-acked", "A1, A2, A3 received one by one for 10 s, none acknowledged", never_acknowledged, FIFO, {"g": ORDERLY}),
    Play("all-but-first", "three received for 10 s, all but the first acknowledged", all_but_the_first, FIFO, {"g": ORDERLY}),
    Play("beside", "B1 sent to the queue whose A1 is out", another_group_beside, FIFO, {"g": ORDERLY}),
    Play("fifo-retry", "FIFO push: the first of 3 message groups each fail once", fifo_retries, FIFO, {"g": ORDERLY}),
    Play("fifo-gives-up", "FIFO push, 3 attempts: A1 always fails", fifo_gives_up, FIFO, {"g": Group(max_attempts=3)}),
    Play(
        "push-gives-up", "CONCURRENT push, 3 attempts: m1 always fails", concurrent_gives_up, NORMAL, {"g": Group("CONCURRENT", 3)}
    ),
    Play(
        "simple-gives-up",
        "CONCURRENT, 2 attempts of 10 s, none acknowledged",
        simple_gives_up,
        NORMAL,
        {"g": Group("CONCURRENT", 2)},
    ),
    Play(
        "dead-letter",
        "FIFO push, 1 attempt: what lies in `%DLQ%`",
        dead_letters,
        FIFO,
        {"g": Group(max_attempts=1), "letters": CONCURRENT},
    ),
    Play(
        "ahead",
        "2 attempts of 10 s: A1 never acknowledged, A2 each time",
        acknowledged_ahead,
        FIFO,
        {"g": Group(max_attempts=2), "letters": CONCURRENT},
    ),
    Play("invisible", "a receive with an invisible duration of", invisible_limits, NORMAL, {"g": CONCURRENT}),
    Play("late", "a handle whose 10 s are over", late, {"f": "FIFO", "n": "NORMAL"}, {"o": ORDERLY, "c": CONCURRENT}),
    Play(
        "after-ack",
        "a handle whose message is acknowledged",
        after_an_ack,
        {"f": "FIFO", "n": "NORMAL"},
        {"o": ORDERLY, "c": CONCURRENT},
    ),
    Play("change", "an invisible duration changed to 2 s", change, {"f": "FIFO"}, {"o": ORDERLY}),
    Play("batches", "a receive of 33, and of 32, when 40 are there", batches, NORMAL, {"g": CONCURRENT}),
    Play("empty", "a receive from an empty topic", empty, NORMAL, {"g": CONCURRENT}),
    Play(
        "filters",
        "messages a1, b10, c20; `a \\|\\| b`, and `amount > 5 AND TAGS = 'b'`",
        filters,
        {"n": "NORMAL", "f": "FIFO"},
        {"n-tag": CONCURRENT, "n-sql": CONCURRENT, "f-tag": ORDERLY, "f-sql": ORDERLY},
    ),
    Play("wrong-filter", "the SQL filter `amount >`", wrong_filter, NORMAL, {"g": CONCURRENT}),
    Play("other-filter", "a second member of a group, which states another filter", other_filter, NORMAL, {"g": CONCURRENT}),
    Play("reset", "offsets reset while a consumer lives", resets, FIFO, {"g": ORDERLY}),
    Play("one-group", "60 messages, 3 consumers of one group", members_of_one_group, NORMAL, {"g": CONCURRENT}),
    Play("three-groups", "20 messages, 3 groups", three_groups, NORMAL, dict.fromkeys("abc", CONCURRENT)),
    Play("new-group", "a new group", new_group, NORMAL, {"g": CONCURRENT}),
    Play("unknown-group", "a group that nobody made", unknown_group, NORMAL),
    Play("reserved-group", "a group named", reserved_groups, NORMAL),
    Play("unknown-topic", "a topic that nobody made", unknown_topic, {}, {"g": CONCURRENT}),
)
