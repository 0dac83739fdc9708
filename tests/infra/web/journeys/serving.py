"""A console that listens, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.infra.terminal.stopper import Stopper
from penstock.infra.web.lakes.lakes import LakeOptions
from penstock.infra.web.server.http_server import serve
from penstock.infra.web.server.options import ConsoleOptions
from penstock.log.runtime.portal import Portal
from penstock.log.runtime.runtime import Runtime
from tests.infra.web.conftest import REFRESH

PATIENCE_S = 30.0


@contextmanager
def served(folder: Path, *, names: Sequence[str] = ("lake",), **options: Any) -> Iterator[str]:
    """Its URL. It serves the lake of this folder under each of the names."""
    lakes = tuple(LakeOptions(name=name, url=str(folder), refresh=REFRESH) for name in names)
    stated = ConsoleOptions(lakes=lakes, port=0, **options)
    stopper, portal, port = Stopper(), Portal(), Future[int]()

    def run() -> None:
        try:
            portal.run(lambda: serve(stated, Runtime(), stopper.attach(), started=port.set_result))
        except BaseException as error:
            if not port.done():
                port.set_exception(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port.result(PATIENCE_S)}"
    finally:
        stopper.stop()
        thread.join(PATIENCE_S)
        portal.stop()
        assert not thread.is_alive()
