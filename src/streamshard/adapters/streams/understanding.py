"""Replies that none of our scripts gives: something else than Redis answers, or a script of another's."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from streamshard.errors import StreamUnavailable

P = ParamSpec("P")
T = TypeVar("T")


def understood(read: Callable[P, T]) -> Callable[P, T]:
    """``read``, but a reply that it can't make sense of is a server that can't be used, and no fault of the program."""

    @functools.wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise _not_understood(error) from error

    return reading


def _not_understood(error: Exception) -> StreamUnavailable:
    return StreamUnavailable(f"Redis answered what can't be understood ({error}): is a Redis behind this URL?")


def whole(value: Any) -> int:
    """A number of a reply; raises `TypeError` for anything else."""
    if type(value) is not int:
        raise TypeError(f"{type(value).__name__} is no whole number")
    return value


def maybe_whole(value: Any) -> int | None:
    """The same, or nothing."""
    return None if value is None else whole(value)
