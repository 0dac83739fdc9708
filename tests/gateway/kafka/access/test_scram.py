"""SCRAM's messages: the example of RFC 7677, what is no message, and any bytes."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.gateway.kafka.access import scram
from penstock.gateway.kafka.access.plain import PlainMalformed, name_and_secret
from penstock.gateway.kafka.access.scram import (
    HASHES,
    ScramChallenge,
    ScramMalformed,
    challenge,
    client_name,
    is_proved,
    keys_of,
    proof_of,
    server_proof,
)

SALT = bytes(range(16))
FIRST = b"n,,n=shop,r=fyko+d2lbbFgONRv9qkxdawL"


def answer(asked: ScramChallenge, secret: str, header: bytes = b"n,,", nonce: str | None = None) -> bytes:
    """The last message of a client with a secret, made as the RFC says it."""
    fields = dict(one.split("=", 1) for one in asked.text.split(","))
    salt, rounds, size = base64.b64decode(fields["s"]), int(fields["i"]), asked.hash
    salted = hashlib.pbkdf2_hmac(size, secret.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", size)
    unproved = f"c={base64.b64encode(header).decode()},r={nonce or fields['r']}"
    signature = hmac.digest(hashlib.new(size, client_key).digest(), f"{asked.first},{asked.text},{unproved}".encode(), size)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


ASKED = challenge("SCRAM-SHA-256", FIRST, nonce="server", salt=SALT)
LAST = answer(ASKED, "right")
KEYS = keys_of("sha256", "right", SALT)


def test_the_example_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram, "ITERATIONS", 4096)
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    asked = challenge("SCRAM-SHA-256", first, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", salt=salt)
    assert asked.text == "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    keys, given_proof = keys_of("sha256", "pencil", salt), proof_of(asked, last)
    assert is_proved(keys, given_proof)
    assert server_proof(keys, given_proof) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", HASHES)
def test_another_secret_proves_nothing(mechanism: str) -> None:
    asked = challenge(mechanism, FIRST, nonce="server", salt=SALT)
    keys = keys_of(HASHES[mechanism], "right", SALT)
    assert is_proved(keys, proof_of(asked, answer(asked, "right")))
    assert not is_proved(keys, proof_of(asked, answer(asked, "wrong")))
    short = replace(proof_of(asked, answer(asked, "right")), proof=b"short")
    assert not is_proved(keys, short)


def test_a_proof_is_of_the_challenge_that_was_asked() -> None:
    asked, other = (challenge("SCRAM-SHA-256", FIRST, nonce=nonce, salt=SALT) for nonce in ("one", "two"))
    for stale in (answer(other, "right"), answer(asked, "right", nonce="fyko"), answer(asked, "right", header=b"y,,")):
        with pytest.raises(ScramMalformed, match="another nonce, or another channel binding"):
            proof_of(asked, stale)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=shop",
        b"n,,n=shop,r=",
        b"n,,n=,r=abc",
        b"p=tls-unique,,n=shop,r=abc",
        b"n,,m=must,n=shop,r=abc",
        b"n,a=other,n=shop,r=abc",
        b"n,,n=shop,r=a b",
        b"n,,n=sh\xc3\xb6p,r=abc",
        b"n,,n=shop,r=" + b"x" * 129,
    ],
)
def test_what_is_no_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(ScramMalformed):
        challenge("SCRAM-SHA-256", message, nonce="server", salt=SALT)


def test_first_messages_of_other_clients() -> None:
    assert client_name(b"n,a=shop,n=shop,r=abc,tokenauth=true") == "shop"
    assert client_name(b"y,,n=shop,r=abc") == "shop"


@given(st.binary(max_size=200) | st.from_regex(r"[ny],(a=[a-z]*)?,n=.*,r=.*", fullmatch=True).map(str.encode))
@example(b"n,,n=" + b"=" * 500 + b",r=a")
def test_any_bytes_are_a_first_message_or_refused(message: bytes) -> None:
    try:
        asked = challenge("SCRAM-SHA-512", message, nonce="server", salt=SALT)
    except ScramMalformed:
        return
    assert asked.nonce.endswith("server")
    assert message == asked.header + asked.first.encode()


@given(
    st.binary(max_size=200)
    | st.tuples(st.integers(0, 120), st.binary(max_size=3)).map(lambda cut: LAST[: cut[0]] + cut[1] + LAST[cut[0] + 1 :])
)
def test_any_bytes_are_a_last_message_or_refused(message: bytes) -> None:
    try:
        given_proof = proof_of(ASKED, message)
    except ScramMalformed:
        return
    assert is_proved(KEYS, given_proof) == (message == LAST)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_name_and_a_secret_or_refused(message: bytes) -> None:
    try:
        name, secret = name_and_secret(message)
    except PlainMalformed:
        return
    assert message.split(b"\0")[1:] == [name.encode(), secret.encode()]
