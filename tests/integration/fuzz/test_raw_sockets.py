"""Whatever comes over a socket, a coordinator answers or hangs up, does nothing of it, and serves its members."""

import http.client
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from tests.fuzz.sockets import HIDDEN, KINDS, Case, cases, sent
from tests.integration.cli.processes import IN_MEMORY, Served, serving

SECONDS = float(os.environ.get("STREAMSHARD_FUZZ_SECONDS", "4"))
PATIENCE_S = 0.15
GROWTH_KIB = 64 * 1024
"""How much more memory may be in use afterwards: many times what one request may hold, far less than all of them."""

STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")
ALLOWED_5XX = {b"501", b"503", b"505"}
BEAT = {
    "protocolVersion": 1,
    "requestId": "r",
    "memberId": "m",
    "memberName": "m",
    "memberEpoch": 0,
    "metadataVersion": 0,
    "runtimeConsumerCapacity": {"runtimeMaxConcurrency": 1, "availableConcurrency": 1},
    "ownedShards": [],
    "revokingShards": [],
    "shardProgress": [],
    "instanceId": "ab" * 16,
    "holds": [],
}
PATH = "/coord/v1/streams/orders/groups/billing/members/m/heartbeat"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(*IN_MEMORY) as started:
        create = {"requestedBy": "ops", "initialShardCount": 1, "consumerGroups": ["billing"]}
        assert ask(started, "POST", "/coord/v1/streams/orders", create)[0] == 201
        yield started


def ask(served: Served, method: str, path: str, body: object = None) -> tuple[int, object]:
    link = http.client.HTTPConnection("127.0.0.1", int(served.port), timeout=20)
    try:
        link.request(method, path, json.dumps(body) if body is not None else None)
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()


def memory_kib(served: Served) -> int:
    status = Path(f"/proc/{served.process.pid}/status")
    if not status.exists():
        return 0  # there is no such file but on Linux
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())[0])


@attrs.define
class Beats:
    """What a member of the group was answered meanwhile."""

    statuses: list[object] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)


@contextmanager
def a_member_beating(served: Served) -> Iterator[Beats]:
    beats, over = Beats(), threading.Event()

    def beat() -> None:
        seq = 0
        while not over.wait(0.1):
            seq += 1
            try:
                status, answer = ask(served, "POST", PATH, {**BEAT, "seq": seq})
                assert isinstance(answer, dict), answer
                beats.statuses.append((status, answer["status"]))
            except (OSError, http.client.HTTPException) as error:
                beats.failures.append(repr(error))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield beats
    finally:
        over.set()
        thread.join()


def judge(case: Case, said: bytes) -> None:
    assert not said or said.startswith(b"HTTP/1."), f"{case}: {said[:200]!r}"
    bad = [status for status in STATUS.findall(said) if status >= b"500" and status not in ALLOWED_5XX]
    assert not bad, f"{case}: {said[:500]!r}"


def test_nothing_brings_it_down_or_gets_past_it_and_members_are_served_meanwhile(served: Served) -> None:
    seed = int(os.environ.get("STREAMSHARD_FUZZ_SEED", "1"))
    tried = cases(seed)
    before, until, count = memory_kib(served), time.monotonic() + SECONDS, 0

    with a_member_beating(served) as beats:
        while time.monotonic() < until or count < len(KINDS):
            case = next(tried)
            judge(case, sent(int(served.port), case, PATIENCE_S))
            count += 1

    print(f"{count} cases of seed {seed}, {len(beats.statuses)} heartbeats meanwhile")
    assert beats.failures == []
    assert set(beats.statuses) == {(200, "OK")}
    assert served.process.poll() is None
    assert ask(served, "GET", "/livez") == (200, {"status": "UP"})
    assert ask(served, "GET", "/coord/v1/streams/hidden")[0] == 404
    assert memory_kib(served) - before < GROWTH_KIB


def test_what_is_hidden_would_be_carried_out_if_it_stood_in_the_open(served: Served) -> None:
    case = Case("open", [HIDDEN.replace(b"hidden", b"found").replace(b"43", b"21") + b'{"requestedBy":"ops"}'])

    said = sent(int(served.port), case, 1.0)

    assert b" 201 " in said.splitlines()[0]
