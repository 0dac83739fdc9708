"""Import and export files: plain, packed, standard streams, URLs, and what is said when one cannot be opened."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.infra.files import open_file
from penstock.log.errors import InvalidArgument, PenstockError, PermissionDenied, StorageFull
from tests.servers import moto_server

LINES = b"one\ntwo\n"


def write(url: str) -> None:
    with open_file(url, "wb") as file:
        file.write(LINES)


def read(url: str) -> list[bytes]:
    with open_file(url) as file:
        return list(file)


@pytest.mark.parametrize("name", ["plain.jsonl", "packed.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    for url in (str(tmp_path / name), (tmp_path / f"url-{name}").as_uri(), f"memory://files/{name}"):
        write(url)
        assert read(url) == [b"one\n", b"two\n"]
    stored = (tmp_path / name).read_bytes()
    assert (gzip.decompress(stored) if name.endswith(".gz") else stored) == LINES


def test_a_dash_is_the_standard_stream_and_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = io.BytesIO(LINES), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=target))
    assert read("-") == [b"one\n", b"two\n"]
    write("-")
    assert target.getvalue() == LINES
    assert not source.closed
    assert not target.closed


@pytest.mark.s3
def test_a_bucket_is_read_and_written_with_the_environments_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        for name in ("plain.csv", "packed.csv.gz"):
            write(f"s3://{server.bucket}/export/{name}")
            assert read(f"s3://{server.bucket}/export/{name}") == [b"one\n", b"two\n"]
        with pytest.raises(InvalidArgument, match="no such file"):
            read(f"s3://{server.bucket}/export/nothing")


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    cases = {
        str(tmp_path / "nothing"): "there is no such file",
        str(tmp_path): "not a file",
        "memory://nothing": "there is no such file",
        "nope://host/file": "not a file's URL.*nope",
        "sftp://host/file": "needs another package.*paramiko",
    }
    for url, text in cases.items():
        with pytest.raises(InvalidArgument, match=text):
            read(url)


@pytest.mark.parametrize(("damage", "name"), [(b"plain text", "no.gz"), (gzip.compress(LINES, mtime=0)[:-6], "short.gz")])
def test_a_gz_that_is_none_is_named(tmp_path: Path, damage: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(damage)
    with pytest.raises(InvalidArgument, match=f"not a whole gzip file.*{name}"):
        read(str(tmp_path / name))


@pytest.mark.parametrize(("number", "error"), [(errno.EACCES, PermissionDenied), (errno.ENOSPC, StorageFull)])
def test_the_systems_refusals_have_our_names(tmp_path: Path, number: int, error: type[PenstockError]) -> None:
    with pytest.raises(error, match=r"out\.csv"), open_file(str(tmp_path / "out.csv"), "wb"):
        raise OSError(number, os.strerror(number))


def test_errors_of_the_block_pass_through(tmp_path: Path) -> None:
    with pytest.raises(EOFError, match="mine"), open_file(str(tmp_path / "out.csv"), "wb"):
        raise EOFError("mine")
    with pytest.raises(BrokenPipeError), open_file(str(tmp_path / "out.csv"), "wb"):
        raise BrokenPipeError
