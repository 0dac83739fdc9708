"""A reader of the table cannot use what is stored there; a holder of the key can, for the right principal only."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, SecretNotOpened, key_id, new_key
from penstock.log.errors import InvalidArgument, LimitExceeded

OLD, NEW = bytes(KEY_BYTES), bytes(range(KEY_BYTES))
SECRET = "correct-horse-battery"


def keys(*raw: bytes) -> SealingKeys:
    return SealingKeys.parse("".join(map(new_key, raw)), where="the file")


SEALED = keys(OLD).seal(SECRET, name="shop", id="1", nonce=b"n" * 12, since_ms=5)


def test_a_secret_opens_again() -> None:
    assert keys(OLD).open(SEALED, name="shop", id="1") == SECRET
    assert keys(NEW, OLD).open(SEALED, name="shop", id="1") == SECRET, "whichever line its key stands in"
    assert SECRET.encode() not in base64.b64decode(SEALED.sealed)
    assert SECRET not in repr(SEALED)
    assert SEALED.sealed not in repr(SEALED)


@pytest.mark.parametrize(("name", "id"), [("other", "1"), ("shop", "2")])
def test_a_secret_is_its_principal_s_alone(name: str, id: str) -> None:
    with pytest.raises(SecretNotOpened, match="does not open"):
        keys(OLD).open(SEALED, name=name, id=id)


@pytest.mark.parametrize("sealed", ["", "AAAA", base64.b64encode(bytes(40)).decode()])
def test_a_secret_that_was_altered_does_not_open(sealed: str) -> None:
    with pytest.raises(SecretNotOpened, match="does not open"):
        keys(OLD).open(replace(SEALED, sealed=sealed), name="shop", id="1")


def test_an_absent_key_is_named() -> None:
    with pytest.raises(SecretNotOpened, match=f"expected: key {key_id(OLD)}; observed: {key_id(NEW)} in the file"):
        keys(NEW).open(SEALED, name="shop", id="1")


@pytest.mark.parametrize(
    ("text", "said"), [("", "has no key"), ("# nothing\n\n", "has no key"), ("AAAA\n", "line 1"), ("# key\n%%\n", "line 2")]
)
def test_a_key_file_that_is_none(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as raised:
        SealingKeys.parse(text, where="the file")
    assert "AAAA" not in str(raised.value)


def test_a_key_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="No such file"):
        SealingKeys.load(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    with pytest.raises(InvalidArgument, match="it is no text"):
        SealingKeys.load(tmp_path / "binary")


@pytest.mark.parametrize(
    ("secret", "error"), [("brief", LimitExceeded), ("x" * 257, LimitExceeded), ("with a space 12345", InvalidArgument)]
)
def test_a_secret_that_is_none(secret: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        keys(OLD).seal(secret, name="shop", id="1", nonce=b"n" * 12, since_ms=5)
    assert secret not in str(raised.value)


def test_nothing_shows_a_key() -> None:
    assert new_key(NEW).strip() not in repr(keys(NEW))
    assert repr(NEW) not in repr(keys(NEW))


def test_a_derived_key_is_of_its_purpose_and_tells_no_other() -> None:
    salting = keys(NEW, OLD).derived("salts")
    assert salting == keys(NEW).derived("salts"), "of the present key"
    assert len({salting, keys(NEW).derived("others"), keys(OLD).derived("salts"), NEW, OLD}) == 5
