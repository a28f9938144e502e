"""Faults as small patches: in one function, or one script, one piece of text is another.

A function's code is exchanged in place, so that whoever imported it gets the faulty one too. A patch that
does not fit any more is an error, not a mutant that nothing kills.
"""

import hashlib
import importlib
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias

import attrs
import pytest

from streamshard.adapters.streams import scripts

Mutation: TypeAlias = Callable[[pytest.MonkeyPatch], None]


class DoesNotFit(Exception):
    """The text to be replaced is not there, or more than once."""


def replaced(text: str, old: str, new: str, where: str) -> str:
    """``text`` with its only ``old`` made ``new``; raises `DoesNotFit`."""
    if text.count(old) != 1:
        raise DoesNotFit(f"{where} has {text.count(old)} times: {old}")
    return text.replace(old, new)


@attrs.frozen
class Edit:
    """In the function ``where`` ("module:name" or "module:Class.name", below ``streamshard``), ``new`` for ``old``."""

    where: str
    old: str
    new: str

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        function = found(self.where)
        source = replaced(textwrap.dedent(inspect.getsource(function)), self.old, self.new, self.where)
        patch.setattr(function, "__code__", _compiled(function, source).__code__)


@attrs.frozen
class Edits:
    """Several edits that make one fault."""

    all: tuple[Edit, ...]

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        for edit in self.all:
            edit(patch)


@attrs.frozen
class ScriptEdit:
    """In the Lua script ``name`` of the shards, ``new`` for ``old``."""

    name: str
    old: str
    new: str

    def __call__(self, patch: pytest.MonkeyPatch) -> None:
        load = scripts.load

        def faulty(name: str, *preludes: str, first: str | None = None) -> scripts.Script:
            script = load(name, *preludes, first=first)
            if name != self.name:
                return script
            text = replaced(script.text, self.old, self.new, f"{name}.lua")
            return scripts.Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())

        for module in ("redis_backend", "redis_log", "cluster_log", "trimming"):
            adapter = importlib.import_module(f"streamshard.adapters.streams.{module}")
            if hasattr(adapter, "load"):
                patch.setattr(adapter, "load", faulty)


def found(where: str) -> FunctionType:
    """The function that ``where`` names."""
    module, _, path = where.partition(":")
    thing: Any = importlib.import_module(f"streamshard.{module}")
    for name in path.split("."):
        thing = inspect.getattr_static(thing, name)
    if isinstance(thing, property):
        thing = thing.fget
    thing = inspect.unwrap(getattr(thing, "__func__", thing))
    assert isinstance(thing, FunctionType), f"{where} is no function"
    return thing


def _compiled(function: FunctionType, source: str) -> FunctionType:
    namespace = dict(function.__globals__)
    exec(compile(source, function.__code__.co_filename, "exec", dont_inherit=True), namespace)
    made = inspect.unwrap(_bare(namespace[function.__name__]))
    assert isinstance(made, FunctionType), f"{function.__name__} is no function any more"
    return made


def _bare(made: Any) -> Any:
    if isinstance(made, property):
        return made.fget
    return getattr(made, "__func__", made)
