"""Stored JSON as input: what has the form is read, and anything else is named as damage, without a raw error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.format.stored_json import Name, Number, StoredForm, check_stored, parse_stored, plain, shown, whole_number
from penstock.log.limits import NAME_CHARS_MAX, NUMBER_MAX


class Form(StoredForm, frozen=True):
    format: int
    count: Number
    name: Name = ""


def parse(data: bytes | str) -> Form:
    return parse_stored(data, Form, what="a form", where="here", operation="read it", hint="mend it")


def test_what_has_the_form_is_read() -> None:
    form = Form(1, NUMBER_MAX, "ü")
    assert parse(json.dumps(plain(form))) == form
    assert check_stored(plain(form), Form, what="a form", where="here") == form


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "null",
        '{"format":1}',
        '{"format":1,"count":1,"more":1}',
        '{"format":1,"count":"1"}',
        '{"format":1,"count":1.0}',
        '{"format":1,"count":true}',
        '{"format":1,"count":-1}',
        '{"format":1,"count":NaN}',
        '{"format":1,"count":1e400}',
        f'{{"format":1,"count":{NUMBER_MAX + 1}}}',
        '{"format":1,"count":' + "9" * 5000 + "}",
        '{"format":1,"count":1} x',
        '{"format":1,"count":1,"name":"' + "x" * (NAME_CHARS_MAX + 1) + '"}',
        '{"format":1,"count":1,"name":"\\ud800"}',
        '{"format":1,"count":' + "[" * 100_000,
        '{"format":1,"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format":1,"\\u001b[31m' + "x" * 10_000 + '":1}',
        b'{"format":1,"count":1,"name":"\xff"}',
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
    ],
)
def test_anything_else_is_damage_that_says_what_it_is(data: bytes | str) -> None:
    with pytest.raises(DataDamaged) as caught:
        parse(data)
    error = caught.value
    assert (error.operation, error.object, error.expected, error.hint) == (
        "read it",
        "here",
        "a form in the form that Penstock writes",
        "mend it",
    )
    assert len(str(error)) < 500
    assert str(error).isprintable()


@pytest.mark.parametrize("data", ['{"format":2,"count":1}', '{"format":2,"new":[{}]}'])
def test_another_version_is_named_before_its_form(data: str) -> None:
    with pytest.raises(NewerFormatError, match="upgrade this process"):
        parse(data)


@pytest.mark.parametrize("value", [{"format": 1, "count": "1"}, {"format": 1, "count": 2**70}, [], "\ud800"])
def test_other_values_are_damage(value: Any) -> None:
    with pytest.raises(DataDamaged, match="here"):
        check_stored(value, Form, what="a form", where="here")


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", " 1", "1\n", "01", "١", "²", "9" * 20])
def test_a_number_has_one_spelling(text: str) -> None:
    assert whole_number(text) is None


def test_a_whole_number_is_read() -> None:
    assert [whole_number(text) for text in ("0", "7", "123456789")] == [0, 7, 123456789]


def test_what_is_shown_is_short_and_printable() -> None:
    assert shown("a\x1b\u2028\ud800") == "a\\x1b\\u2028\\ud800"
    assert len(shown("\x1b" * 1000)) == 200
