"""Answers that fit: bodies and properties are cut, and say so. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..json_schemas import Json

_LIMITS = (4096, 2048, 1024, 512, 256, 128, 32)
_CUT = "… (cut: {} of {} characters)"


def fitted(answer: Json, text_of: Callable[[Json], str], chars_max: int) -> tuple[Json, str]:
    """An answer and its text, with bodies and properties cut as far as it must be. It may be too long nevertheless."""
    text = text_of(answer)
    for limit in _LIMITS:
        if len(text) <= chars_max:
            break
        answer = _cut(answer, limit)
        text = text_of(answer)
    return answer, text


def _cut(value: Any, limit: int) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_cut(one, limit) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() >= {"size_bytes", "text", "is_whole"}:
        return value if len(value["text"]) <= limit else {**value, "text": value["text"][:limit], "is_whole": False}
    return {name: _cut_values(one, limit) if name == "properties" else _cut(one, limit) for name, one in value.items()}


def _cut_values(found: Any, limit: int) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(found, dict):
        return _cut(found, limit)
    return {name: _shortened(one, limit) if isinstance(one, str) else one for name, one in found.items()}


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + _CUT.format(limit, len(text))
