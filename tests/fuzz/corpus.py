"""The inputs that are kept: one file for each target, one input a line, as a Python literal of bytes."""

import ast
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
LONGEST = 1_000
"""Bytes of an input that is taken in; longer ones reach hardly more."""

MOST = 40
"""Inputs of a target that are taken in."""

SPLICES = (b"\x00", b"\xff", b'"', b"\\", b"{", b"]", b"-1", b"9" * 30, b"1e999", b"null", b"true", b"%", b":", b"\r\n")


def kept(target: str) -> list[bytes]:
    """The inputs of a target, in their order; none if nothing is kept of it."""
    path = FOLDER / f"{target}.txt"
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return [ast.literal_eval(line) for line in lines]


def keep(target: str, inputs: Iterable[bytes]) -> None:
    """Keep these, the shortest first, and no others."""
    chosen = sorted(set(inputs), key=lambda each: (len(each), each))
    FOLDER.mkdir(exist_ok=True)
    text = "".join(f"{each!r}\n" for each in chosen)
    (FOLDER / f"{target}.txt").write_text(text, "ascii")


def grow(target: str, found: Iterable[bytes]) -> None:
    """Keep besides, while there is room, the shortest of what was found."""
    known = kept(target)
    new = sorted({each for each in found if len(each) <= LONGEST} - set(known), key=lambda each: (len(each), each))
    keep(target, [*known, *new[: max(0, MOST - len(known))]])


def changed(inputs: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    """Without end: inputs with a few bytes changed, cut out, put in, repeated, or taken from another one."""
    while True:
        data = bytearray(chance.choice(inputs))
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            _change(data, inputs, chance)
        yield bytes(data[: 4 * LONGEST])


def _change(data: bytearray, inputs: Sequence[bytes], chance: random.Random) -> None:
    at, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
    match chance.randrange(6):
        case 0 if data:
            data[min(at, len(data) - 1)] = chance.randrange(256)
        case 1:
            del data[at : min(end, at + 16)]
        case 2:
            data[at:at] = chance.choice(SPLICES)
        case 3:
            data[at:end] = chance.choice(SPLICES)
        case 4:
            data[at:at] = data[at:end] * chance.choice((1, 2, 50))
        case _:
            other = chance.choice(inputs)
            data[at:] = other[chance.randint(0, len(other)) :]
