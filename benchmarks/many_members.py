"""5,000 members against one coordinator at the default timings: does it ever take a live one for dead?

    python benchmarks/many_members.py [--members 5000] [--groups 1] [--seconds 300] [--together 100]
                                      [--store sqlite] [--join-seconds 0]

The coordinator is a real process; the members are simulated in this one, each beating every 3 s over kept
connections, ``--together`` of them in a request (1: each alone). A member sends what a client would: the view,
and what it holds by the last answer. All join at once unless ``--join-seconds`` spreads them. Prints, for the
joining and for the time after it: heartbeats a second, p50, p99 and the longest time from when a heartbeat was
due until it was answered, how many members were expired, and ``out_of_lease``: how often one was answered so
late that it would have paused meanwhile (it keeps what it has: that is no expiry).
"""

import argparse
import asyncio
import contextlib
import heapq
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.request import Request, urlopen

import msgspec

from streamshard.adapters.streams.embedded import die_with_parent

LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
EXPIRED = re.compile(r"\bmember-expired\b")
HEARTBEAT_S = 3.0
CLIENT_LEASE_S = 15.0 * 0.99 - 0.75
SETTLING_S = 600.0
CONNECTIONS = 64
STREAM = "orders"
MOST_SHARDS = 8_192


class Member:
    """One member: what it was told last, and since when it may read."""

    def __init__(self, name: str, group: str) -> None:
        self.name, self.group = name, group
        self.instance = os.urandom(16).hex()
        self.seq, self.epoch, self.version = 0, 0, 0
        self.view: str | None = None
        self.holds: list[dict[str, int]] = []
        self.renewed: float | None = None

    def body(self) -> dict[str, Any]:
        """The next attempt."""
        self.seq += 1
        return {
            "streamPrefix": STREAM,
            "consumerGroup": self.group,
            "protocolVersion": 1,
            "requestId": f"{self.name}-{self.seq}",
            "memberId": self.name,
            "memberName": self.name,
            "memberEpoch": self.epoch,
            "metadataVersion": self.version,
            "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 16, "availableConcurrency": 16},
            "ownedShards": [{"shardIndex": hold["shardIndex"]} for hold in self.holds],
            "revokingShards": [],
            "shardProgress": [],
            "instanceId": self.instance,
            "seq": self.seq,
            "holds": self.holds,
            "view": self.view,
        }

    def hear(self, answer: dict[str, Any], sent: float) -> str:
        """Take an answer in; its status."""
        status: str = answer["status"]
        if status in ("OK", "SYNC_METADATA", "REVOKE_PENDING"):
            self.epoch, self.version, self.view = answer["memberEpoch"], answer["metadataVersion"], answer["view"]
            self.holds = [{"shardIndex": g["shardIndex"], "token": g["token"]} for g in answer["grants"]]
            self.renewed = sent
        elif status in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"):
            self.epoch, self.seq, self.holds, self.view, self.renewed = 0, 0, [], None, None
            self.instance = os.urandom(16).hex()
        return status


