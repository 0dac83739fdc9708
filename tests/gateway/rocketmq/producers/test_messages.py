"""What clients send, in RocketMQ's order of checks and in its words."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, datetime, timedelta
from hashlib import md5, sha1

import pytest

from penstock.gateway.rocketmq.producers.messages import message_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.status import StatusError
from penstock.log import Message, TopicSettings

MIXED = TopicSettings(message_type="MIXED")
NOW_MS = 1_800_000_000_000
NORMAL, FIFO = TopicSettings(), TopicSettings(message_type="FIFO")
DELAY, TRANSACTION = TopicSettings(message_type="DELAY"), TopicSettings(message_type="TRANSACTION")
ID = "01A2B3"


def sent(body: bytes = b"paid", properties: dict[str, str] | None = None, **system: object) -> pb.Message:
    system = {"message_id": ID, **system}
    return pb.Message(body=body, user_properties=properties or {}, system_properties=pb.SystemProperties(**system))  # type: ignore[arg-type]


def due(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW_MS / 1000 + seconds, UTC)


def taken(message: pb.Message, settings: TopicSettings = NORMAL) -> Message:
    return message_of(message, settings, now_ms=NOW_MS)


def refused(message: pb.Message, settings: TopicSettings = NORMAL) -> tuple[int, str]:
    with pytest.raises(StatusError) as error:
        taken(message, settings)
    return error.value.code, error.value.message


def test_everything_of_a_message_is_kept() -> None:
    found = taken(
        sent(properties={"a": "1", "empty": ""}, tag="paid", keys=["k1", "k2"], trace_context="00-1", born_host="10.0.0.1")
    )
    assert found == Message(
        b"paid",
        tag="paid",
        keys=("k1", "k2"),
        properties={"a": "1", "empty": ""},
        headers=(("rocketmq.born_host", b"10.0.0.1"), ("rocketmq.trace_context", b"00-1")),
        message_id=ID,
    )


def test_groups_and_delivery_times_are_kept() -> None:
    assert taken(sent(message_group="user-7"), FIFO).message_group == "user-7"
    assert taken(sent(delivery_timestamp=due(60.5)), DELAY).delivery_timestamp == due(60.5)
    assert taken(sent(delivery_timestamp=due(-60)), DELAY).delivery_timestamp == due(-60), (
        "what is due already is delivered at once"
    )
    assert taken(sent(message_type=pb.TRANSACTION), TRANSACTION).body == b"paid"


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_packed_bodies_are_stored_unpacked(pack: object) -> None:
    assert taken(sent(pack(b"paid"), body_encoding=pb.GZIP)).body == b"paid"  # type: ignore[operator]


DIGESTS = {
    pb.CRC32: lambda body: f"{zlib.crc32(body):X}",
    pb.MD5: lambda body: md5(body).hexdigest(),
    pb.SHA1: lambda body: sha1(body).hexdigest().upper(),
}


@pytest.mark.parametrize("kind", DIGESTS)
def test_a_body_that_was_damaged_on_its_way_is_refused(kind: pb.DigestType) -> None:
    packed = gzip.compress(b"paid")
    digest = pb.Digest(type=kind, checksum=DIGESTS[kind](packed))
    assert taken(sent(packed, body_digest=digest, body_encoding=pb.GZIP)).body == b"paid", "the digest is of the packed body"
    code, said = refused(sent(b"paid", body_digest=pb.Digest(type=kind, checksum=DIGESTS[kind](b"pain"))))
    assert (code, f"its {pb.DigestType.Name(kind)} is" in said) == (pb.MESSAGE_CORRUPTED, True)


def test_a_digest_that_says_nothing_is_passed_over() -> None:
    for digest in (pb.Digest(), pb.Digest(type=pb.MD5), pb.Digest(type=99, checksum="x")):  # type: ignore[arg-type]
        assert taken(sent(body_digest=digest)).body == b"paid"
    assert taken(sent(b"6", body_digest=pb.Digest(type=pb.CRC32, checksum=f"{zlib.crc32(b'6'):08x}"))).body == b"6"


def test_a_packed_body_is_unpacked_no_further_than_is_allowed() -> None:
    bomb = gzip.compress(bytes(64 * 1024 * 1024))
    assert refused(sent(bomb, body_encoding=pb.GZIP)) == (41301, "message body cannot exceed the max 4194304")


def test_a_body_that_is_not_packed_as_it_says_is_refused() -> None:
    assert refused(sent(b"plain", body_encoding=pb.GZIP))[0] == 40016
    assert refused(sent(gzip.compress(b"paid")[:-9], body_encoding=pb.GZIP))[0] == 40016


# What a RocketMQ 5.3.3 answered to these.
AS_ROCKETMQ = [
    (sent(b""), NORMAL, 41302, "message body cannot be empty"),
    (sent(bytes(4 * 1024 * 1024 + 1)), NORMAL, 41301, "message body cannot exceed the max 4194304"),
    (sent(tag="a|b"), NORMAL, 40004, "tag cannot contain '|'"),
    (sent(tag=" "), NORMAL, 40004, "tag cannot be the char sequence of whitespace"),
    (sent(message_group=" "), FIFO, 40006, "message group cannot be the char sequence of whitespace"),
    (sent(message_group="a\tb"), FIFO, 40006, "message group cannot contain control character"),
    (sent(message_group="g" * 64), FIFO, 40006, "message group exceed the max size 64"),
    (sent(properties={"KEYS": "a"}), NORMAL, 40007, "property is used by system: KEYS"),
    (sent(properties={f"p{n}": "" for n in range(129)}), NORMAL, 43101, "too many user properties, max is 128"),
    (sent(properties={"p": "v" * 16384}), NORMAL, 43101, "the total size of user property is too large, max is 16384"),
    (sent(message_id=" "), NORMAL, 40009, "message id cannot be empty"),
    (sent(), FIFO, 40014, "TopicMessageType validate failed, the expected type is FIFO, but actual type is NORMAL"),
    (
        sent(message_group="g"),
        NORMAL,
        40014,
        "TopicMessageType validate failed, the expected type is NORMAL, but actual type is FIFO",
    ),
    (
        sent(message_type=pb.FIFO),
        FIFO,
        40014,
        "TopicMessageType validate failed, the expected type is FIFO, but actual type is NORMAL",
    ),
]


@pytest.mark.parametrize(("message", "settings", "code", "text"), AS_ROCKETMQ, ids=[str(one[3])[:40] for one in AS_ROCKETMQ])
def test_refusals_are_rocketmqs(message: pb.Message, settings: TopicSettings, code: int, text: str) -> None:
    assert refused(message, settings) == (code, text)


def test_what_is_just_within_the_limits_is_taken() -> None:
    assert taken(sent(message_group="g" * 63, message_type=pb.NORMAL), FIFO).message_group
    assert len(taken(sent(properties={f"p{n}": "" for n in range(128)})).properties) == 128
    assert taken(sent(properties={"p": "v" * 16383})).properties
    assert len(taken(sent(bytes(4 * 1024 * 1024))).body or b"") == 4 * 1024 * 1024
    assert len(taken(sent(tag="t" * 16384)).tag or "") == 16384
    assert len(taken(sent(keys=[f"order-{n}" for n in range(1_000)])).keys) == 1_000


def test_a_delivery_time_too_far_ahead_is_refused() -> None:
    most = DELAY.limits.max_delay
    assert taken(sent(delivery_timestamp=due(most.total_seconds())), DELAY)
    code, text = refused(sent(delivery_timestamp=due(most.total_seconds() + 1)), DELAY)
    assert (code, text) == (40012, f"the max delay time of message is too large, max is {most // timedelta(milliseconds=1)}")
    # A client that gives milliseconds for seconds means the year 58,000.
    far = sent()
    far.system_properties.delivery_timestamp.seconds = NOW_MS
    assert refused(far, DELAY)[0] == 40012


def test_a_mixed_topic_takes_all_but_delayed_messages() -> None:
    assert taken(sent(), MIXED).message_group is None
    assert taken(sent(message_group="g"), MIXED).message_group == "g"
    assert taken(sent(message_type=pb.TRANSACTION), MIXED)
    assert refused(sent(message_type=pb.TRANSACTION, message_group="g"), MIXED)[0] == 40014
    said = "TopicMessageType validate failed, the expected type is MIXED, but actual type is DELAY"
    assert refused(sent(delivery_timestamp=due(1)), MIXED) == (40014, said)


def test_transactions_have_neither_group_nor_time() -> None:
    assert refused(sent(message_type=pb.TRANSACTION, message_group="g"), TRANSACTION)[0] == 40014
    recovery = timedelta(hours=2)
    assert refused(sent(message_type=pb.TRANSACTION, orphaned_transaction_recovery_duration=recovery), TRANSACTION)[0] == 40000
