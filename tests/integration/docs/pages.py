"""The documentation as the tests see it: pages, their blocks, and what is to be done with each.

A fenced block says after its language what it is for:

    python file=NAME     written to a file of that name
    python run           run to its end, which must be a good one
    sh run               the same
    sh start=NAME        started, and left running
    sh watch             run again and again until it prints the ``text output`` that follows
    text output          what the block before printed; ``…`` stands for anything, alone for any lines
    text output=NAME     lines that what was started under that name prints sooner or later
    python from=FILE     a part of that file of the repository

Blocks without such words are only shown. Three comments, which no reader sees, do the rest:
``<!-- run: COMMAND -->``, ``<!-- start NAME: COMMAND -->`` and ``<!-- stop NAME -->``.
"""

import re
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = (*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")))

_FENCE = re.compile(r"^```(?P<language>\w+)?[ ]?(?P<job>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_HIDDEN = re.compile(r"^<!-- (?P<what>run|start|stop)(?: (?P<name>\w+))?(?:: (?P<body>.*?))? -->$", re.MULTILINE)


@attrs.frozen
class Block:
    """A part of a page with something to do; ``name`` is a file or a process."""

    at: int
    language: str
    job: str
    name: str
    body: str


def named(page: Path) -> str:
    """A page as test ids show it."""
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """Every block and comment with something to do, in order."""
    fenced = [_fenced(found) for found in _FENCE.finditer(text)]
    hidden = [
        Block(found.start(), "sh", found["what"], found["name"] or "", found["body"] or "")
        for found in _HIDDEN.finditer(_FENCE.sub(lambda found: " " * len(found[0]), text))
    ]
    return sorted((block for block in (*fenced, *hidden) if block.job), key=lambda block: block.at)


def _fenced(found: re.Match[str]) -> Block:
    job, _, name = found["job"].strip().partition("=")
    return Block(found.start(), found["language"] or "", job, name, found["body"])


def diagrams(text: str) -> list[str]:
    """Every mermaid diagram."""
    return [found["body"] for found in _FENCE.finditer(text) if found["language"] == "mermaid"]


def table(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table under ``heading``, without its own head; cells as written."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.lstrip("#").strip() == heading and line.startswith("#"))
    head = next(at for at in range(start, len(lines)) if lines[at].startswith("|"))
    rows: list[list[str]] = []
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])])
    return rows


def quoted(cell: str) -> list[str]:
    """What stands in back quotes in a cell."""
    return re.findall(r"`([^`]+)`", cell)
