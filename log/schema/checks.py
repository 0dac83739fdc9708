"""Checks for values that Arrow would store and readers could not show."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..limits import TIME_MAX_MS, TIME_MIN_US

_TIME_MAX_US = TIME_MAX_MS * 1000 + 999
_DAYS_MIN, _DAYS_MAX = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))


def checked_years(values: pa.Array) -> pa.Array:
    """Raises `OverflowError` for dates and times outside of the years 1 to 9999."""
    if pa.types.is_timestamp(values.type):
        numbers, least, most = values.view(pa.int64()), TIME_MIN_US, _TIME_MAX_US
    elif pa.types.is_date32(values.type):
        numbers, least, most = values.view(pa.int32()), _DAYS_MIN, _DAYS_MAX
    else:
        return values
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and (found["min"] < least or found["max"] > most):
        raise OverflowError("outside of the years 1 to 9999")
    return values


def repeated_keys(keys: pa.Array, owners: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The places of keys that their map has already. ``owners`` are the keys' maps."""
    encoded = keys.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1), np.int64) + 1
    first = np.unique(owners * (len(encoded.dictionary) + 1) + codes, return_index=True)[1]
    return np.delete(np.arange(len(keys)), first)
