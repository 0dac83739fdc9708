"""Text of others, spelt out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.log.escapes import escaped, escaped_json


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_steers_and_json_says_the_same(text: str) -> None:
    assert escaped(text).isprintable()
    document = escaped_json(json.dumps({"a": text, text: [text]}, ensure_ascii=False))
    assert json.loads(document) == {"a": text, text: [text]}
    document.encode()  # half characters too
    assert not {*"\x1b\x7f\x80\x9b\x9f\u200e\u2028\u2029\u202a\u202e\u2066\u2069\n\r"} & {*document}


def test_what_is_printable_stays() -> None:
    assert escaped("Grüße, 日本") == "Grüße, 日本"
    assert escaped("a\nb\x1b\u202e") == "a\\nb\\x1b\\u202e"
