"""Where targets lie, as deltalake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cdc.delta.location import Location
from penstock.log.errors import InvalidArgument

S3 = {"AWS_REGION": "us-east-1"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "root", "options"),
    [
        ("/data/tables", "/data/tables", {}),
        ("file:///data/my%20tables/", "/data/my tables", {}),
        ("file://localhost/data", "/data", {}),
        ("s3://bucket/a%20b/", "s3://bucket/a b", S3),
        ("s3://bucket?region=eu-west-1", "s3://bucket", {"AWS_REGION": "eu-west-1"}),
        (
            "s3://bucket/a?endpoint=http://127.0.0.1:1",
            "s3://bucket/a",
            S3 | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"},
        ),
        (
            "s3://bucket/a?endpoint=https://store",
            "s3://bucket/a",
            S3 | {"AWS_ENDPOINT_URL": "https://store", "AWS_ALLOW_HTTP": "false"},
        ),
        ("gs://bucket/a", "gs://bucket/a", {}),
        ("az://container/a", "az://container/a", {}),
        ("az://container/a?account=shop", "az://container/a", {"AZURE_STORAGE_ACCOUNT_NAME": "shop"}),
    ],
)
def test_a_folder_and_its_tables(url: str, root: str, options: dict[str, str]) -> None:
    found = Location.of(url)
    assert (found.root, found.options) == (root, options)
    inside = found.inside("orders")
    assert (inside.root, inside.options) == (f"{root}/orders", options)


def test_a_path_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("tables").root == str(tmp_path / "tables")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/a", "tables cannot be there"),
        ("file://elsewhere/a", "tables cannot be there"),
        ("s3://bucket/a?account=shop", "has no such option.*region, endpoint.*account"),
        ("gs://bucket/a?region=x", "has no such option"),
        ("az://container/a?endpoint=x", "has no such option"),
    ],
)
def test_what_is_no_place_of_tables_is_refused(url: str, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Location.of(url)