class Phase:
    """What was seen in a stretch of time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.out_of_lease = 0

    def told(self, expired: int) -> dict[str, Any]:
        """As a row of the report."""
        found, seconds = sorted(self.latencies), time.monotonic() - self.began
        at = [round(found[int(len(found) * part)] * 1000) if found else None for part in (0.5, 0.99)]
        return {
            "seconds": round(seconds, 1),
            "heartbeats_per_s": round(len(found) / seconds),
            "p50_ms": at[0],
            "p99_ms": at[1],
            "longest_ms": round(found[-1] * 1000) if found else None,
            "statuses": dict(self.statuses.most_common()),
            "expired": expired,
            "out_of_lease": self.out_of_lease,
        }


class Load:
    """Sends every member's heartbeat when it is due, over a few connections."""

    def __init__(self, port: int, companies: Sequence[Sequence[Member]], join_s: float) -> None:
        self._port = port
        start = time.monotonic() + 1.0
        self._due = [(start + random.random() * join_s, i, company) for i, company in enumerate(companies)]
        heapq.heapify(self._due)
        self._members = sum(len(company) for company in companies)
        self.phase = Phase()
        self._ready: asyncio.Queue[tuple[float, int, Sequence[Member]]] = asyncio.Queue()
        self._settled: dict[str, bool] = {}

    @property
    def all_in(self) -> bool:
        """Everybody was served, with what is on offer handed out."""
        return len(self._settled) == self._members and all(self._settled.values())

    async def dispatch(self) -> None:
        """Hand out what is due, until cancelled."""
        while True:
            while self._due and self._due[0][0] <= time.monotonic():
                self._ready.put_nowait(heapq.heappop(self._due))
            await asyncio.sleep(0.01)

    async def run(self) -> None:
        """Be one connection, until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer):
            while True:
                due, number, company = await self._ready.get()
                sent = time.monotonic()
                answers = await _ask(reader, writer, [member.body() for member in company])
                heapq.heappush(self._due, (self._take_in(company, answers, due, sent), number, company))

    def _take_in(self, company: Sequence[Member], answers: Sequence[dict[str, Any]], due: float, sent: float) -> float:
        now = time.monotonic()
        soonest = max(now, due + HEARTBEAT_S * (0.95 + 0.1 * random.random()))
        for member, answer in zip(company, answers, strict=True):
            before, held = member.renewed, {hold["token"] for hold in member.holds}
            status = member.hear(answer, sent)
            self.phase.latencies.append(now - due)
            self.phase.statuses[status] += 1
            self.phase.out_of_lease += before is not None and now - before > CLIENT_LEASE_S
            pending = bool(answer["assignment"]["pendingShards"]) if answer["assignment"] else True
            self._settled[member.name] = status == "OK" and not pending
            if status == "RETRY":
                soonest = min(soonest, now + (answer["retryAfterMs"] or 250) / 1000 * (0.5 + random.random()))
            elif held - {hold["token"] for hold in member.holds}:
                soonest = min(soonest, now + 0.05)  # a client says at once that it has let a shard go
        return soonest


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bodies: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    alone = len(bodies) == 1
    first = bodies[0]
    group = f"streams/{first['streamPrefix']}/groups/{first['consumerGroup']}"
    path = f"{group}/members/{first['memberId']}/heartbeat" if alone else "heartbeats"
    content = msgspec.json.encode(first if alone else {"heartbeats": bodies})
    head = f"POST /coord/v1/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    headers = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(headers.split(b"content-length: ")[1].split(b"\r\n")[0])
    answer = msgspec.json.decode(await reader.readexactly(length))
    if b" 200 " not in headers.split(b"\r\n")[0]:
        raise SystemExit(f"the coordinator answers {answer}")
    return [answer] if alone else answer["replies"]


class Coordinator:
    """A real one in a process of its own; counts what its log says of expiries."""

    def __init__(self, store: str, redis: str = "memory:") -> None:
        command = [sys.executable, "-m", "streamshard", "serve", "--port", "0", "--store", store, "--redis", redis]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent(), start_new_session=True
        )
        self.expired = 0
        self.trouble: list[str] = []
        self.port = self._found_port()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def cpu_seconds(self) -> float:
        """Processor time so far, as Linux counts it."""
        with open(f"/proc/{self._process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._reader.join()

    def _found_port(self) -> int:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if (found := LISTENS.search(line)) is not None:
                return int(found[1])
        raise SystemExit("the coordinator did not start")

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.expired += EXPIRED.search(line) is not None
            if "WARNING" in line or "ERROR" in line:
                self.trouble.append(line.strip())


def create(port: int, groups: Sequence[str], shards: int) -> None:
    """The stream with its groups."""
    body = {"initialShardCount": shards, "consumerGroups": list(groups), "requestedBy": "benchmark"}
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/coord/v1/streams/{STREAM}"
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:
        answer.read()


@contextlib.contextmanager
def coordinator(kind: str) -> Iterator[Coordinator]:
    """One on a store of that kind."""
    with tempfile.TemporaryDirectory() as folder:
        running = Coordinator("memory:" if kind == "memory" else f"sqlite:///{folder}/metadata.db")
        try:
            yield running
        finally:
            running.end()


async def play(options: argparse.Namespace, running: Coordinator) -> list[dict[str, Any]]:
    """Join, settle, go on; a row for each part."""
    groups = [f"g{number}" for number in range(options.groups)]
    each = options.members // options.groups
    create(running.port, groups, options.shards or min(2 * each, MOST_SHARDS))
    crews = [[Member(f"m{group}-{i}", group) for i in range(each)] for group in groups]
    size = options.together
    companies = [crew[i : i + size] for crew in crews for i in range(0, each, size)]
    load = Load(running.port, companies, options.join_seconds)
    connections = [asyncio.create_task(work) for work in (load.dispatch(), *(load.run() for _ in range(CONNECTIONS)))]
    rows = []
    ends = time.monotonic() + SETTLING_S
    cpu = running.cpu_seconds()
    while not load.all_in and time.monotonic() < ends:
        await _pass(connections, 0.25)
        if options.watch:
            print(load.phase.told(running.expired), flush=True)
    rows.append({"part": "join", "settled": load.all_in, **load.phase.told(running.expired)})
    rows[-1]["coordinator_cpu"] = round((running.cpu_seconds() - cpu) / rows[-1]["seconds"], 2)
    print(json.dumps(rows[-1]), flush=True)
    load.phase, before, cpu = Phase(), running.expired, running.cpu_seconds()
    await _pass(connections, options.seconds)
    rows.append({"part": "steady", **load.phase.told(running.expired - before)})
    rows[-1]["coordinator_cpu"] = round((running.cpu_seconds() - cpu) / rows[-1]["seconds"], 2)
    print(json.dumps(rows[-1]), flush=True)
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    return rows


async def _pass(connections: Sequence["asyncio.Task[None]"], seconds: float) -> None:
    done, _ = await asyncio.wait(connections, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def main() -> None:
    """Run it; fails if a live member was taken for dead."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0, help="two for each member of a group unless given")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--join-seconds", type=float, default=0.0)
    parser.add_argument("--together", type=int, default=100)
    parser.add_argument("--store", choices=("memory", "sqlite"), default="sqlite")
    parser.add_argument("--watch", action="store_true", help="print while they join")
    options = parser.parse_args()
    with coordinator(options.store) as running:
        rows = asyncio.run(play(options, running))
        trouble = Counter(re.sub(r"\d+", "N", line.split(" ", 2)[-1]) for line in running.trouble)
    print(json.dumps({"warnings": dict(trouble.most_common(5))}))
    ends = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH")
    wrong = sum(row["expired"] + sum(row["statuses"].get(status, 0) for status in ends) for row in rows)
    print("no member was taken for dead" if not wrong else f"{wrong} signs of members taken for dead")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
