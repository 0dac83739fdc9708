"""A store over obstore: S3 and what speaks S3, Google Cloud Storage, Azure Blob Storage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import obstore

from ..errors import ClosedError, ForkedError, PenstockError, PermissionDenied
from ..runtime.runtime import Runtime
from .memory import join
from .protocol import (
    PART_BYTES,
    Buffer,
    Conflict,
    IfMatch,
    ObjectInfo,
    ObjectMissing,
    Put,
    PutMode,
    StoredObject,
    Version,
    check_key,
    check_prefix,
)
from .refusals import RENEWED_EVERY_S
from .remote_errors import translate

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import AzureStore, GCSStore, S3Store

    Client = S3Store | GCSStore | AzureStore

T = TypeVar("T")

_PARTS_AT_ONCE = 4
_LIST_CHUNK = 1000


class RemoteStore:
    """Objects under a prefix of a bucket, made by `open_store`.

    ``reader`` retries passing faults, ``writer`` tries once. A big conditional write that loses may break its connection: `StoreUnavailable`, outcome
    unknown. An interrupted `put_large` may leave hidden parts, for a lifecycle rule of the bucket.

    Network threads do not survive a fork: in a child every call raises `ForkedError`.
    """

    def __init__(
        self,
        url: str,
        *,
        reader: Client,
        writer: Client,
        runtime: Runtime,
        renew: Callable[[], tuple[Client, Client]] | None = None,
    ) -> None:
        """``renew`` makes both clients anew when credentials are refused."""
        self._renew = renew
        self._renewed_s = -RENEWED_EVERY_S
        self._url = url
        self._bucket = url.partition("?")[0]
        self._reader = reader
        self._writer = writer
        self._runtime = runtime
        self._pid = os.getpid()
        self._answered = False
        self._closed = False

    @property
    def url(self) -> str:
        return self._url

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        check_key(key)
        conditional = mode is not Put.REPLACE
        with self._request("put", key, conditional=conditional):
            done = await obstore.put_async(self._writer, key, join(data), mode=_mode(mode), use_multipart=False)
        return _version(done["e_tag"], done["version"])

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        check_key(key)
        body: Buffer | Iterator[Buffer]
        if isinstance(data, bytes | bytearray | memoryview):
            body = data
        else:
            # Pieces always go as a multipart upload, which costs three requests and more.
            body = iter(data) if sum(len(piece) for piece in data) > PART_BYTES else join(data)
        with self._request("put", key):
            await obstore.put_async(self._reader, key, body, chunk_size=PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    async def get(self, key: str) -> StoredObject:
        check_key(key)
        with self._request("get", key):
            found = await obstore.get_async(self._reader, key)
            data = (await found.bytes_async()).to_bytes()
            meta = found.meta
            return StoredObject(data, _version(meta["e_tag"], meta["version"]), _milliseconds(meta["last_modified"]))

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        check_key(key)
        with self._request("get", key):
            try:
                if start < 0:
                    found = await obstore.get_async(self._reader, key, options={"range": {"suffix": -start}})
                    return (await found.bytes_async()).to_bytes()
                if start < limit:
                    return (await obstore.get_range_async(self._reader, key, start=start, end=limit)).to_bytes()
                await obstore.head_async(self._reader, key)
            except obstore.exceptions.GenericError as error:
                if "non-partial response" in str(error):
                    # Some stores answer this for an empty object, which has no last bytes.
                    data = (await (await obstore.get_async(self._reader, key)).bytes_async()).to_bytes()
                    return data[start:] if start < 0 else data[start:limit]
                if "status code: 416" not in str(error):  # the range lies beyond the end
                    raise
        return b""

    async def list_folders(self, prefix: str) -> Sequence[str]:
        check_prefix(prefix)
        with self._request("list", prefix):
            listed = await obstore.list_with_delimiter_async(self._reader, prefix.rstrip("/") or None)
        return sorted(path.rstrip("/").rpartition("/")[2] for path in listed["common_prefixes"])

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        check_prefix(prefix)
        found: list[ObjectInfo] = []
        if max_keys is not None and max_keys <= 0:
            return found
        folder = prefix.rpartition("/")[0]
        start = max(filter(None, (after, _just_below(prefix, folder))), default=None)
        chunk = min(max_keys or _LIST_CHUNK, _LIST_CHUNK)
        sorted_so_far, last = True, ""
        with self._request("list", prefix):
            async for metas in obstore.list(self._reader, folder or None, offset=start, chunk_size=chunk):
                for meta in metas:
                    key = meta["path"]
                    sorted_so_far, last = sorted_so_far and key > last, key
                    if key.startswith(prefix) and (after is None or key > after):
                        found.append(ObjectInfo(key, meta["size"], _milliseconds(meta["last_modified"]), meta["e_tag"] or ""))
                # Some stores list in no order. Then only the end of the list tells that nothing is missing.
                enough = max_keys is not None and len(found) >= max_keys
                if sorted_so_far and (enough or (last > prefix and not last.startswith(prefix))):
                    break
        found.sort(key=lambda info: info.key)
        return found[:max_keys]

    async def delete(self, key: str) -> None:
        check_key(key)
        with suppress(ObjectMissing), self._request("delete", key):
            await obstore.delete_async(self._writer, key)

    async def clock_ms(self) -> int:
        """The Last-Modified of an object written now.

        Stores cut it to the second. The middle of that second is returned: ages computed with it are between half a second too small and 1.5 s too
        large, plus the requests' time.
        """
        key = f".clock/{self._runtime.new_id()}"
        await self.put(key, b"", mode=Put.REPLACE)
        try:
            with self._request("head", key):
                written = (await obstore.head_async(self._reader, key))["last_modified"]
        finally:
            with suppress(PenstockError):  # what is left is a few bytes under a name that nothing reads
                await self.delete(key)
        return _milliseconds(written) + (0 if written.microsecond else 500)

    async def close(self) -> None:
        self._closed = True

    @contextmanager
    def _request(self, operation: str, key: str, *, conditional: bool = False) -> Iterator[None]:
        if self._closed:
            raise ClosedError("the store is closed", operation=operation, object=key)
        if os.getpid() != self._pid:
            raise ForkedError("the store was opened before this process was forked", hint="Open the lake in the child")
        try:
            yield
        except PenstockError:
            raise
        except (obstore.exceptions.BaseError, OSError, ValueError) as error:
            meant = translate(
                error,
                operation=operation,
                object=f"{self._bucket}/{key}",
                bucket=self._bucket,
                conditional=conditional,
                answered=self._answered,
            )
            self._answered |= isinstance(meant, Conflict | ObjectMissing)
            if isinstance(meant, PermissionDenied):
                self._read_credentials_again()
            raise meant from error
        self._answered = True

    def _read_credentials_again(self) -> None:
        now_s = self._runtime.clock.monotonic_s()
        if self._renew is not None and self._answered and now_s - self._renewed_s >= RENEWED_EVERY_S:
            self._renewed_s = now_s
            with suppress(obstore.exceptions.BaseError, OSError, ValueError):  # there are none now: the next refusal looks again
                self._reader, self._writer = self._renew()


def _mode(mode: PutMode) -> obstore.PutMode:
    if isinstance(mode, IfMatch):
        e_tag, _, version = mode.version.token.partition("\n")
        known: UpdateVersion = {"e_tag": e_tag} if not version else {"e_tag": e_tag, "version": version}
        return known
    return "create" if mode is Put.CREATE else "overwrite"


def _version(e_tag: str | None, version: str | None) -> Version:
    """S3 and Azure compare the tag, Google the version (its generation)."""
    return Version(f"{e_tag or ''}\n{version}" if version else e_tag or "")


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _just_below(prefix: str, folder: str) -> str | None:
    if len(prefix) <= len(folder) + 1 or not "!" < prefix[-1] < "\x7f":
        return None
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "~"
