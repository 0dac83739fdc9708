"""The store protocol, its backends, and wrappers that slow, break and count."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .counting import CountingStore as CountingStore
    from .counting import StoreStatistics as StoreStatistics
    from .counting import VerbStatistics as VerbStatistics
    from .faults import Fault as Fault
    from .faults import FaultKind as FaultKind
    from .faults import FaultPlan as FaultPlan
    from .faults import FaultStore as FaultStore
    from .faults import random_faults as random_faults
    from .faults import scripted_faults as scripted_faults
    from .latency import S3_STANDARD as S3_STANDARD
    from .latency import Latency as Latency
    from .latency import LatencyProfile as LatencyProfile
    from .latency import LatencyStore as LatencyStore
    from .local import LocalStore as LocalStore
    from .memory import MemoryStore as MemoryStore
    from .memory import join as join
    from .open import open_store as open_store
    from .probe import probe_conditional_writes as probe_conditional_writes
    from .protocol import Buffer as Buffer
    from .protocol import Conflict as Conflict
    from .protocol import IfMatch as IfMatch
    from .protocol import ObjectInfo as ObjectInfo
    from .protocol import ObjectMissing as ObjectMissing
    from .protocol import ObjectStore as ObjectStore
    from .protocol import Put as Put
    from .protocol import PutMode as PutMode
    from .protocol import StoredObject as StoredObject
    from .protocol import Version as Version
    from .wrapper import StoreCall as StoreCall
    from .wrapper import StoreWrapper as StoreWrapper
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
