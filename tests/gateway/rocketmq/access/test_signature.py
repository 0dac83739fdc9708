"""Signatures as SDKs make them: a vector, their times, and what is refused. Pure."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.gateway.access.refusals import Unauthorized
from penstock.gateway.rocketmq.access.signature import check_time, digest_of, signature_of

NOW = datetime(2026, 11, 26, 14, 0, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
SECRET = "correct-horse-battery"


def header(key: str = "shop", date_time: str = "20261126T140000Z", secret: str = SECRET, *, upper: bool = False) -> str:
    digest = digest_of(secret, date_time).hex()
    return f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={digest.upper() if upper else digest}"


def stamp(time: datetime) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ")


def test_the_digest_is_hmac_sha1_of_the_time() -> None:
    # By: printf 20261126T140000Z | openssl dgst -sha1 -hmac correct-horse-battery
    assert digest_of(SECRET, "20261126T140000Z").hex() == "51c2e25c6aba6ff28be3d40b20fcce39783ebf02"


@pytest.mark.parametrize("upper", [False, True])
def test_a_signature_is_verified_by_its_secret(upper: bool) -> None:
    signature = signature_of(header(upper=upper), "20261126T140000Z")
    assert signature.access_key == "shop"
    assert signature.is_by(SECRET)
    assert not signature.is_by(SECRET + "2")


def test_a_signature_of_another_time_is_none() -> None:
    assert not signature_of(header(), "20261126T140001Z").is_by(SECRET)


def test_a_region_behind_the_access_key_is_left_out() -> None:
    assert signature_of(header("shop/eu"), "20261126T140000Z").access_key == "shop"


@pytest.mark.parametrize(
    ("authorization", "said"),
    [
        ("", "the call is not signed"),
        (header(""), "were a key and a secret given"),
        (header().replace("MQv2", "MQv3"), "the authorization is not"),
        (header()[:-1], "the authorization is not"),
        (header() + "0", "the authorization is not"),
        (header().replace("x-mq-date-time", "host"), "of the header x-mq-date-time alone"),
        ("Bearer abc", "the authorization is not"),
        (header() + ", " * 1000, "the authorization is not"),
    ],
)
def test_what_is_no_signature_is_refused(authorization: str, said: str) -> None:
    with pytest.raises(Unauthorized, match=said):
        signature_of(authorization, "20261126T140000Z")


@pytest.mark.parametrize("zone_h", [-12, -3.5, 0, 5.75, 8, 14])
def test_the_local_time_that_sdks_send_is_taken(zone_h: float) -> None:
    for skew in (-14, 0, 14):
        check_time(stamp(NOW + timedelta(hours=zone_h, minutes=skew)), NOW_MS, utc_only=False)


@pytest.mark.parametrize(
    ("off", "utc_only"),
    [
        (timedelta(hours=-12, minutes=-16), False),
        (timedelta(hours=14, minutes=16), False),
        (timedelta(days=365), False),
        (timedelta(minutes=16), True),
        (timedelta(minutes=-16), True),
        (timedelta(hours=8), True),
    ],
)
def test_an_old_or_early_signature_has_expired(off: timedelta, utc_only: bool) -> None:
    with pytest.raises(Unauthorized, match=r"has expired: it was made at .*, more than 15 minutes from the gateway's clock"):
        check_time(stamp(NOW + off), NOW_MS, utc_only=utc_only)


def test_a_strict_gateway_takes_utc() -> None:
    for skew in (-14, 14):
        check_time(stamp(NOW + timedelta(minutes=skew)), NOW_MS, utc_only=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "20261332T000000Z",
        "20261126T140000",
        "00000101T000000Z",
        "٢٠٢٦١١٢٦T140000Z",
        "2026-11-26T14:00:00",
        "2026-11-26T25:00:00Z",
        "2026-11-26T14:00:00+99:00",
        "0000-01-01T00:00:00Z",
        "٢٠٢٦-11-26T14:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(Unauthorized, match="is no time of the form"):
        check_time(text, NOW_MS, utc_only=False)


@pytest.mark.parametrize("utc_only", [False, True])
def test_the_time_of_rusts_sdk_says_its_zone_and_counts_there(utc_only: bool) -> None:
    for zone in (UTC, timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30))):
        said = NOW.astimezone(zone).replace(microsecond=120_000).isoformat()
        check_time(said.replace("+00:00", "Z"), NOW_MS, utc_only=utc_only)
        check_time(said.replace(".120000", ".123456789"), NOW_MS, utc_only=utc_only)
        with pytest.raises(Unauthorized, match="has expired"):
            check_time((NOW + timedelta(hours=1)).astimezone(zone).isoformat(), NOW_MS, utc_only=utc_only)


def test_the_year_of_a_signature_does_not_break_the_check() -> None:
    with pytest.raises(Unauthorized, match="has expired"):
        check_time("99991231T235959Z", NOW_MS, utc_only=False)
    with pytest.raises(Unauthorized, match="has expired"):
        check_time("00010101T000000Z", NOW_MS, utc_only=False)
    for text in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"):
        with pytest.raises(Unauthorized, match="has expired"):
            check_time(text, NOW_MS, utc_only=False)


def test_a_header_of_an_attacker_takes_no_time() -> None:
    odd = "MQv2-HMAC-SHA1 Credential=" + "a/" * 500_000
    started_s = time.process_time()
    with pytest.raises(Unauthorized):
        signature_of(odd, "x" * 1_000_000)
    assert time.process_time() - started_s < 0.5
