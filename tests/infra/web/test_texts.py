"""Foreign text on a page: harmless, and nothing of it unseen."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.infra.json_values import json_value
from penstock.infra.operating.bodies import BodyKind, body_of, body_of_message, body_preview
from penstock.infra.web.faults import PagePart
from penstock.infra.web.json_schemas import JsonSchemas
from penstock.infra.web.server.jinja import environment
from penstock.infra.web.texts import BODY_SHOWN_BYTES, value_text, visible
from penstock.infra.web.views.charts import ChartValue
from penstock.log import MessageView
from penstock.log.errors import InternalError


def drawn(template: str, **values: object) -> str:
    return environment().from_string(template).render(**values)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain — ünï ☃ 順", "plain — ünï ☃ 順"),
        ("\x1b[31mred\x07\x00", "␛[31mred␇␀"),
        ("a\u202eb\u2066c\u200f", "a[U+202E]b[U+2066]c[U+200F]"),
        ("zero\u200bwidth\ufeff", "zero[U+200B]width[U+FEFF]"),
        ("\x7f\x85\u2028", "␡[U+0085][U+2028]"),
        ("lone \ud800", "lone [U+D800]"),
        ("\u3164\u2800a\U000e0101", "[U+3164][U+2800]a[U+E0101]"),
        ("a\ufe00\ufe0f❤\ufe0f\U000e01ef", "a[U+FE00][U+FE0F]❤[U+FE0F][U+E01EF]"),
        ("\U0001d159\U00016fe4", "[U+1D159][U+16FE4]"),
        ("two\nlines\tand a tab\r", "two\nlines\tand a tab␍"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, seen: str) -> None:
    assert visible(text) == seen
    assert drawn("{{ text }}", text=text) == seen


def test_nothing_that_unicode_lets_be_left_out_is_left_unseen() -> None:
    """Unicode's characters that count as ignorable (DerivedCoreProperties.txt, Default_Ignorable_Code_Point): all are drawn as nothing."""
    ignorable = "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8"
    spans = [one.partition("-") for one in f"{ignorable} 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF".split()]
    points = [point for first, _, last in spans for point in range(int(first, 16), int(last or first, 16) + 1)]
    assert [f"{point:04X}" for point in points if visible(chr(point)) != f"[U+{point:04X}]"] == []


def test_everything_that_is_printed_is_escaped() -> None:
    assert drawn("<p title='{{ text }}'>{{ text }}</p>", text="<script>'\"&") == (
        "<p title='&lt;script&gt;&#39;&#34;&amp;'>&lt;script&gt;&#39;&#34;&amp;</p>"
    )
    assert drawn('<input value="{{ text | exact }}">', text='"\u202e>') == '<input value="&#34;\u202e&gt;">'


def test_values_are_shown_as_people_read_them() -> None:
    at = datetime(2026, 1, 31, 13, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    assert drawn("{{ at }}", at=at) == '<time datetime="2026-01-31T12:00:05.000Z">2026-01-31 12:00:05Z</time>'
    assert [value_text(value) for value in (None, True, 1234567, 0.25, timedelta(days=3, hours=2, minutes=1))] == [
        "-",
        "yes",
        "1,234,567",
        "0.2",
        "3d 2h",
    ]


def test_bodies_of_any_bytes_are_shown_and_large_ones_cut() -> None:
    assert body_preview('{"a": "ü"}'.encode(), most=BODY_SHOWN_BYTES) == ('{"a": "ü"}', True, True)
    assert body_preview(b"\xff\x00\x10", most=BODY_SHOWN_BYTES) == ("ff 00 10", False, True)
    text, _, is_whole = body_preview("ü".encode() * 2**21, most=BODY_SHOWN_BYTES)
    assert (len(text), is_whole) == (2**15, False)
    text, _, is_whole = body_preview(b"\xff" * 4 * 2**20, most=BODY_SHOWN_BYTES)
    assert len(text) < 2**17
    assert not is_whole
    shown = body_of(b"<script>alert(1)</script>" + b"x" * 4 * 2**20, most=BODY_SHOWN_BYTES)
    page = drawn("{% import 'bodies.html' as bodies %}{{ bodies.text(shown) }}", shown=shown)
    assert page.startswith('<pre class="body">&lt;script&gt;')
    assert len(page) < 2**17


def test_two_dataclasses_of_one_name_are_refused_among_the_schemas() -> None:
    """Programs would be told that the one looks like the other."""
    schemas = JsonSchemas()
    assert schemas.of(PagePart[ChartValue]) == schemas.of(PagePart[ChartValue])
    other = make_dataclass("ChartValue", [("text", str)])
    for kind in (other, PagePart[other]):  # type: ignore[valid-type]
        with pytest.raises(InternalError, match="two dataclasses have the same name"):
            schemas.of(kind)


def test_documents_name_seconds_and_keep_bytes() -> None:
    assert json_value(datetime(2026, 7, 1, 12, tzinfo=UTC).replace(tzinfo=None)) == "2026-07-01T12:00:00", "as a database has it"
    assert json_value({"at": datetime(2026, 1, 1, tzinfo=UTC), "data": b"\xff", "rows": (1, None)}) == {
        "at": "2026-01-01T00:00:00+00:00",
        "data": "/w==",
        "rows": [1, None],
    }


@pytest.mark.parametrize(("body", "kind"), [(None, BodyKind.TOMBSTONE), (b"", BodyKind.EMPTY)])
def test_a_tombstone_is_no_empty_body(body: bytes | None, kind: BodyKind) -> None:
    message = cast("MessageView", SimpleNamespace(body=body, value=None, content=body or b""))
    assert body_of_message(message, most=None).kind is kind
