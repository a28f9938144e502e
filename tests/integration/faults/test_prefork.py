"""Processes that are forked from one that has made the app already, and even has published."""

import os
import signal
from pathlib import Path

from tests.integration.faults.notes import Line, lines_of
from tests.integration.faults.rig import PATIENCE_S, stage


def test_children_of_one_app_are_members_of_their_own_and_publish_over_links_of_their_own(tmp_path: Path) -> None:
    with stage(tmp_path) as played:
        server = played.start("server", "prefork", group="billing")
        wanted = {f"{child}-{n}" for child in range(3) for n in range(20)} | {"of the parent"}
        played.until(lambda: {line["seq"] for line in _lines(tmp_path, "acked")} == wanted, "all to be handled")
        played.until(lambda: len(played.owners_of("billing")) == 6, "six members to share the shards")

        for line in _lines(tmp_path, "forked"):
            os.kill(line["child"], signal.SIGTERM)
        code = server.process.wait(PATIENCE_S)
        left = played.group("billing")["currentAssignmentSummary"]

        lives = {(name, line["pid"]) for line in _lines(tmp_path, "assigned") for name in line["instances"]}
        published = [line["id"] + line["key"] for line in _lines(tmp_path, "published")]
        assert (code, len(set(published)), left) == (0, 60, {})
        assert len({process for _, process in lives}) == 3
        assert len({name for name, _ in lives}) == len(lives), "no instance is that of two processes"


def _lines(folder: Path, kind: str) -> list[Line]:
    return [line for line in lines_of(folder / "server.jsonl") if line["kind"] == kind]
