"""Files that users import from and export to: local ones, the standard streams, and all that fsspec knows."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Literal, NoReturn, Protocol, cast
from urllib.parse import unquote, urlsplit

from ..log.errors import NO_ROOM, NO_ROOM_HINT, InvalidArgument, PenstockError, PermissionDenied, StorageFull, StoreUnavailable

_OBJECT_STORES = {"s3", "gs", "az"}
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_BUFFER_BYTES = 1024 * 1024


def is_packed(url: str) -> bool:
    return plain_name(url) != _name(url)


def plain_name(url: str) -> str:
    """The name in small letters, without a URL's query and without ``.gz``; its end is the format's."""
    return _name(url).removesuffix(".gz")


def _name(url: str) -> str:
    return (url.partition("?")[0] if "://" in url else url).lower()


@contextmanager
def open_file(url: str, mode: Literal["rb", "wb"] = "rb") -> Iterator[BinaryIO]:
    """The bytes of a file to read (``rb``) or write (``wb``), for as long as the ``with`` block runs.

    ``url`` is a path, ``-`` for standard input or output, or any URL that fsspec opens (``https://…``, ``s3://…``). Names with ``.gz`` are unpacked
    or packed. A written file stands under its name only once the block has ended well; an error leaves the former file, if any.

    ``s3://``, ``gs://`` and ``az://`` go through obstore, with credentials from the environment; other schemes may need a package that the error
    names. Raises `InvalidArgument`, `PermissionDenied`, `StorageFull` and `StoreUnavailable`. Other errors of the block pass through.
    """
    try:
        target = _open_source(url) if mode == "rb" else _open_target(url)
    except Exception as error:  # noqa: BLE001 - every file system of fsspec has errors of its own
        _raise_translated(error, url, mode)
    try:
        if is_packed(url):
            if mode == "rb":
                _refuse_empty(target.file)
            with gzip.GzipFile(fileobj=target.file, mode=mode) as unpacked:
                yield cast("BinaryIO", unpacked)
        else:
            yield target.file
        target.finish()
    except BaseException as error:
        target.give_up()
        if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error) and is_packed(url):
            raise InvalidArgument("not a whole gzip file", operation="read", object=url, observed=str(error)) from error
        # A BrokenPipeError says that the reader of our output has seen enough. The program's outermost place handles it.
        if isinstance(error, Exception) and _is_files(error) and not isinstance(error, BrokenPipeError):
            _raise_translated(error, url, mode)
        raise


class _Opened(Protocol):
    @property
    def file(self) -> BinaryIO: ...

    def finish(self) -> None: ...

    def give_up(self) -> None:
        """Release the file, also after a failed `finish`. The written bytes must not be taken for a whole file."""
        ...


class _Stream:
    """A standard stream, which goes on; or a device, whose bytes cannot be taken back."""

    def __init__(self, file: BinaryIO, *, ours: bool = False) -> None:
        self.file = file
        self._ours = ours

    def finish(self) -> None:
        if self.file.writable():
            self.file.flush()
        if self._ours:
            self.file.close()

    def give_up(self) -> None:
        if self._ours:
            with suppress(OSError):  # the bytes that could not be written are known already
                self.file.close()


class _LocalTarget:
    """A local file, written beside its name and moved there at the end."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)  # a link stays a link
        folder, name = os.path.split(self._path)
        self._temporary = os.path.join(folder, f".{name}.{os.getpid()}.part")
        if not os.path.isdir(folder):
            raise InvalidArgument("there is no such folder", operation="write", object=path, hint=f"make it first: {folder}")
        if os.path.isdir(self._path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self.file: BinaryIO = open(self._temporary, "wb")  # noqa: SIM115 - closed by finish or give_up

    def finish(self) -> None:
        self.file.close()
        if os.path.exists(self._path):
            shutil.copymode(self._path, self._temporary)
        os.replace(self._temporary, self._path)

    def give_up(self) -> None:
        with suppress(OSError):  # the bytes that could not be written are known already
            self.file.close()
        if os.path.exists(self._temporary):
            os.unlink(self._temporary)


class _RemoteTarget:
    """A file of fsspec: closing completes it."""

    def __init__(self, files: Any, path: str) -> None:  # noqa: ANN401 - fsspec is not typed
        self._files = files
        self._path = path
        self.file = cast("BinaryIO", files.open(path, "wb"))

    def finish(self) -> None:
        self.file.close()

    def give_up(self) -> None:
        from fsspec.spec import AbstractBufferedFile

        file: Any = self.file
        if file.closed:
            return
        if isinstance(file, AbstractBufferedFile):
            file.closed = True  # otherwise the garbage collector would close, and so complete it
            file.discard()
        else:
            file.close()
            self._files.rm(self._path)


def _open_source(url: str) -> _Opened:
    if url == "-":
        return _Stream(_standard("input", sys.stdin))
    if (path := _local_path(url)) is not None:
        return _Stream(open(path, "rb"), ours=True)
    files, path = _file_system(url)
    if urlsplit(url).scheme in _OBJECT_STORES:
        # This reports a missing object cleanly: a file that failed to open complains again when it is garbage collected.
        files.info(path)
    # fsspec's files cannot read a line of limited length.
    return _Stream(cast("BinaryIO", io.BufferedReader(files.open(path, "rb"), _BUFFER_BYTES)), ours=True)


def _open_target(url: str) -> _Opened:
    if url == "-":
        return _Stream(_standard("output", sys.stdout))
    if (path := _local_path(url)) is None:
        return _RemoteTarget(*_file_system(url))
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        return _Stream(open(path, "wb"), ours=True)
    return _LocalTarget(path)


def _standard(name: str, stream: Any) -> BinaryIO:  # noqa: ANN401 - None where the process was started without it
    if stream is None:
        raise InvalidArgument(f"standard {name} is closed", operation="open a file", hint="name a file instead of -")
    return cast("BinaryIO", stream.buffer)


def _local_path(url: str) -> str | None:
    if "://" not in url:
        return os.path.expanduser(url)
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" and parts.netloc in {"", "localhost"} else None


def _file_system(url: str) -> tuple[Any, str]:
    scheme = urlsplit(url).scheme
    if scheme in _OBJECT_STORES:
        from obstore import fsspec as adapter

        make: Any = adapter.FsspecStore
        endpoint = next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), "")
        # This is not from fsspec's cache, whose instances have the endpoint of an earlier environment.
        return make(scheme, client_options={"allow_http": endpoint.startswith("http://")}, skip_instance_cache=True), url
    import fsspec

    files, path = fsspec.core.url_to_fs(url)
    return files, path


