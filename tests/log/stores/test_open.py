"""From a URL to a store, and what is wrong with a URL."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from penstock.log.errors import InvalidArgument
from penstock.log.stores import LocalStore, MemoryStore, Put, open_store
from penstock.log.stores.remote import RemoteStore


def test_paths_and_file_urls_are_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "my lake"
    asyncio.run(open_store(folder).put("k", b"body", mode=Put.CREATE))
    for url in (str(folder), "my lake", "./my lake", "~/my lake", folder.as_uri(), f"file://localhost{folder}"):
        store = open_store(url)
        assert isinstance(store, LocalStore)
        assert store.url == folder.as_uri()
        assert asyncio.run(store.get("k")).data == b"body"


def test_memory_is_new_each_time() -> None:
    first, second = open_store("memory://lake"), open_store("memory://lake")
    assert isinstance(first, MemoryStore)
    assert first.url == "memory://lake"
    asyncio.run(first.put("k", b"", mode=Put.CREATE))
    assert asyncio.run(second.list("")) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a/b/?region=eu-west-1", "s3://bucket/a/b?region=eu-west-1"),
        ("s3://bucket/a?endpoint=http://127.0.0.1:1&timeout_s=5", "s3://bucket/a?endpoint=http%3A%2F%2F127.0.0.1%3A1&timeout_s=5"),
        ("gs://bucket/a?anonymous=true", "gs://bucket/a?anonymous=true"),
        ("az://container/a?account=name&anonymous=true", "az://container/a?account=name&anonymous=true"),
    ],
)
def test_services_are_opened_without_a_request(url: str, shown: str) -> None:
    store = open_store(url)
    assert store.url == shown
    assert open_store(store.url).url == shown


@pytest.mark.parametrize("name", ["a%20b", "a?b", "a#b", "a b", "ünï", "a%2Fb", "a&b=c+d"])
def test_a_url_leads_back_to_its_store_whatever_the_prefix_holds(name: str) -> None:
    store = open_store(f"s3://bucket/x/{quote(name)}", options={"region": "us-east-1"})
    again = open_store(store.url)
    assert isinstance(store, RemoteStore)
    assert isinstance(again, RemoteStore)
    assert again.url == store.url
    assert again._reader.prefix == store._reader.prefix == f"x/{name}"


def test_credentials_in_options_are_taken_and_not_shown() -> None:
    store = open_store("s3://bucket/a", options={"access_key_id": "id-7", "secret_access_key": "hush", "region": "us-east-1"})
    assert "hush" not in store.url
    assert "id-7" not in store.url


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "not a store's URL"),
        ("hdfs://host/lake", r"unknown scheme.*a path, file://, memory://, s3://, gs:// or az://.*hdfs://"),
        ("s3a://bucket/lake", "unknown scheme"),
        ("s3://", "names no bucket"),
        ("s3:///lake", "names no bucket"),
        ("s3:/bucket/lake", r"'://' behind its scheme.*s3:/bucket/lake.*\./s3:/bucket/lake names a folder"),
        ("memory:lake", "'://' behind its scheme"),
        ("s3://bucket/a//b", "bad key"),
        ("s3://bucket/a/../b", "bad key"),
        ("s3://bucket/a?regoin=x", r"s3:// has no such option.*anonymous, connect_timeout_s, endpoint.*regoin"),
        ("gs://bucket/a?region=x", "gs:// has no such option"),
        ("s3://bucket/a?anonymous=yes", r"bad option.*true or false.*anonymous=yes"),
        ("s3://bucket/a?timeout_s=0", r"bad option.*timeout_s=0"),
        ("s3://bucket/a?connect_timeout_s=soon", r"bad option.*seconds.*connect_timeout_s=soon"),
        ("s3://bucket/a?endpoint=localhost:9000", r"the endpoint is no URL.*localhost:9000"),
        ("s3://bucket/a#b", "has no '#'"),
        ("az://container/a", "options do not fit"),
        ("file://elsewhere/lake", "names a host"),
        ("file://relative", "names a host"),
        ("file:///lake?x=1", "file:// takes no options"),
        ("memory://lake?x=1", "memory:// takes no options"),
    ],
)
def test_a_bad_url_is_refused_with_what_is_wrong(url: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidArgument, match=text):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    [
        "s3://id:hush@bucket/a",
        "s3://bucket/a?secret_access_key=hush",
        "az://c/a?account_key=hush",
        "s3://bucket/a?endpoint=http://id:hush@store.example",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgument, match="credentials do not belong into a URL") as raised:
        open_store(url)
    assert "hush" not in str(raised.value)
