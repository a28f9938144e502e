"""``streamshard check`` as one types it."""

import subprocess
import sys


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "streamshard", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_scope_is_searched_to_its_end() -> None:
    done = run("2x2-instant")

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["2x2-instant", "502", "states"]
    assert done.stdout.rstrip().endswith("  exhausted")


def test_a_search_that_is_given_up_says_so() -> None:
    done = run("2x1", "--at-most", "50")

    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("NOT exhausted")


def test_scopes_are_listed_without_being_searched() -> None:
    done = run("--list")

    assert done.returncode == 0, done.stderr
    assert "2x1                         22358 states" in done.stdout.splitlines()


def test_an_unknown_scope_is_refused() -> None:
    done = run("9x9")

    assert done.returncode == 2
    assert "'9x9' is not one of" in done.stderr
