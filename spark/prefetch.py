"""``python -m penstock.spark.prefetch``: fetch the JARs for sessions, which then need no network, and archive their classes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..log.errors import PenstockError
from . import jars
from .class_archive import make_archive
from .versions import check_versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill the cache and print its contents; 0 when every JAR is there, with or without an archive."""
    parser = argparse.ArgumentParser(prog="python -m penstock.spark.prefetch", description=__doc__)
    parser.add_argument("--no-s3", dest="s3", action="store_false", help="leave out what S3 needs (all but 4 files)")
    parser.add_argument(
        "--no-archive", dest="archive", action="store_false", help="leave out the archive of classes (200 MB, some minutes)"
    )
    parser.add_argument(
        "--paths", action="store_true", help="print the JARs as one list, as spark-submit's --jars takes it, and archive nothing"
    )
    options = parser.parse_args(arguments)
    try:
        check_versions()
        files = jars.ensure(s3=options.s3)
    except PenstockError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.paths:
        sys.stdout.write(",".join(map(str, files)) + "\n")
        return 0
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    sys.stdout.write(f"{len(files)} JARs, {size_mb:.0f} MB, in {files[0].parent}\n")
    if options.archive:
        sys.stdout.write("archiving the classes that sessions load: some minutes of the processor, once\n")
        sys.stdout.flush()
        try:
            archive = make_archive()
        except PenstockError as error:  # sessions work without it
            sys.stderr.write(f"{error}\n")
        else:
            sys.stdout.write(f"an archive of classes, {archive.stat().st_size / 1e6:.0f} MB, in {archive.parent}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
