"""Parquet files with a seal: hashes of data pages and footer, in a footer value of fixed length.

A reader of the whole file checks both, so a change of any byte is found. Parquet's page checksums guard readers that fetch single pages.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from ..errors import DataDamaged, ForeignObject, PenstockError
from ..limits import MIB
from ..message.columns import fits_file, slim, whole
from .digest import digest
from .stored_json import shown

_SEAL = b"penstock.seal"
_HALF = 32
_BLANK = b"0" * (2 * _HALF)
UNSEALED = {_SEAL.decode(): _BLANK.decode()}
MAGIC = b"PAR1"
_TEXT, _END = 0x18, 0x00
"""Bytes of Thrift's compact protocol: the next field is a text, whose length follows; the struct ends."""
ROW_GROUP_ROWS = 64 * 1024
_PACKED_BYTES_MIN = 8 * 1024
"""Fewer bytes of rows are written as they are: setting up zstd for each column takes as long as all else."""
ROWS_BYTES_MIN = 256 * MIB
ROWS_BYTES_RATIO = 4096
"""The most memory for rows, as a multiple of the file's bytes; at least `ROWS_BYTES_MIN`. Rows that are all alike take 1,000 times."""
_VALUE_BYTES = 8
PARQUET_ERRORS = (OSError, pa.ArrowException, UnicodeDecodeError)
_DICTIONARY_COLUMNS = ["queue", "message_group", "tag", "producer"]


def write_file(table: pa.Table, footer: Mapping[str, str]) -> bytes:
    """Rows as a sealed Parquet file with these footer values, without empty columns (`slim`)."""
    table = slim(table)
    sink = pa.BufferOutputStream()
    is_packed = table.nbytes >= _PACKED_BYTES_MIN
    columns = [name for name in _DICTIONARY_COLUMNS if is_packed and name in table.column_names]
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="zstd" if is_packed else "none",
        compression_level=1 if is_packed else None,
        use_dictionary=columns,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        writer.add_key_value_metadata({**footer, **UNSEALED})
    return seal(sink.getvalue())


def seal(written: pa.Buffer | bytes) -> bytes:
    file = bytearray(written)
    start = _footer_start(file, "a new file")
    at = _seal_at(file, start, "a new file")
    file[at : at + _HALF] = digest(memoryview(file)[:start]).encode()
    file[at + _HALF : at + 2 * _HALF] = digest(memoryview(file)[start:]).encode()
    return bytes(file)


def read_footer(file: bytes, *, where: str) -> dict[str, str]:
    """The footer values of a whole file. Raises `DataDamaged`, also where the seal is broken, or `ForeignObject`."""
    check_seal(file, where=where)
    return _footer_values(file, where)


def read_value(file: bytes, key: str, *, where: str) -> str | None:
    """One footer value of a whole file; None: there is none. Raises as `read_footer`.

    Every append and every fold of an entry reads one. Parquet's own reading of a footer, with all columns, takes ten times as long.
    """
    start = check_seal(file, where=where)
    before = bytes((_TEXT, len(key))) + key.encode() + bytes((_TEXT,))
    found = file.rfind(before, start)
    if found < 0:
        return _footer_values(file, where).get(key)
    at, size, shift = found + len(before), 0, 0
    while (byte := file[at]) & 0x80:
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    size |= byte << shift
    end = at + 1 + size
    if end >= len(file) or file[end] != _END:
        return _footer_values(file, where).get(key)
    return file[at + 1 : end].decode()


def read_footer_alone(file: bytes, *, where: str) -> dict[str, str]:
    """The footer values of a file whose rows may be damaged, or of its last part. Raises `DataDamaged`."""
    if len(file) < 12 or file[-4:] != MAGIC or (size := int.from_bytes(file[-8:-4], "little") + 8) > len(file):
        raise ForeignObject("not a Parquet file, or cut off", object=where, observed=f"{len(file)} bytes")
    check_footer(memoryview(file)[-size:], where=where)
    return _footer_values(MAGIC + file[-size:], where)


def _footer_values(file: bytes, where: str) -> dict[str, str]:
    try:
        metadata = pq.read_metadata(pa.BufferReader(file)).metadata or {}
        return {key.decode(): value.decode() for key, value in metadata.items()}
    except PARQUET_ERRORS as error:
        raise DataDamaged("the footer cannot be read", object=where, observed=shown(error)) from error


