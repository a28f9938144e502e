"""What an address may answer that is no coordinator's, or one that has gone mad."""

import json
from collections.abc import Mapping
from typing import Any

from tests.integration.faults.proxy import ENDLESS


def answer(body: bytes, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> bytes:
    """A whole answer over HTTP."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def _json(body: object) -> bytes:
    return answer(json.dumps(body).encode())


REPLY: Mapping[str, Any] = {
    "status": "OK",
    "memberId": "consumer-async-m0",
    "memberEpoch": 1,
    "seq": 1,
    "heartbeatIntervalMs": 1_000,
    "rebalanceTimeoutMs": 60_000,
    "leaseMs": 6_000,
    "assignment": {"assignedShards": [], "pendingShards": []},
}

NONSENSE = (
    answer(b"<html><body>Welcome!</body></html>", kind="text/html"),
    answer(b'{"status": "OK", "memberId": "consu'),
    _json({**REPLY, "memberEpoch": "one", "seq": [], "leaseMs": {"a": 1}}),
    _json({"errorCode": "STREAM_NOT_FOUND", "message": "this is an error, but 200"}),
    _json({**REPLY, "leaseMs": -15_000}),
    _json({**REPLY, "grants": [{"shardIndex": 10**9, "token": 1, "generation": 1}]}),
    _json({"replies": [{**REPLY, "heartbeatIntervalMs": 0, "leaseMs": 1}] * 4}),
    _json({"replies": [{**REPLY, "status": "RETRY", "retryAfterMs": 0}] * 4}),
    _json({"shardCount": 10**9, "layoutVersion": 10**18, "leaseMs": 10**15, "shards": []}),
    answer(b'"' + b"x" * 10_000_000 + b'"'),
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + ENDLESS,
    answer(b"", status="302 Found", more="Location: http://elsewhere.example/\r\n"),
    answer(b"\x1b[31mred\x07" * 1_000, kind="application/octet-stream"),
    answer(b"[" * 100_000),
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    answer(b"", status="204 No Content"),
)
