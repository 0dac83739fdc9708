"""Files that users import from and export to: local ones, the standard streams, and whatever fsspec knows."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal, NoReturn, cast
from urllib.parse import urlsplit

from ..log.errors import InvalidArgument, PermissionDenied, StorageFull, StoreUnavailable

_OBJECT_STORES = {"s3", "gs", "az"}
_BUFFER_BYTES = 1024 * 1024


@contextmanager
def open_file(url: str, mode: Literal["rb", "wb"] = "rb") -> Iterator[BinaryIO]:
    """The bytes of a file to read (``rb``) or write (``wb``), for as long as the ``with`` block.

    ``url`` is a path, ``-`` for standard input or output, or any URL that fsspec opens (``https://…``, ``s3://…``). A name that
    ends with ``.gz`` is unpacked or packed on the way. What is written is complete only when the block has ended.

    ``s3://``, ``gs://`` and ``az://`` go through obstore, with credentials from the environment; other schemes may need a package
    that the error names. Raises `InvalidArgument` when there is no such file, scheme or package or it is no gzip file,
    `PermissionDenied`, `StorageFull`, and `StoreUnavailable` when it cannot be reached. Other errors of the block pass through.
    """
    try:
        raw = _open_raw(url, mode)
    except Exception as error:  # noqa: BLE001 - every file system of fsspec has errors of its own
        _raise_translated(error, url, mode)
    try:
        if url.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw, mode=mode) as unpacked:
                yield cast("BinaryIO", unpacked)
        else:
            yield raw
        if mode == "wb":
            raw.flush()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        if not url.endswith(".gz"):
            raise
        raise InvalidArgument("not a whole gzip file", operation="read", object=url, observed=str(error)) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough, which is the program's matter
            raise
        _raise_translated(error, url, mode)
    finally:
        if url != "-":  # the standard streams are the process's, and go on
            raw.close()


def _open_raw(url: str, mode: Literal["rb", "wb"]) -> BinaryIO:
    if url == "-":
        return sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
    parts = urlsplit(url) if "://" in url else None
    if parts is None:
        return open(os.path.expanduser(url), mode)
    import fsspec

    if parts.scheme in _OBJECT_STORES:
        from obstore import fsspec as adapter

        make: Any = adapter.FsspecStore
        plain = os.environ.get("AWS_ENDPOINT_URL_S3", "").startswith("http://")
        files = make(parts.scheme, client_options={"allow_http": plain})
        if mode == "rb":
            files.info(url)  # says cleanly what is missing; a file that failed to open complains again when it is collected
        return _buffered(files.open(url, mode), mode)
    return _buffered(fsspec.open(url, mode).open(), mode)


def _buffered(file: Any, mode: str) -> BinaryIO:  # noqa: ANN401 - fsspec is not typed
    """A file with all that files have: those of fsspec cannot read a line of limited length."""
    return cast("BinaryIO", io.BufferedReader(file, _BUFFER_BYTES) if mode == "rb" else file)


def _raise_translated(error: Exception, url: str, mode: str) -> NoReturn:
    operation = "read" if mode == "rb" else "write"
    shown = url.partition("?")[0]  # a query may hold a signature
    observed = str(error).partition("\n")[0][:300]
    facts: dict[str, str] = {"operation": operation, "object": shown, "observed": observed}
    match error:
        case FileNotFoundError():
            raise InvalidArgument("there is no such file", **facts) from error
        case IsADirectoryError() | NotADirectoryError():
            raise InvalidArgument("not a file", **facts) from error
        case PermissionError():
            raise PermissionDenied("the file may not be opened", **facts) from error
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            raise StorageFull("no room left for the file", hint="Free some space", **facts) from error
        case ImportError():
            raise InvalidArgument("this kind of URL needs another package", hint="Install it with pip", **facts) from error
        case ValueError():
            raise InvalidArgument("not a file's URL", **facts) from error
        case _:
            raise StoreUnavailable("the file could not be reached", **facts) from error
