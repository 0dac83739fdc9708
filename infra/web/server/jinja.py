"""Jinja2 with everything escaped, and foreign text made visible."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ...operating.groups import work_facts
from ...operating.life import DELAYS, redrive_text, times_text
from ...terminal.output import size_text
from .. import texts
from ..views.charts import polyline

ROOM = Path(__file__).parent.parent
STATIC = ROOM / "static"


def environment() -> Environment:
    """Templates with readable values. ``| exact`` only escapes, for attributes of forms and scripts."""
    made = Environment(
        loader=FileSystemLoader(ROOM / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "exact": exact,
        "size": lambda value: "-" if value is None else size_text(value),
        "percent": lambda value: "-" if value is None else f"{100 * value:.1f} %",
        "short": shortened,
        "conditions": conditions,
        "few": few,
        "fitting": fitting,
        "delay": DELAYS.__getitem__,
        "redrive": redrive_text,
        "work_facts": work_facts,
        "steps": polyline,
        "times": times_text,
        "words": lambda value: str(value).replace("_", " "),
    }
    return made


def _printed(value: object) -> object:
    if hasattr(value, "__html__"):
        return value
    return time_tag(value) if isinstance(value, datetime) else texts.value_text(value)


def time_tag(time: datetime, live: str | None = None) -> Markup:
    place = Markup(' data-live="{}"').format(live) if live is not None else ""
    stated = time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}"{}>{}</time>').format(stated, place, texts.time_text(time))


def exact(value: object) -> Markup:
    return escape("" if value is None else str(value))


def shortened(text: object, chars: int = 40) -> str:
    whole = texts.value_text(text)
    return whole if len(whole) <= chars else f"{whole[: chars - 1]}…"


class FittedText(Markup):
    """Escaped text that fits a page, and whether it is cut."""

    is_cut = False


def fitting(text: str, size: int) -> FittedText:
    """The beginning of a foreign text that takes at most so many bytes of the page."""
    pieces: list[str] = []
    for line in text.splitlines(keepends=True):
        piece = str(escape(texts.visible(line)))
        taken = len(piece.encode())
        if taken > size:
            found = FittedText("".join(pieces) + _beginning(texts.visible(line), size) + "…")
            found.is_cut = True
            return found
        pieces.append(piece)
        size -= taken
    return FittedText("".join(pieces))


def _beginning(shown: str, size: int) -> str:
    """The beginning of a text whose escaped form is larger than this."""
    kept = size
    while (taken := len((piece := str(escape(shown[:kept]))).encode())) > size:
        kept = min(kept - 1, kept * size // taken)
    return piece


def few(values: Mapping[str, str], chars: int) -> list[tuple[str, str]]:
    """The first of properties that take about so many characters of the page; an ellipsis stands for others."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        chars -= 50 + min(len(name), 40) + min(len(value), 80)
        if chars < 0:
            return [*found, ("…", f"{len(values) - len(found)} more")]
        found.append((name, value))
    return found


def conditions(query: Mapping[str, object], defaults: Mapping[str, object] | None = None) -> dict[str, object]:
    """A query's conditions, without its place and what is by default."""
    ordinary = {} if defaults is None else defaults
    found = {name: value for name, value in query.items() if name not in ("start", "before", "after")}
    return {name: value for name, value in found.items() if value is not None and value != ordinary.get(name)}


def live_tag(values: Mapping[str, object], key: str) -> Markup:
    """The place of a live value."""
    value = values[key]
    if isinstance(value, datetime):
        return time_tag(value, key)
    return Markup('<span data-live="{}">{}</span>').format(key, texts.value_text(value))


def live_document(values: Mapping[str, object]) -> dict[str, Any]:
    """The live values of a page: texts, times, and lines of charts."""
    return {key: _live_value(value) for key, value in values.items()}


def _live_value(value: object) -> object:
    match value:
        case datetime():
            return {"time": value.astimezone(UTC).isoformat(), "text": texts.time_text(value)}
        case tuple():
            return {"lines": list(value)}
        case _:
            return texts.value_text(value)