def read_rows(file: bytes, *, where: str, columns: list[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """The rows of a file whose seal was checked. With ``schema``, the file must have its columns and types, and valid text; left-out columns are
    NULL, ``value`` is a struct of any type.

    Raises `DataDamaged`, also where rows are stated to be too large, before memory is taken for them.
    """
    rows = read_stored(file, where=where, columns=columns, schema=schema)
    return rows if schema is None else checked_rows(rows, where=where, schema=schema)


def read_stored(file: bytes, *, where: str, columns: list[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """`read_rows` before `checked_rows`: the columns that the file has, with values that nobody has looked at."""
    try:
        parquet = pq.ParquetFile(pa.BufferReader(file), page_checksum_verification=True)
        if schema is not None and not fits_file(parquet.schema_arrow, schema):
            raise DataDamaged(
                "the file has other columns",
                object=where,
                expected=_columns(schema),
                observed=shown(_columns(parquet.schema_arrow)),
            )
        _check_size(parquet.metadata, len(file), where)
        return parquet.read(columns=columns, use_threads=False)
    except PARQUET_ERRORS as error:
        raise _unreadable(where, error) from error


def checked_rows(rows: pa.Table, *, where: str, schema: pa.Schema) -> pa.Table:
    """Rows of `read_stored` with all columns of ``schema``, and valid values. Raises `DataDamaged`."""
    try:
        rows.validate(full=True)
        return whole(rows, schema)
    except PARQUET_ERRORS as error:
        raise _unreadable(where, error) from error


def _unreadable(where: str, error: Exception) -> DataDamaged:
    return DataDamaged("the file cannot be read", object=where, observed=shown(error))


def _check_size(metadata: pq.FileMetaData, size_bytes: int, where: str) -> None:
    """Raise for rows that need far more memory than Penstock's own in so few bytes."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    needed = rows * metadata.num_columns * _VALUE_BYTES + sum(group.total_byte_size for group in groups)
    limit = max(ROWS_BYTES_MIN, ROWS_BYTES_RATIO * size_bytes)
    if min((group.num_rows for group in groups), default=0) < 0 or rows != metadata.num_rows or not 0 <= needed <= limit:
        raise DataDamaged(
            "the file claims rows that it cannot hold",
            object=where,
            expected=f"at most {limit} bytes of rows",
            observed=f"{rows} rows, {needed} bytes",
        )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(map(str, schema))


def check_seal(file: bytes, *, where: str) -> int:
    """Raise unless every byte is as it was written. Returns where the footer starts."""
    start = _footer_start(file, where)
    at = _seal_at(file, start, where)
    if digest(memoryview(file)[:start]).encode() != bytes(file[at : at + _HALF]):
        raise _damaged("the rows are not what was written", where)
    check_footer(memoryview(file)[start:], where=where)
    return start


def check_footer(footer: bytes | memoryview, *, where: str) -> None:
    at = _seal_at(bytes(footer), 0, where)
    hasher = xxhash.xxh3_128()
    hasher.update(footer[: at + _HALF])
    hasher.update(_BLANK[_HALF:])
    hasher.update(footer[at + 2 * _HALF :])
    if hasher.hexdigest().encode() != bytes(footer[at + _HALF : at + 2 * _HALF]):
        raise _damaged("the footer is not what was written", where)


def _footer_start(file: bytes | bytearray, where: str) -> int:
    if len(file) < 12 or bytes(file[:4]) != MAGIC or bytes(file[-4:]) != MAGIC:
        raise ForeignObject("not a Parquet file, or cut off", object=where, observed=f"{len(file)} bytes")
    start = len(file) - 8 - int.from_bytes(file[-8:-4], "little")
    if start < 4:
        raise _damaged("the footer's length is wrong", where)
    return start


def _seal_at(file: bytes | bytearray, start: int, where: str) -> int:
    """The position of the seal's value, behind key, type byte and length byte (Thrift's compact protocol)."""
    found = file.rfind(_SEAL, start)
    at = found + len(_SEAL) + 2
    if found < 0 or at + 2 * _HALF > len(file):
        raise ForeignObject("a Parquet file without a seal: not Penstock's, or damaged", object=where)
    return at


def _damaged(message: str, where: str) -> PenstockError:
    return DataDamaged(message, object=where, hint="`penstock verify` shows what is affected")
