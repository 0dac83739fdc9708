"""Opens the store that a URL names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from ..errors import InvalidArgument
from ..limits import plain
from ..runtime.runtime import Runtime
from .local import LocalStore
from .memory import MemoryStore
from .protocol import ObjectStore

if TYPE_CHECKING:
    from .remote import Client

_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_S = 5.0
_READ_RETRIES = 6


@dataclass(frozen=True, slots=True)
class _Service:
    """A scheme's options: our names, each with obstore's."""

    client: str
    options: Mapping[str, str]
    secrets: frozenset[str]
    endpoint_variables: tuple[str, ...] = ()


_SERVICES = {
    "s3": _Service(
        "S3Store",
        {
            "region": "region",
            "endpoint": "endpoint",
            "virtual_hosted_style": "virtual_hosted_style_request",
            "anonymous": "skip_signature",
            "request_payer": "request_payer",
            "server_side_encryption": "server_side_encryption",
            "sse_kms_key_id": "sse_kms_key_id",
        },
        frozenset({"access_key_id", "secret_access_key", "session_token"}),
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    ),
    "gs": _Service(
        "GCSStore",
        {"endpoint": "base_url", "anonymous": "skip_signature", "service_account": "service_account"},
        frozenset({"service_account_key", "bearer_token"}),
        ("GOOGLE_BASE_URL",),
    ),
    "az": _Service(
        "AzureStore",
        {"account": "account_name", "endpoint": "endpoint", "anonymous": "skip_signature", "emulator": "use_emulator"},
        frozenset({"account_key", "sas_key", "token", "client_id", "client_secret", "tenant_id"}),
        ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    ),
}
_FLAGS = {"virtual_hosted_style", "anonymous", "emulator", "request_payer"}
_SCHEMES = "a path, file://, memory://, s3://, gs:// or az://"


def open_store(
    url: str | os.PathLike[str], *, runtime: Runtime | None = None, options: Mapping[str, str] | None = None
) -> ObjectStore:
    """The store at ``url``; nothing is read or written yet.

    ==============================  ==========================================================================================
    ``./lake``, ``file:///lake``    a folder, made by the first write
    ``memory://name``               a new, empty store in this process; the name is for people (to share it, pass the store on)
    ``s3://bucket/prefix``          S3 and what speaks S3. Options: ``region`` (default ``AWS_REGION``, else us-east-1),
                                    ``endpoint`` (default ``AWS_ENDPOINT_URL_S3``; ``http://`` allowed), ``anonymous``,
                                    ``virtual_hosted_style``, ``request_payer``, ``server_side_encryption``,
                                    ``sse_kms_key_id``
    ``gs://bucket/prefix``          Google Cloud Storage. Options: ``service_account`` (a file), ``endpoint``, ``anonymous``
    ``az://container/prefix``       Azure Blob Storage. Options: ``account``, ``endpoint``, ``anonymous``, ``emulator``
    ==============================  ==========================================================================================

    Options follow a ``?`` (``s3://lake/prod?region=eu-west-1``) or come in ``options``. All three services also take ``timeout_s``
    (one request, default 30) and ``connect_timeout_s`` (default 5). Credentials come from the environment, the machine's role, or
    ``options``: ``access_key_id``, ``secret_access_key`` and ``session_token`` for S3; ``service_account_key`` and ``bearer_token``
    for Google; ``account_key``, ``sas_key``, ``token``, ``client_id``, ``client_secret`` and ``tenant_id`` for Azure.

    Raises `InvalidArgument` for an unknown scheme, option or value, and for credentials in a URL, as URLs get logged.
    """
    runtime = runtime or Runtime()
    text = os.fspath(url) if isinstance(url, str | os.PathLike) else ""
    if not text:
        raise InvalidArgument("not a store's URL", expected=_SCHEMES, observed=plain(url))
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise InvalidArgument("the store's URL has characters that no name has", expected=_SCHEMES, observed=plain(url)) from error
    scheme, colon, rest = text.partition(":")
    if colon and scheme in {*_SERVICES, "memory", "file"} and not rest.startswith("//"):
        raise InvalidArgument("a URL has '://' behind its scheme", object=text, expected=_SCHEMES, hint=f"./{text} names a folder")
    if "://" not in text:
        _no_options("a path", options or {})
        return _open_folder(os.path.expanduser(text), runtime)
    parts = urlsplit(text)
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument("credentials do not belong into a URL", hint="Set them in the environment or pass options")
    if parts.fragment:
        raise InvalidArgument("a store's URL has no '#'", object=f"{parts.scheme}://{parts.netloc}{parts.path}")
    written = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme == "memory":
        _no_options("memory://", {**written, **(options or {})})
        return MemoryStore(name=(parts.netloc + parts.path).rstrip("/"), clock=runtime.clock)
    if parts.scheme == "file":
        _no_options("file://", {**written, **(options or {})})
        if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
            raise InvalidArgument("a file URL names a host", object=text, expected="file:///absolute/path")
        return _open_folder(unquote(parts.path), runtime)
    if parts.scheme not in _SERVICES:
        raise InvalidArgument("unknown scheme", observed=f"{parts.scheme}://", expected=_SCHEMES)
    if not parts.netloc:
        raise InvalidArgument("the URL names no bucket", object=text, expected=f"{parts.scheme}://bucket/prefix")
    return _open_remote(parts.scheme, parts.netloc, unquote(parts.path).strip("/"), written, dict(options or {}), runtime)


def _open_folder(path: str, runtime: Runtime) -> ObjectStore:
    if os.path.exists(path) and not os.path.isdir(path):
        raise InvalidArgument("this is a file, and a store is a folder", object=path, hint="name a folder; it need not exist yet")
    return LocalStore(path, runtime=runtime)


def _open_remote(
    scheme: str, bucket: str, prefix: str, written: dict[str, str], given: dict[str, str], runtime: Runtime
) -> ObjectStore:
    from obstore import store as clients

    from .protocol import check_key
    from .remote import RemoteStore

    service = _SERVICES[scheme]
    if prefix:
        check_key(prefix)
    for name in written.keys() & service.secrets:
        raise InvalidArgument(
            "credentials do not belong into a URL", observed=name, hint="Set them in the environment or pass options"
        )
    if "@" in urlsplit(written.get("endpoint", "")).netloc:
        raise InvalidArgument(
            "credentials do not belong into a URL", observed="endpoint", hint="Set them in the environment or pass options"
        )
    both = {**written, **given}
    timeout = _duration("timeout_s", both.pop("timeout_s", None), _TIMEOUT_S)
    connect_timeout = _duration("connect_timeout_s", both.pop("connect_timeout_s", None), _CONNECT_TIMEOUT_S)
    config: dict[str, Any] = {}
    for name, value in both.items():
        if name in service.options:
            config[service.options[name]] = _flag(name, value) if name in _FLAGS else value
        elif name in service.secrets:
            config[name] = value
        else:
            known = sorted({*service.options, "timeout_s", "connect_timeout_s"})
            raise InvalidArgument(f"{scheme}:// has no such option", observed=name, expected=", ".join(known))
    endpoint = both.get("endpoint") or next(filter(None, map(os.environ.get, service.endpoint_variables)), "")
    if "endpoint" in both and not both["endpoint"].startswith(("http://", "https://")):
        raise InvalidArgument("the endpoint is no URL", observed=both["endpoint"], expected="http://… or https://…")
    if scheme == "s3":
        # Some stores that speak S3 do not know the request that deletes many keys.
        config["disable_bulk_delete"] = True
    make: Callable[..., Client] = getattr(clients, service.client)

    def client(retries: int) -> Client:
        return make(
            bucket,
            prefix=prefix or None,
            client_options={
                "allow_http": endpoint.startswith("http://") or both.get("emulator") is not None,
                "timeout": timeout,
                "connect_timeout": connect_timeout,
            },
            retry_config={
                "max_retries": retries,
                "retry_timeout": timeout,
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2), "base": 2},
            },
            **config,
        )

    try:
        reader, writer = client(_READ_RETRIES), client(0)
    except Exception as error:
        reason = str(error).partition("\n\nDebug source")[0]
        hint = "name the account: ?account=… behind the URL, or AZURE_STORAGE_ACCOUNT_NAME" if "Account must be" in reason else None
        raise InvalidArgument(
            "the store's options do not fit", object=f"{scheme}://{bucket}", observed=reason, hint=hint
        ) from error
    query = urlencode({name: written[name] for name in written if name not in service.secrets})
    url = f"{scheme}://{bucket}" + (f"/{quote(prefix)}" if prefix else "") + (f"?{query}" if query else "")
    return RemoteStore(url, reader=reader, writer=writer, runtime=runtime, renew=lambda: (client(_READ_RETRIES), client(0)))


def _no_options(what: str, options: Mapping[str, str]) -> None:
    if options:
        raise InvalidArgument(f"{what} takes no options", observed=", ".join(sorted(options)))


def _flag(name: str, value: str) -> bool:
    if value not in {"true", "false"}:
        raise InvalidArgument("bad option", observed=f"{name}={value}", expected="true or false")
    return value == "true"


def _duration(name: str, value: str | None, default_s: float) -> timedelta:
    try:
        seconds = default_s if value is None else float(value)
        if not 0 < seconds <= 3600:
            raise ValueError
    except ValueError:
        raise InvalidArgument("bad option", observed=f"{name}={value}", expected="seconds, above 0 and at most 3600") from None
    return timedelta(seconds=seconds)
