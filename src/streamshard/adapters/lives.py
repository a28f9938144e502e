"""Which life a process lives: the child of a fork begins another one, and must leave alone what its parent opened."""

import asyncio
import os
import weakref

FORKED = "this process was forked after it had been used: make the app, the producer or the client anew in each process"

_number = [0]
_homes: "weakref.WeakSet[asyncio.AbstractEventLoop]" = weakref.WeakSet()
_left: "weakref.WeakSet[asyncio.AbstractEventLoop]" = weakref.WeakSet()


class Life:
    """The life in which something was first used."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first: int | None = None

    def is_over(self) -> bool:
        """Whether a fork lies between the first use and this one: ask at every use."""
        if self._first is None:
            self._first = _number[0]
        return self._first != _number[0]


def inhabit(loop: asyncio.AbstractEventLoop) -> None:
    """Records are handled on this loop, which runs in this process alone."""
    _homes.add(loop)


def left_behind(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop runs in the process that this one was forked from, and so will never answer here."""
    return loop in _left


def _begin() -> None:
    _number[0] += 1
    _left.update(_homes)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)
