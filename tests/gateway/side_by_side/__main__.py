"""Plays the programs against an endpoint and prints, or keeps, what the SDKs saw."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import penstock
from tests.gateway.gateways import gateway
from tests.gateway.sdk import sdk

from .played import PLAYS, play_all
from .stages import AdminStage, LakeStage, Stage
from .table import ROCKETMQ


@contextmanager
def stage_of(given: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Stage]]:
    if given.endpoint is not None:
        yield given.endpoint, AdminStage(given.admin, given.admin_options)
        return
    with penstock.connect(str(folder / "lake")) as lake, gateway(lake.url, folder / "gateway", "--first-check", "2s") as served:
        yield served.endpoints, LakeStage(lake)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.side_by_side", description=__doc__)
    parser.add_argument("--endpoint", help="a RocketMQ's proxy, HOST:PORT (default: a gateway of its own)")
    parser.add_argument("--admin", default="xargs -L 1 mqadmin", help="reads commands of mqadmin, a line each")
    parser.add_argument("--admin-options", default="", help="words behind each command, such as -n HOST:PORT")
    parser.add_argument("--languages", default="java,python")
    parser.add_argument("--only", help="plays, by their names")
    parser.add_argument("--keep", choices=["rocketmq", "penstock"], help="keep the outcomes under this name in outcomes.json")
    parser.add_argument("--page", action="store_true", help="write the page of the documents anew from outcomes.json")
    given = parser.parse_args()
    if given.page:
        ROCKETMQ.page.write_text(ROCKETMQ.written())
        return
    plays = [play for play in PLAYS if given.only is None or play.name in given.only.split(",")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        endpoint, stage = stack.enter_context(stage_of(given, folder))
        sdks = [stack.enter_context(sdk(one, endpoint, folder / one)) for one in given.languages.split(",")]
        found = play_all(plays, sdks, stage, f"p{int(time.time()) % 100_000}")
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
    if given.keep is not None:
        ROCKETMQ.kept_in.write_text(ROCKETMQ.kept(given.keep, found))


if __name__ == "__main__":
    main()
