"""What a machine may lack: tests that need it are skipped here and nowhere else, by name and with the remedy."""

from typing import NoReturn

import pytest


def skip_without(what: str, remedy: str) -> NoReturn:
    """End the test that runs; the summary of the run names what it lacked, and what helps."""
    pytest.skip(f"no {what} on this machine: {remedy}")
