"""A master, a replica and three sentinels as local processes."""

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from streamshard.adapters.streams.embedded import HOST, die_with_parent
from tests.integration.cluster import ask, free_ports, until

MASTER = "main"


@attrs.define(eq=False)
class Process:
    """One server or sentinel."""

    port: int
    process: "subprocess.Popen[bytes]"

    def signal(self, how: signal.Signals) -> None:
        """Stop, continue or kill it."""
        self.process.send_signal(how)
        if how is signal.SIGKILL:
            self.process.wait()

    def ask(self, *words: str | int) -> Any:
        """Send one command over a connection of its own."""
        return ask(self.port, *words)

    @property
    def role(self) -> str:
        """What it takes itself for."""
        return str(self.ask("ROLE")[0].decode())


@attrs.define
class Watched:
    """What sentinels watch over, and they themselves."""

    servers: list[Process]
    sentinels: list[Process]

    @property
    def url(self) -> str:
        """Where clients connect."""
        hosts = ",".join(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{MASTER}"

    def master_port(self) -> int:
        """Whom most sentinels name."""
        named = [
            int(sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)[1])
            for sentinel in self.sentinels
            if sentinel.process.poll() is None
        ]
        return max(named, key=named.count)

    def master(self) -> Process:
        """The present one."""
        port = self.master_port()
        return next(server for server in self.servers if server.port == port)

    def other(self) -> Process:
        """The replica."""
        return next(server for server in self.servers if server is not self.master())

    def ready(self) -> bool:
        """Every sentinel sees the others and the replica."""
        for sentinel in self.sentinels:
            told = sentinel.ask("SENTINEL", "REPLICAS", MASTER)
            if [dict(_pairs(flat))[b"master-link-status"] for flat in told] != [b"ok"]:
                return False
            if b"OK" not in bytes(sentinel.ask("SENTINEL", "CKQUORUM", MASTER)):
                return False
        return True


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


@contextlib.contextmanager
def watched(binary: Path, folder: Path) -> Iterator[Watched]:
    """Started, and ended at the end; a server that falls silent for half a second is taken for dead."""
    with contextlib.ExitStack() as running:
        master, replica = (_server(running, binary, folder / f"server-{n}") for n in range(2))
        assert replica.ask("REPLICAOF", HOST, master.port) == b"OK"
        until("the replica follows", lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
        ports = (*free_ports(), free_ports()[0])
        # They would find each other by themselves, but take seconds for it.
        lines = [
            f"sentinel monitor {MASTER} {HOST} {master.port} 2",
            f"sentinel down-after-milliseconds {MASTER} 500",
            f"sentinel failover-timeout {MASTER} 3000",
            f"sentinel known-replica {MASTER} {HOST} {replica.port}",
        ]
        known = [f"sentinel known-sentinel {MASTER} {HOST} {port} {_name(port)}" for port in ports]
        sentinels = []
        for n, port in enumerate(ports):
            own = (f"sentinel myid {_name(port)}", *lines, *(known[:n] + known[n + 1 :]))
            sentinels.append(_sentinel(running, binary, folder / f"sentinel-{n}", own, port))
        built = Watched([master, replica], sentinels)
        until("the sentinels know each other", built.ready)
        yield built


def _name(port: int) -> str:
    return f"{port:040x}"


def _server(running: contextlib.ExitStack, binary: Path, folder: Path) -> Process:
    options = ("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "1mb")
    return start(running, folder, (str(binary), "--bind", HOST, "--dir", str(folder), *options))


def _sentinel(running: contextlib.ExitStack, binary: Path, folder: Path, lines: Sequence[str], port: int) -> Process:
    folder.mkdir(parents=True)
    (folder / "conf").write_text("\n".join((f"dir {folder}", f"bind {HOST}", *lines)) + "\n")
    return start(running, folder, (str(binary), str(folder / "conf"), "--sentinel"), port=port)


def start(running: contextlib.ExitStack, folder: Path, command: Sequence[str], *, port: int | None = None) -> Process:
    """A process on a free port, killed when ``running`` ends; waits until it answers."""
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_ports()[0]
    process = spawn(running, folder, (*command, "--port", str(port)))
    until("the process answers", lambda: _answers(port))
    return Process(port, process)


def spawn(running: contextlib.ExitStack, folder: Path, command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A process that is killed when ``running`` ends."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
    running.callback(process.wait)
    running.callback(process.kill)
    return process


def _answers(port: int) -> bool:
    try:
        return "PONG" in str(ask(port, "PING"))
    except OSError:
        return False
