"""The store protocol, its backends, and wrappers that slow, break and count."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .counting import CountingStore, StoreStatistics, VerbStatistics
    from .faults import Fault, FaultKind, FaultPlan, FaultStore, random_faults, scripted_faults
    from .latency import S3_STANDARD, Latency, LatencyProfile, LatencyStore
    from .local import LocalStore
    from .memory import MemoryStore, join
    from .open import open_store
    from .probe import probe_conditional_writes
    from .protocol import (
        Buffer,
        Conflict,
        IfMatch,
        ObjectInfo,
        ObjectMissing,
        ObjectStore,
        Put,
        PutMode,
        StoredObject,
        Version,
    )
    from .wrapper import StoreCall, StoreWrapper

__all__ = [
    "S3_STANDARD",
    "Buffer",
    "Conflict",
    "CountingStore",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultStore",
    "IfMatch",
    "Latency",
    "LatencyProfile",
    "LatencyStore",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "ObjectMissing",
    "ObjectStore",
    "Put",
    "PutMode",
    "StoreCall",
    "StoreStatistics",
    "StoreWrapper",
    "StoredObject",
    "VerbStatistics",
    "Version",
    "join",
    "open_store",
    "probe_conditional_writes",
    "random_faults",
    "scripted_faults",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".counting": ["CountingStore", "StoreStatistics", "VerbStatistics"],
            ".faults": ["Fault", "FaultKind", "FaultPlan", "FaultStore", "random_faults", "scripted_faults"],
            ".latency": ["S3_STANDARD", "Latency", "LatencyProfile", "LatencyStore"],
            ".local": ["LocalStore"],
            ".memory": ["MemoryStore", "join"],
            ".open": ["open_store"],
            ".probe": ["probe_conditional_writes"],
            ".protocol": [
                "Buffer",
                "Conflict",
                "IfMatch",
                "ObjectInfo",
                "ObjectMissing",
                "ObjectStore",
                "Put",
                "PutMode",
                "StoredObject",
                "Version",
            ],
            ".wrapper": ["StoreCall", "StoreWrapper"],
        },
    )
