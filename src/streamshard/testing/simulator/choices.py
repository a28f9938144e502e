"""What happens in a run, as data: a list of choices says everything, and can be played again without any chance."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import attrs

Choice: TypeAlias = tuple[str | int, ...]
"""The name of an act, then what it acts on: small numbers that are taken modulo whatever there is to choose from."""

Range: TypeAlias = Sequence[int]
"""What a number of a choice may be."""

T = TypeVar("T")

ANY: Range = range(12)
"""One of several things, whichever."""


@attrs.frozen
class Act:
    """One thing that may happen in a world."""

    name: str
    do: Callable[..., bool]
    """Takes the world and the choice's numbers; False if there was nothing that it could happen to."""
    draws: tuple[Range, ...]
    kind: str | None = None
    """Which kind of fault it is; None for what everybody always does, and for the end of a fault."""
    ended_by: str | None = None
    """The act that ends what this one began."""
    lasts_ms: tuple[int, int] = (0, 0)
    """For how long, at least and at most, until then."""


ACTS: dict[str, Act] = {}
"""Every act by its name; filled by the modules that define them."""


def act(
    *draws: Range, kind: str | None = None, ended_by: str | None = None, lasts_ms: tuple[int, int] = (100, 20_000)
) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Make a function an act under its own name."""

    def register(do: Callable[..., bool]) -> Callable[..., bool]:
        ACTS[do.__name__] = Act(do.__name__, do, draws, kind, ended_by, lasts_ms)
        return do

    return register


def one_of(things: Sequence[T], which: int) -> T:
    """Whichever, of what there is now."""
    return things[which % len(things)]
