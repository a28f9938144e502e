"""A real Redis Cluster of local processes: on loopback, on free ports, ended by process id."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
import hiredis

from streamshard.adapters.streams.embedded import HOST, die_with_parent
from streamshard.core.slots import SLOT_COUNT

PATIENCE_S = 30.0
NODE_TIMEOUT_MS = 1_000


def ask(port: int, *words: str | int) -> Any:
    """Send one command over a connection of its own; its reply, a `hiredis.ReplyError` among them."""
    reader = hiredis.Reader()
    packed: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    with socket.create_connection((HOST, port), timeout=10) as link:
        link.sendall(packed)
        while (reply := reader.gets()) is False:
            reader.feed(link.recv(65_536))
    return reply


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for something that has to happen."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.02)


@attrs.define
class Node:
    """One process of the cluster."""

    port: int
    bus: int
    folder: Path
    process: "subprocess.Popen[bytes]"

    @property
    def id(self) -> str:
        """Its name within the cluster."""
        return str(ask(self.port, "CLUSTER", "MYID").decode())

    def signal(self, how: signal.Signals) -> None:
        """Stop, continue or kill it."""
        self.process.send_signal(how)
        if how is signal.SIGKILL:
            self.process.wait()

    def info(self, section: str) -> dict[str, str]:
        """One section of INFO."""
        lines = ask(self.port, "INFO", section).decode().splitlines()
        return {name: value for name, _, value in (line.partition(":") for line in lines)}


class Cluster:
    """Started on entry, ended on exit; three masters, each with ``replicas`` replicas."""

    def __init__(self, binary: Path, *, replicas: int = 0, masters: int = 3) -> None:
        self._binary = binary
        self._count = masters
        self._replicas = replicas
        self._folder = Path()
        self.nodes: list[Node] = []

    def more_options(self) -> dict[str, Any]:
        """What each node is told besides, for a kind of cluster of its own."""
        return {}

    @property
    def url(self) -> str:
        """Where the metadata store connects; names two nodes, so that one may be gone."""
        first, second = (f"{HOST}:{node.port}" for node in self.nodes[:2])
        return f"redis+cluster://{first},{second}"

    @property
    def masters(self) -> list[Node]:
        """The nodes that take writes now and live."""
        living = [node for node in self.nodes if node.process.poll() is None]
        return [node for node in living if node.info("replication")["role"] == "master"]

    def master_of(self, slot: int) -> Node:
        """The node that serves a slot, as the first living one says."""
        living = next(node for node in self.nodes if node.process.poll() is None)
        for first, last, (_, port, *_), *_ in ask(living.port, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"nobody serves slot {slot}")

    def replica_of(self, master: Node) -> Node:
        """A replica of ``master``."""
        others = (node for node in self.nodes if node is not master)
        return next(node for node in others if node.info("replication").get("master_port") == str(master.port))

    def add(self) -> Node:
        """A master more, without slots."""
        node = self._start(len(self.nodes))
        self.nodes.append(node)
        _done(node, "CLUSTER", "SET-CONFIG-EPOCH", len(self.nodes))
        _done(node, "CLUSTER", "MEET", HOST, self.nodes[0].port, self.nodes[0].bus)
        living = [each for each in self.nodes if each.process.poll() is None]
        until("the new node knows every other", lambda: all(_known(each) == len(self.nodes) for each in living))
        until("the new node knows who serves what", lambda: _state(node) == "ok")
        return node

    def promote(self, master: Node) -> Node:
        """Fail over by hand, which loses nothing; returns the new master."""
        replica = self.replica_of(master)
        _done(replica, "CLUSTER", "FAILOVER")
        until("the replica is the master", lambda: replica in self.masters and master not in self.masters)
        return replica

    def begin_move(self, slot: int, target: Node) -> Node:
        """Open a slot on both sides; returns whose it was."""
        source = self.master_of(slot)
        _done(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        _done(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        return source

    def move_key(self, key: str, source: Node, target: Node) -> None:
        """Take one key of an open slot over."""
        assert ask(source.port, "MIGRATE", HOST, target.port, key, 0, 5_000) == b"OK"

    def finish_move(self, slot: int, source: Node, target: Node) -> None:
        """Take over what is left of an open slot, and close it."""
        while keys := ask(source.port, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            for key in keys:
                self.move_key(key.decode(), source, target)
        for node in (target, source, *self.masters):
            _done(node, "CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def move(self, slot: int, target: Node) -> None:
        """Move a slot with its keys, as the tools do."""
        self.finish_move(slot, self.begin_move(slot, target), target)

    def migrate(self, slot: int, target: Node) -> None:
        """Move a slot as a whole, where the server can (Valkey 9)."""
        source = self.master_of(slot)
        _done(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        until("the slot has moved", lambda: self.master_of(slot) is target)

    def revive(self, node: Node) -> None:
        """Start a node that was killed again: under its name and on its ports, without its data."""
        node.process = self._spawn(node.folder, node.port, node.bus)
        assert _answers(node.process, node.port), (node.folder / "log").read_text()[-500:]

    def empty(self) -> None:
        """Forget every key."""
        for node in self.masters:
            ask(node.port, "FLUSHALL")

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="streamshard-cluster-"))
        try:
            self.nodes = [self._start(number) for number in range(self._count * (1 + self._replicas))]
            self._form()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every node and remove what they wrote; idempotent."""
        for node in self.nodes:
            if node.process.poll() is None:
                node.signal(signal.SIGKILL)
        self.nodes = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, number: int) -> Node:
        folder = self._folder / str(number)
        folder.mkdir()
        for _ in range(5):
            port, bus = free_ports()
            process = self._spawn(folder, port, bus)
            if _answers(process, port):
                return Node(port, bus, folder, process)
            process.kill()
            process.wait()
        raise AssertionError(f"{self._binary} does not come up: {(folder / 'log').read_text()[-500:]}")

    def _spawn(self, folder: Path, port: int, bus: int) -> "subprocess.Popen[bytes]":
        options: dict[str, Any] = {
            "bind": HOST, "port": port, "cluster-port": bus, "dir": folder, "save": "", "appendonly": "no",
            "cluster-enabled": "yes", "cluster-config-file": "nodes.conf", "cluster-node-timeout": NODE_TIMEOUT_MS,
            "repl-diskless-sync-delay": 0, "cluster-replica-validity-factor": 0,
        }  # fmt: skip
        options |= self.more_options()
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._binary), *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )

    def _form(self) -> None:
        masters, replicas = self.nodes[: self._count], self.nodes[self._count :]
        share = SLOT_COUNT // self._count
        for number, node in enumerate(masters):
            last = SLOT_COUNT - 1 if number == self._count - 1 else (number + 1) * share - 1
            _done(node, "CLUSTER", "ADDSLOTSRANGE", number * share, last)
        for number, node in enumerate(self.nodes):
            _done(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            _done(node, "CLUSTER", "MEET", HOST, self.nodes[0].port, self.nodes[0].bus)
        until("every node knows every other", lambda: all(_known(node) == len(self.nodes) for node in self.nodes))
        ids = [node.id for node in masters]
        for number, node in enumerate(replicas):
            _done(node, "CLUSTER", "REPLICATE", ids[number % len(ids)])
        until("the cluster serves every slot", lambda: all(_state(node) == "ok" for node in self.nodes))
        until("every replica follows", lambda: all(_linked(node) for node in replicas))
        # A replica that nobody has heard of as one yet can't stand for election.
        until("every node knows the replicas", lambda: all(_replicas(node) == len(replicas) for node in self.nodes))


def _done(node: Node, *words: str | int) -> None:
    reply = ask(node.port, *words)
    assert reply == b"OK", f"{words}: {reply!r}"


def _known(node: Node) -> int:
    lines = ask(node.port, "CLUSTER", "NODES").decode().splitlines()
    return sum("handshake" not in line for line in lines)


def _replicas(node: Node) -> int:
    lines: Sequence[str] = ask(node.port, "CLUSTER", "NODES").decode().splitlines()
    return sum("slave" in line.split()[2] for line in lines)


def _state(node: Node) -> str:
    fields: list[str] = ask(node.port, "CLUSTER", "INFO").decode().splitlines()
    return dict(line.split(":", 1) for line in fields)["cluster_state"]


def _linked(node: Node) -> bool:
    return node.info("replication").get("master_link_status") == "up"


def _answers(process: "subprocess.Popen[bytes]", port: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return f"process_id:{process.pid}\r\n".encode() in ask(port, "INFO", "server")
        except OSError:
            time.sleep(0.02)
    return False


def free_ports() -> tuple[int, int]:
    """Two ports that nobody uses now."""
    with socket.socket() as one, socket.socket() as two:
        one.bind((HOST, 0))
        two.bind((HOST, 0))
        return int(one.getsockname()[1]), int(two.getsockname()[1])
