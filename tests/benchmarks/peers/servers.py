"""Starting and ending the peers: jars by Maven into a cache, processes on loopback, data in a temporary folder."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_HERE = Path(__file__).parent
CACHE = Path(os.environ.get("PENSTOCK_CACHE", Path.home() / ".cache" / "penstock")) / "peers"
CLIENTS = ["confluent-kafka==2.16.1", "rocketmq-python-client==5.1.2"]
KAFKA_PORT, ROCKETMQ_PORT = 19092, 18081
_NAME_SERVER_PORT, _BROKER_PORT = 19876, 20911
START_S = 120.0
"""How long one process may take until it answers."""
_OPENED = [
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
]


def missing_tools() -> list[str]:
    """What must be installed before a peer can run."""
    return [tool for tool in ("java", "mvn") if shutil.which(tool) is None]


def client_python() -> Path:
    """An interpreter that has the peers' clients: a virtual environment of their own in the cache."""
    python = CACHE / "venv" / "bin" / "python"
    mark = CACHE / "venv" / "installed"
    if not mark.exists() or mark.read_text() != " ".join(CLIENTS):
        print("fetching the peers' Python clients", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(CACHE / "venv")], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *CLIENTS], check=True)
        mark.write_text(" ".join(CLIENTS))
    return python


@contextmanager
def kafka(folder: Path, *, start_s: float = START_S) -> Iterator[None]:
    """One node, broker and controller in one; flush settings are the defaults, so an acknowledgement waits for no disk."""
    jars, properties = _jars("kafka"), folder / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{KAFKA_PORT + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{KAFKA_PORT},CONTROLLER://127.0.0.1:{KAFKA_PORT + 1}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{KAFKA_PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": folder / "logs",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    tool = ["java", "-cp", jars, "kafka.tools.StorageTool"]
    cluster = subprocess.run([*tool, "random-uuid"], capture_output=True, text=True, check=True).stdout.split()[-1]
    subprocess.run([*tool, "format", "-t", cluster, "-c", str(properties)], capture_output=True, check=True)
    command = ["java", "-Xms1g", "-Xmx1g", "-cp", jars, "kafka.Kafka", str(properties)]
    with _process("kafka", folder, command, KAFKA_PORT, until_s=time.monotonic() + start_s):
        yield


@contextmanager
def rocketmq(folder: Path, *, flush: str = "ASYNC_FLUSH", start_s: float = 3 * START_S) -> Iterator[None]:
    """Name server, broker and gRPC proxy, each a process; ``flush`` is ASYNC_FLUSH (the broker's default) or SYNC_FLUSH."""
    jars = _jars("rocketmq")
    (folder / "conf").mkdir()
    name_server, broker, proxy = (folder / "conf" / name for name in ("namesrv.conf", "broker.conf", "rmq-proxy.json"))
    name_server.write_text(f"listenPort={_NAME_SERVER_PORT}\nbindAddress=127.0.0.1\n")
    broker.write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nnamesrvAddr=127.0.0.1:{_NAME_SERVER_PORT}\n"
        f"brokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nbindAddress=127.0.0.1\nlistenPort={_BROKER_PORT}\n"
        f"storePathRootDir={folder / 'store'}\nflushDiskType={flush}\n"
    )
    proxy.write_text(
        json.dumps(
            {
                "rocketMQClusterName": "DefaultCluster",
                "proxyMode": "CLUSTER",
                "namesrvAddr": f"127.0.0.1:{_NAME_SERVER_PORT}",
                "localServeAddr": "127.0.0.1",
                "grpcServerPort": ROCKETMQ_PORT,
                "remotingListenPort": ROCKETMQ_PORT - 1,
            }
        )
    )

    def command(heap: str, *rest: str) -> list[str]:
        home = [f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}"]
        return ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=2g", *_OPENED, *home, "-cp", jars, *rest]

    package, until_s = "org.apache.rocketmq", time.monotonic() + start_s
    with ExitStack() as running:
        for name, heap, rest, port in (
            ("name-server", "256m", [f"{package}.namesrv.NamesrvStartup", "-c", str(name_server)], _NAME_SERVER_PORT),
            ("broker", "1g", [f"{package}.broker.BrokerStartup", "-c", str(broker)], _BROKER_PORT),
            ("proxy", "1g", [f"{package}.proxy.ProxyStartup", "-pc", str(proxy)], ROCKETMQ_PORT),
        ):
            running.enter_context(_process(name, folder, command(heap, *rest), port, until_s=until_s))
        yield


def create_rocketmq_topic(folder: Path, topic: str, *, message_type: str = "FIFO") -> None:
    """A topic of 8 queues."""
    _rocketmq_admin(folder, "updateTopic", "-t", topic, "-r", "8", "-w", "8", "-a", f"+message.type={message_type}")


def create_rocketmq_group(folder: Path, group: str) -> None:
    """A consumer group that is delivered to in order; by default a group is not, whatever the topic."""
    _rocketmq_admin(folder, "updateSubGroup", "-g", group, "-o", "true")


def _rocketmq_admin(folder: Path, verb: str, *arguments: str) -> None:
    """The tool gives up after 5 s on a busy machine, so it is tried again."""
    java = ["java", "-Xmx256m", f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", *_OPENED]
    java.append(f"-Drocketmq.namesrv.addr=127.0.0.1:{_NAME_SERVER_PORT}")
    tool = [*java, "-cp", _jars("rocketmq"), "org.apache.rocketmq.tools.command.MQAdminStartup"]
    said = ""
    environment = {**os.environ, "ROCKETMQ_HOME": str(folder)}
    for _ in range(5):
        command = [*tool, verb, "-c", "DefaultCluster", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        said = done.stdout + done.stderr
        if "success" in said:
            return
    raise RuntimeError(f"{verb} failed: {said}")


def _jars(name: str) -> str:
    """The class path of ``pom-<name>.xml``, resolved once."""
    pom, folder = _HERE / f"pom-{name}.xml", CACHE / name
    mark = folder / "pom.xml"
    if not mark.exists() or mark.read_bytes() != pom.read_bytes():
        print(f"fetching {name}'s jars", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        maven = ["mvn", "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*maven, f"-DoutputDirectory={folder}"], check=True, stdout=sys.stderr)
        mark.write_bytes(pom.read_bytes())
    return f"{folder}/*"


@contextmanager
def _process(name: str, folder: Path, command: Sequence[str], port: int, *, until_s: float) -> Iterator[None]:
    """A process that answers on a port of loopback while the block runs. Started again where it ends early: RocketMQ's proxy does that as
    long as its broker is not known yet.
    """
    if _answers(port):
        raise RuntimeError(f"port {port} of 127.0.0.1 is taken")
    log = folder / f"{name}.log"
    process = _start(command, log, folder)
    try:
        while not _answers(port):
            if time.monotonic() > until_s:
                raise RuntimeError(f"{name} did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.25)
            if process.poll() is not None:
                process = _start(command, log, folder)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(command: Sequence[str], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        environment = {**os.environ, "ROCKETMQ_HOME": str(folder)}
        return subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
