"""Import and export files: plain, packed, standard streams, URLs, and what is said when one cannot be opened."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.infra.files import is_packed, open_file, plain_name
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


@pytest.mark.parametrize("name", ["UP.JSONL.GZ", "Mixed.Gz"])
def test_the_case_of_a_name_does_not_matter(tmp_path: Path, name: str) -> None:
    write(str(tmp_path / name))
    assert gzip.decompress((tmp_path / name).read_bytes()) == LINES
    assert read(str(tmp_path / name)) == [b"one\n", b"two\n"]


def test_what_a_url_asks_is_no_part_of_its_name() -> None:
    assert is_packed("https://host/day.jsonl.gz?sig=a%2Fb")
    assert not is_packed("https://host/day.jsonl?as=x.gz")
    assert plain_name("https://host/Day.JSONL.gz?sig=1").endswith("/day.jsonl")


def test_a_gz_without_a_byte_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "none.gz").write_bytes(b"")
    with pytest.raises(InvalidArgument, match=r"not a whole gzip file.*none\.gz.*empty"):
        read(str(tmp_path / "none.gz"))


class Stop(BaseException):
    pass


def write_half(url: str, data: bytes, error: BaseException) -> None:
    with open_file(url, "wb") as opened:
        opened.write(data)
        raise error


@pytest.mark.parametrize("as_url", [False, True])
@pytest.mark.parametrize("error", [ValueError("bad"), Stop(), OSError(errno.ENOSPC, "full")])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, error: BaseException, as_url: bool) -> None:
    for before in (None, b"before"):
        file = tmp_path / "out.jsonl"
        if before is not None:
            file.write_bytes(before)
        with pytest.raises((ValueError, Stop, StorageFull)):
            write_half(file.as_uri() if as_url else str(file), LINES, error)
        assert [path.name for path in tmp_path.iterdir()] == ([] if before is None else ["out.jsonl"])
        assert before is None or file.read_bytes() == before


def test_a_file_that_is_replaced_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == LINES
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"no such folder.*nowhere/out\.jsonl"):
        write(str(tmp_path / "nowhere" / "out.jsonl"))


def test_a_device_is_written_as_it_is() -> None:
    write("/dev/null")
    with pytest.raises(StorageFull):
        write("/dev/full")


def test_a_closed_standard_stream_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidArgument, match="standard input is closed"):
        read("-")


@pytest.mark.s3
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_a_bucket_is_found_where_lakes_find_it_and_gets_whole_files_only(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    with moto_server() as server:
        for name, value in server.environment.items():
            monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv(variable if name == "AWS_ENDPOINT_URL_S3" else name, value)
        whole, half = (f"s3://{server.bucket}/export/{name}.csv" for name in ("whole", "half"))
        write(whole)
        for size_bytes in (10, 20 * 2**20):  # the second one begins an upload in parts
            with pytest.raises(EOFError, match="mine"):
                write_half(half, b"x" * size_bytes, EOFError("mine"))
            gc.collect()
        assert read(whole) == [b"one\n", b"two\n"]
        with pytest.raises(InvalidArgument, match="no such file"):
            read(half)
        with pytest.raises(InvalidArgument, match=r"no such bucket.*s3://elsewhere"):
            write("s3://elsewhere/out.csv")
