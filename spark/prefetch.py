"""``python -m penstock.spark.prefetch``: fetch the JARs that Spark sessions need, so that later none needs a network."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..log.errors import PenstockError
from . import jars
from .session import check_versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the cache and print its contents; 0 when everything is there."""
    parser = argparse.ArgumentParser(prog="python -m penstock.spark.prefetch", description=__doc__)
    parser.add_argument("--no-s3", dest="s3", action="store_false", help="leave out what S3 needs (36 of 40 files)")
    s3: bool = parser.parse_args(arguments).s3
    try:
        check_versions()
        files = jars.ensure(s3=s3)
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    sys.stdout.write(f"{len(files)} JARs, {size_mb:.0f} MB, in {files[0].parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
