"""Any request of Kafka's protocol as clients encode it, by kafka-python's definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer, sasl

from penstock.gateway.kafka.wire.apis import APIS, ApiKey

_ROOMS = (admin, consumer, metadata, producer, sasl)


def message_class(key: ApiKey, kind: str) -> Any:
    """kafka-python's class of an API's ``Request`` or ``Response``."""
    name = f"{APIS[key].name}{kind}"
    return next(getattr(room, name) for room in _ROOMS if hasattr(room, name))


def made(kind: Any, version: int, fields: Mapping[str, Any]) -> Any:
    """A message of these fields, as far as its version has them."""
    values = {}
    for name, value in fields.items():
        field = kind.fields[name]
        if not field.for_version_q(version):
            continue
        is_structs = field.is_struct_array() and isinstance(value, list)
        values[name] = [made(field.data_class, version, one) for one in value] if is_structs else value
    return kind(version=version, **values)
