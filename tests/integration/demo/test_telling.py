"""What the demo's processes note, and what people and scripts get to see."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from streamshard.entrypoints.demo.journal import Journal
from streamshard.entrypoints.demo.report import as_json, conclusion, read_ledger, tell
from streamshard.entrypoints.demo.timeline import Readers, Timeline, changes
from streamshard.entrypoints.demo.verdict import judge
from tests.integration.demo.ledgers import good, handled, texts


def row(kind: str, shard: int, token: int, member: str) -> str:
    return json.dumps({"kind": kind, "at": 1, "shard": shard, "token": token, "member": member}, separators=(",", ":"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_in_the_file_at_once_and_counts_when_it_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "consumer-a.jsonl"
    journal = Journal(path)

    async def scenario() -> None:
        journal.note("handled", shard=3)
        at_once = path.read_text()
        await asyncio.gather(journal.kept(), journal.kept())
        await journal.kept()
        journal.note("acked", shard=3)

        assert at_once.startswith('{"kind":"handled","at":')

    asyncio.run(scenario())
    journal.close()

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["kind"], row["shard"]) for row in rows] == [("handled", 3), ("acked", 3)]
    assert rows[0]["at"] < rows[1]["at"]
    assert list(read_ledger(tmp_path)) == ["consumer-a"]


def test_readers_are_followed_through_files_that_grow(tmp_path: Path) -> None:
    path, readers = tmp_path / "consumer-a.jsonl", Readers()
    first = [row("assigned", 0, 7, "a-m0"), row("assigned", 1, 8, "a-m1"), '{"kind":"handled","at":1}']
    path.write_text("\n".join(first) + '\n{"kind":"revok')
    readers.look([path, tmp_path / "consumer-b.jsonl"])
    before = readers.now
    path.write_text("\n".join([*first, row("revoked", 0, 7, "a-m0"), row("revoked", 1, 5, "a-m1")]) + "\n")
    readers.look([path])

    assert before == {0: "a-m0", 1: "a-m1"}
    assert readers.now == {1: "a-m1"}


def test_a_killed_consumer_reads_nothing(tmp_path: Path) -> None:
    path, readers = tmp_path / "consumers.jsonl", Readers()
    path.write_text("\n".join([row("assigned", 0, 7, "a-m0"), row("assigned", 1, 8, "b-m1")]) + "\n")
    readers.look([path])
    readers.gone("a")

    assert readers.now == {1: "b-m1"}


def test_changes_are_told_by_what_happened() -> None:
    before, after = {0: "a-m0", 1: "a-m0", 2: "b-m0", 3: "b-m0"}, {0: "a-m0", 2: "c-m0", 4: "c-m1", 5: "c-m1"}

    assert (
        changes(before, after) == "a-m0 stopped reading 1; b-m0 handed c-m0 2; b-m0 stopped reading 3; c-m1 takes 4, 5"
    )


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_are_for_terminals_that_want_them(
    *, terminal: bool, no_color: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    seen = Terminal() if terminal else io.StringIO()
    Timeline(seen).grid({0: "a-m0", 1: None}, "because")

    assert ("\x1b[36m" in seen.getvalue() or "\x1b[35m" in seen.getvalue() or "\x1b[33m" in seen.getvalue()) is coloured
    assert "because" in seen.getvalue()


def test_a_verdict_is_told_with_what_is_wrong() -> None:
    ledger = good()
    for lost in handled(ledger, "a", 2)[:7]:
        ledger["consumer-a"].remove(lost)
    verdict, told = judge(texts(ledger)), io.StringIO()
    tell(verdict, Timeline(told))

    lines = told.getvalue().splitlines()
    assert lines[1] == "FAILED  every acknowledged publish was handled: 1,593 of 1,600"
    assert lines[2] == "          orders:2 1000-0 (number 2) was acknowledged to the producer, never handled"
    assert lines[7] == "          and 2 more like it"
    assert lines[8].startswith("ok      nothing was handled that was not published")
    assert lines[-1] == "FAILED: nothing-lost did not hold."


def test_a_verdict_for_scripts_has_everything_in_it() -> None:
    verdict = judge(texts(good()))

    found = json.loads(json.dumps(as_json(verdict, "valkey", 31.26, None)))

    assert conclusion(verdict) == "Nothing was lost: 1,600 records at 1,206 a second, all checks hold."
    assert (found["ok"], found["seconds"], found["void"], found["ledger"]) == (True, 31.3, [], None)
    assert found["figures"]["published"] == 1_600
    assert found["checks"][0] == {
        "name": "nothing-lost",
        "ok": True,
        "told": "every acknowledged publish was handled: 1,600 of 1,600",
        "wrong": [],
    }
