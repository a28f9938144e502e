"""Whoever does what the pages say sees what the pages show."""

from pathlib import Path

import pytest

from tests.integration.docs.pages import PAGES, blocks, named
from tests.integration.docs.walkthrough import Walkthrough, is_like, says_all

WALKED = tuple(page for page in PAGES if blocks(page.read_text()))


@pytest.mark.parametrize("page", WALKED, ids=named)
def test_a_page_can_be_followed_from_an_empty_directory(page: Path, tmp_path: Path, redis_url: str) -> None:
    with Walkthrough(tmp_path, redis_url) as reader:
        for block in blocks(page.read_text()):
            reader.follow(block)


def test_outputs_are_compared_line_by_line() -> None:
    printed = "SHARD  OWNER\n0      a-m0\n1      b-m0\n"

    assert is_like(printed, "SHARD OWNER\n0 …\n1 b-m0\n")
    assert is_like(printed, "…\n1 b-m0\n")
    assert not is_like(printed, "SHARD OWNER\n0 a-m0\n")
    assert not is_like(printed, "SHARD OWNER\n0 b-m0\n1 b-m0\n")


def test_lines_of_a_running_process_may_come_in_any_order() -> None:
    assert says_all("b reads shard 1\na reads shard 0\n", "a reads shard …\nb reads shard …\n")
    assert not says_all("a reads shard 0\n", "a reads shard …\nb reads shard …\n")
