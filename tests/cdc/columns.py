"""Columns of targets with their types as text."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.cdc.events.target_types import parse_target_type
from penstock.cdc.target import TargetColumn
from penstock.log.schema.fields import FieldType


def target_column(name: str, type_text: str) -> TargetColumn:
    return TargetColumn(name, parse_target_type(type_text))


def target_types(texts: Mapping[str, str]) -> dict[str, FieldType]:
    return {name: parse_target_type(text) for name, text in texts.items()}
