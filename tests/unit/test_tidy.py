"""The house rules that no linter knows."""

import ast
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamshard

ROOT = Path(__file__).parents[2]
CORE = ROOT / "src" / "streamshard" / "core"
SOURCES = sorted(
    path for folder in ("src", "tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
THIS = Path(__file__).resolve()

MOST_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_FUNCTION = 40

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b|^\s*raise AssertionError$")
UNTESTED = re.compile(r"\b(pytest\.skip|mark\.skip|mark\.skipif|importorskip|xfail|unittest\.mock)\b")

MAY_SKIP = {
    ROOT / "tests" / "absent.py": "says what the machine lacks, a kind of server or of system, and what helps",
}
"""The only modules that may skip a test, and why."""

ONLY_DECLARATIONS = {
    "actions": "what a session asks of its runtime: values without behaviour",
    "admin": "the operators' commands: values without behaviour",
    "effects": "orders to Redis and their results: values without behaviour",
    "ports": "protocols: the contract tests of the adapters test them",
    "records": "orders to a shard's log and their results: values without behaviour",
    "settings": "an operator's choices: values without behaviour",
}
"""Core modules without a test of their own, and why; `test_an_exempt_module_only_declares` holds them to it."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def bases(declared: ast.ClassDef) -> set[str]:
    return {ast.unparse(base) for base in declared.bases}


def core_modules() -> list[Path]:
    return sorted(path.relative_to(CORE) for path in CORE.rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_is_short_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_A_MODULE


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_function_is_short_enough_to_be_seen_whole(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    lengths = {f"{f.name}, line {f.lineno}": (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions(tree)}

    assert {name: length for name, length in lengths.items() if length > MOST_LINES_OF_A_FUNCTION} == {}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_module_says_what_it_knows(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert not text.strip() or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("path", [path for path in SOURCES if path != THIS], ids=name_of)
def test_nothing_is_left_unfinished_or_untested(path: Path) -> None:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    forbidden = [UNFINISHED] if path in MAY_SKIP else [UNFINISHED, UNTESTED]

    assert [(number, line) for number, line in lines if any(words.search(line) for words in forbidden)] == []


@pytest.mark.parametrize("module", core_modules(), ids=str)
def test_a_core_module_is_mirrored_by_its_tests(module: Path) -> None:
    mirror = ROOT / "tests" / "unit" / "core" / module.with_name(f"test_{module.name}")

    assert mirror.is_file() or module.with_suffix("").as_posix() in ONLY_DECLARATIONS


@pytest.mark.parametrize("module", ONLY_DECLARATIONS)
def test_an_exempt_module_only_declares(module: str) -> None:
    tree = ast.parse((CORE / f"{module}.py").read_text(encoding="utf-8"))
    protocols = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and "Protocol" in bases(node)]

    declared = {function.name for protocol in protocols for function in functions(protocol)}

    assert {function.name for function in functions(tree)} == declared


def test_the_public_face_is_what_it_says() -> None:
    said = list(getattr(streamshard, "__all__", []))
    found = {
        name
        for name, value in vars(streamshard).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }

    assert said == sorted(set(said))
    assert found <= set(said)
    assert [name for name in said if not hasattr(streamshard, name)] == []


def test_every_public_class_and_function_is_documented() -> None:
    named = {name: getattr(streamshard, name) for name in getattr(streamshard, "__all__", [])}

    documentable = {name: value for name, value in named.items() if inspect.isclass(value) or inspect.isroutine(value)}

    assert [name for name, value in documentable.items() if not inspect.getdoc(value)] == []
