"""Links inside the repository lead somewhere, and every page can be reached."""

import re
from pathlib import Path

import pytest

from tests.integration.docs.pages import DOCS, PAGES, named

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    found = LINK.findall(CODE.sub("", page.read_text()))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    plain = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in (*headings, *plain)}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_resolves(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page

        assert where.exists(), f"{named(page)}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors(where), f"{named(page)}: {target} names no heading of {where.name}"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / target.partition("#")[0]).resolve() for target in links(index)}

    assert sorted(set(DOCS.rglob("*.md")) - {index} - listed) == []