def _refuse_empty(file: BinaryIO) -> None:
    """Raise `EOFError` for an empty file, which gzip takes for a whole one."""
    if not cast("io.BufferedReader", file).peek(1):
        raise EOFError("the file is empty")


def _is_files(error: Exception) -> bool:
    """Whether the error is the file's, and not its user's."""
    from obstore.exceptions import BaseError

    return isinstance(error, OSError | BaseError)


def _raise_translated(error: Exception, url: str, mode: str) -> NoReturn:
    from obstore.exceptions import BaseError

    from ..log.stores.remote_errors import translate

    operation = "read" if mode == "rb" else "write"
    shown = url.partition("?")[0] if "://" in url else url  # a query may hold a signature
    observed = str(error).partition("\n")[0][:300]
    facts: dict[str, str] = {"operation": operation, "object": shown, "observed": observed}
    match error:
        case PenstockError():
            raise error
        case FileNotFoundError() if mode == "rb":
            raise InvalidArgument("there is no such file", **facts) from error
        case OSError() | BaseError() if urlsplit(url).scheme in _OBJECT_STORES:  # its writer makes every error an OSError
            raise translate(error, operation=operation, object=shown, bucket=shown, answered=False) from error
        case IsADirectoryError() | NotADirectoryError():
            raise InvalidArgument("not a file", **facts) from error
        case PermissionError():
            raise PermissionDenied("the file may not be opened", **facts) from error
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            raise StorageFull(NO_ROOM, hint=NO_ROOM_HINT, **facts) from error
        case ImportError():
            raise InvalidArgument("this kind of URL needs another package", hint="Install it with pip", **facts) from error
        case ValueError():
            raise InvalidArgument("not a file's URL", **facts) from error
        case _:
            raise StoreUnavailable("the file could not be reached", **facts) from error
