"""Hand-made ledgers: a good one, and what to spoil in it."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
Ledger: TypeAlias = dict[str, list[Row]]

MS = 1_000_000
SECOND = 1_000 * MS
PER_SHARD = 200
OWNER = {shard: ("b" if shard % 2 else "a") for shard in range(8)}
KILLED_AT = 3 * SECOND
PER_SECOND_AND_SHARD = 150


def token(shard: int, life: int) -> int:
    return 1_000 * life + shard


def record_id(position: int) -> str:
    return f"1000-{position}"


def good() -> Ledger:
    """Shards 0 to 7 of a and b; c takes shard 0 over from a, b is killed, c and a go on with its shards."""
    return {"story": _story(), "producer": _producer(), **_consumers()}


def texts(ledger: Ledger) -> Mapping[str, str]:
    return {name: "".join(json.dumps(row) + "\n" for row in rows) for name, rows in ledger.items()}


def handled(ledger: Ledger, consumer: str, shard: int) -> list[Row]:
    """The lines of a consumer's handlers on a shard."""
    return [row for row in ledger[f"consumer-{consumer}"] if row["kind"] == "handled" and row["shard"] == shard]


def tenure(ledger: Ledger, consumer: str, shard: int, kind: str) -> Row:
    """The line that begins or ends a consumer's ownership of a shard."""
    (found,) = (r for r in ledger[f"consumer-{consumer}"] if r["kind"] == kind and r["shard"] == shard)
    return found


def remains(ledger: Ledger, shard: int) -> Row:
    (found,) = (row for row in ledger["story"] if row["kind"] == "remains" and row["shard"] == shard)
    return found


def _story() -> list[Row]:
    return [
        {"kind": "scaled", "at": SECOND, "shards": 8},
        {"kind": "killed", "at": KILLED_AT, "who": "consumer-b", "code": -9},
        {"kind": "coordinator-killed", "at": 8 * SECOND},
        {"kind": "coordinator-watched", "at": 9 * SECOND},
        {"kind": "scaled", "at": 10 * SECOND, "shards": 3},
        {"kind": "stopped", "at": 12 * SECOND, "who": "producer", "code": 0},
        {"kind": "stopped", "at": 12 * SECOND, "who": "consumer-a", "code": 0},
        {"kind": "stopped", "at": 12 * SECOND, "who": "consumer-c", "code": 0},
        *(_remains(shard) for shard in range(8)),
    ]


def _remains(shard: int) -> Row:
    stays = shard < 3
    left = {"pending": 0, "lag": 0} if stays else {"pending": None, "lag": None}
    mark = token(shard, 2 if _second_owner(shard) else 1)
    return {
        "kind": "remains",
        "at": 12 * SECOND,
        "shard": shard,
        "exists": stays,
        "sealed": not stays,
        "mark": mark,
        **left,
    }


def _second_owner(shard: int) -> str | None:
    if shard == 0:
        return "c"
    return {1: "a", 3: "c", 5: "a", 7: "c"}.get(shard)


def _producer() -> list[Row]:
    """Eight shards in turn, 1,200 records a second."""
    return [
        {
            "kind": "published",
            "at": SECOND + position * SECOND // PER_SECOND_AND_SHARD,
            "records": [[record_id(position), shard, 8 * position + shard, 2] for shard in range(8)],
        }
        for position in range(PER_SHARD)
    ]


def _consumers() -> Ledger:
    found: Ledger = {"consumer-a": [], "consumer-b": [], "consumer-c": []}
    for shard in range(8):
        second = _second_owner(shard)
        half = PER_SHARD // 2 if second else PER_SHARD
        first = OWNER[shard]
        found[f"consumer-{first}"] += _tenure(first, shard, 1, range(half), ended=first != "b")
        if second is not None:
            found[f"consumer-{second}"] += _tenure(second, shard, 2, range(half, PER_SHARD), ended=True)
    return {name: sorted(rows, key=lambda row: int(row["at"])) for name, rows in found.items()}


def _tenure(consumer: str, shard: int, life: int, positions: range, *, ended: bool) -> list[Row]:
    """The first life is in seconds 1 and 2, the second one in seconds 6 and 7."""
    begin = SECOND if life == 1 else 6 * SECOND
    facts: Row = {"shard": shard, "token": token(shard, life), "member": f"{consumer}-m{shard % 2}", "instance": "0f"}
    rows = [{"kind": "assigned", "at": begin, "until": begin + 5 * SECOND // 2, **facts}]
    for count, position in enumerate(positions):
        at = begin + (count + 1) * MS
        records = [[record_id(position), 8 * position + shard, 1]]
        rows.append({"kind": "handled", "at": at, "until": at + 5 * SECOND // 2, **facts, "records": records})
        rows.append(
            {"kind": "acked", "at": at + 1, "until": at + 5 * SECOND // 2, **facts, "ids": [record_id(position)]}
        )
    if ended:
        rows.append({"kind": "revoked", "at": begin + SECOND, "until": begin + 3 * SECOND, **facts})
    return rows
