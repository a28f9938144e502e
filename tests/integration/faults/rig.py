"""A coordinator, two consumers and two producers as processes, a fault between them, and what it cost."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx

from streamshard.adapters.streams.embedded import EmbeddedServer
from streamshard.entrypoints.demo.children import Child, Children
from tests.integration.faults.notes import Line, lines_of
from tests.integration.faults.proxy import HOST, Proxy

FULL = bool(os.environ.get("STREAMSHARD_FULL"))
FAULT_S = 20.0 if FULL else 2.5
CURED_WITHIN_S = 5.0
PATIENCE_S = 30.0
LINES_A_MINUTE = 20
MOST_CPU = 0.20
SHARDS = 16
LEASE = {} if FULL else {"lease": "4s", "heartbeat": "1s", "tick": "500ms"}
BY = {"requestedBy": "fault tests", "reason": "a test"}
GROUPS = {"async": "billing", "sync": "audit"}
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Cost:
    """What a fault did to one process: its share of a core while it lasted, seconds until it worked again."""

    cpu: float
    recovered_s: float


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


class Stage:
    """Everything that runs in one test."""

    def __init__(self, folder: Path, server: EmbeddedServer, store: str | None = None) -> None:
        self.folder, self.server = folder, server
        self.redis = Proxy(server.port)
        self.children = Children(folder)
        options = [text for name, length in LEASE.items() for text in (f"--{name}", length)]
        where = store or f"sqlite:///{folder}/metadata.db"
        arguments = ["serve", "--store", where.format(port=self.redis.port), "--redis", self.redis_url, "--port", "0"]
        self.coordinator = self.children.start("coordinator", "streamshard", [*arguments, *options])
        self.until(lambda: "listens on" in self.coordinator.log.read_text(), "the coordinator to listen")
        port = int(self.coordinator.log.read_text().partition("http://127.0.0.1:")[2].split()[0])
        self.direct = f"http://{HOST}:{port}"
        self.http = Proxy(port)
        self.url = f"http://{HOST}:{self.http.port}"
        self.workers: dict[str, Child] = {}
        self._operator = socket.create_connection((HOST, server.port), timeout=5)
        self._marks: list[dict[str, int]] = []
        body = {"initialShardCount": SHARDS, "consumerGroups": sorted(GROUPS.values()), **BY}
        httpx.post(f"{self.direct}/coord/v1/streams/orders", json=body, trust_env=False).raise_for_status()

    @property
    def redis_url(self) -> str:
        """Redis behind the proxy."""
        return f"redis://{HOST}:{self.redis.port}/0"

    def work(self) -> None:
        """Start everybody, and wait until everybody works."""
        for kind, group in GROUPS.items():
            self.start(f"consumer-{kind}", "consumer", kind=kind, group=group)
            self.start(f"producer-{kind}", "producer", kind=kind)
        started = time.monotonic()
        for group in GROUPS.values():
            self.until(lambda group=group: self.group(group)["state"] == "STABLE", f"{group} to be stable")  # type: ignore[misc]
        for name in self.workers:
            self.until(lambda name=name: self.worked_at(name, started) is not None, f"{name} to work")  # type: ignore[misc]

    def group(self, name: str) -> Any:
        """How the coordinator sees a group."""
        return httpx.get(f"{self.direct}/coord/v1/streams/orders/groups/{name}", trust_env=False).json()

    def owners(self) -> dict[str, list[tuple[int, str, int]]]:
        """Who holds which shard under which token, in each group."""
        rows = {}
        for name in GROUPS.values():
            place = f"{self.direct}/coord/v1/monitoring/streams/orders/groups/{name}/assignments"
            shards = httpx.get(place, trust_env=False).json()["shards"]
            rows[name] = sorted((row["shardIndex"], row["owner"], row["token"]) for row in shards)
        return rows

    def owners_of(self, group: str) -> set[str]:
        """Who holds a shard of a group."""
        return set(self.group(group)["currentAssignmentSummary"])

    def start(self, name: str, module: str, **options: Any) -> Child:
        """Start one process under a name of its own."""
        given = {"name": name, "url": self.url, "redis": self.redis_url, "notes": str(self.notes(name)), **options}
        child = self.children.start(name, f"tests.integration.faults.{module}", [json.dumps(given)])
        self.workers[name] = child
        return child

    def notes(self, name: str) -> Path:
        """Where a process keeps its ledger."""
        return self.folder / f"{name}.jsonl"

    def command(self, *words: str) -> str:
        """Send one command to Redis itself, over a connection that stays; the first line of the answer."""
        self._operator.sendall(" ".join(words).encode() + b"\r\n")
        return self._operator.recv(65_536).decode().partition("\r\n")[0]

    def restart_redis(self) -> None:
        """Let it end as in a crash, and come back with nothing."""
        self._operator.close()
        self.server.kill()
        self.server.start()
        self._operator = socket.create_connection((HOST, self.server.port), timeout=5)

    def suffer(
        self, begin: Callable[[], object], cure: Callable[[], object], seconds: float, key: str | None = None
    ) -> dict[str, Cost]:
        """Let a fault last, cure it, and see who works again when, on the shard ``key`` if that is named."""
        self._marks.append({child.name: len(child.log.read_text()) for child in self._everybody()})
        began, used = time.monotonic(), self._cpu()
        begin()
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        shares = {name: (after - used[name]) / max(seconds, 1.0) for name, after in self._cpu().items()}
        cured = time.monotonic()
        cure()
        done = time.monotonic()
        ends = {name: self._recovered(name, done, key) for name in shares}
        costs = {name: Cost(round(share, 3), round(ends[name] - cured, 2)) for name, share in shares.items()}
        with (self.folder / "costs.jsonl").open("a") as measured:
            measured.write(json.dumps({name: attrs.astuple(cost) for name, cost in costs.items()}) + "\n")
        return costs

    def _cpu(self) -> dict[str, float]:
        return {child.name: cpu_of(child.process.pid) for child in self._everybody()}

    def _everybody(self) -> tuple[Child, ...]:
        return (self.coordinator, *getattr(self, "workers", {}).values())

    def _recovered(self, name: str, cured: float, key: str | None) -> float:
        if name == "coordinator":
            self.until(self._ready, "the coordinator to be ready again")
            return time.monotonic()
        self.until(lambda: self.worked_at(name, cured, key) is not None, f"{name} to work again")
        return self.worked_at(name, cured, key) or 0.0

    def _ready(self) -> bool:
        return httpx.get(f"{self.direct}/readyz", trust_env=False, timeout=10.0).status_code == httpx.codes.OK

    def worked_at(self, name: str, since: float, key: str | None = None) -> float | None:
        """When it first got something done after ``since``."""
        kind = "published" if name.startswith("producer") else "acked"
        done = (line for line in lines_of(self.notes(name)) if line["kind"] == kind and line["at"] > since)
        return next((line["at"] for line in done if key in (None, line["key"])), None)

    def finish(self, since: float = 0.0) -> None:
        """Stop publishing, let everything be handled, stop; what was published before ``since`` Redis may have lost."""
        for name, child in self.workers.items():
            if name.startswith("producer"):
                self.dismiss(child)
        wanted = {
            line["seq"]
            for name in self.workers
            if name.startswith("producer")
            for line in lines_of(self.notes(name))
            if line["kind"] == "published" and line["at"] > since
        }
        for name, child in self.workers.items():
            if name.startswith("consumer"):
                self.until(lambda name=name: wanted <= self.handled(name), f"{name} to handle everything")  # type: ignore[misc]
                self.dismiss(child)

    def dismiss(self, child: Child) -> None:
        """Ask it to end, and see that it does so in good order."""
        self.children.dismiss(child)
        assert child.process.wait(PATIENCE_S) == 0, child.last_words()

    def handled(self, name: str) -> set[str]:
        """What a consumer was handed."""
        return {line["seq"] for line in lines_of(self.notes(name)) if line["kind"] == "handled"}

    def fenced_acks(self) -> list[Line]:
        """Acknowledgements that succeeded although a successor had read before they were begun."""
        return [
            line
            for name in self.workers
            if name.startswith("consumer")
            for line in late_acks(lines_of(self.notes(name)))
        ]

    def loudest(self) -> dict[str, int]:
        """The most lines that each process logged from the beginning of one fault to that of the next."""
        logs = {child.name: child.log.read_text() for child in self._everybody()}
        ends = [*self._marks[1:], {name: len(log) for name, log in logs.items()}]
        spans = list(zip(self._marks, ends, strict=True))
        return {
            name: max(log[first[name] : last[name]].count("\n") for first, last in spans) for name, log in logs.items()
        }

    def until(self, condition: Callable[[], bool], what: str, patience: float = PATIENCE_S) -> None:
        """Wait, but not for ever."""
        ends_at = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < ends_at, f"waited in vain for {what}: {self._last_words()}"
            time.sleep(0.05)

    def _last_words(self) -> dict[str, str]:
        return {child.name: child.last_words() for child in self._everybody()}

    def end(self) -> None:
        """End everything."""
        self.children.end()
        for proxy in (self.redis, getattr(self, "http", None)):
            if proxy is not None:
                proxy.close()
        if hasattr(self, "_operator"):
            self._operator.close()


def late_acks(lines: list[Line]) -> list[Line]:
    """What was acknowledged under a token after a record had been handled under a higher one."""
    highest: dict[str, int] = {}
    suspects: dict[tuple[str, int], Line] = {}
    late = []
    for line in lines:
        if line["kind"] == "handled":
            highest[line["key"]] = max(line["token"], highest.get(line["key"], 0))
        elif line["kind"] == "acking" and line["token"] < highest.get(line["key"], 0):
            suspects[line["id"], line["token"]] = line
        elif line["kind"] == "acked" and (line["id"], line["token"]) in suspects:
            late.append(line)
    return late


@contextlib.contextmanager
def stage(folder: Path, store: str | None = None) -> Iterator[Stage]:
    """A stage of its own."""
    with EmbeddedServer() as server:
        made = Stage(folder, server, store)
        try:
            yield made
        finally:
            made.end()
