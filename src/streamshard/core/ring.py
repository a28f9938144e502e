"""A consistent-hash ring: points on a circle of 64-bit hashes, each with an owner.

Sources: Karger and others 1997 for the ring, DeCandia and others 2007 (Dynamo) for many points per owner.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

Hash64 = Callable[[bytes], int]
"""An unsigned 64-bit hash of bytes."""

HASH_BITS = 64
CELLS_PER_POINT = 8
MOST_CELL_BITS = 20


class Ring:
    """Who owns a hash: the owner of the first point at or after it, past the last point that of the first one.

    The circle is cut into equal cells, most of which hold no point and so belong to one owner, found without a search.
    """

    __slots__ = ("_cells", "_shift", "hashes", "owners")

    def __init__(self, points: Iterable[tuple[int, int]]) -> None:
        """Of pairs (hash, owner), at least one; where hashes meet, the lowest owner has them."""
        ordered = sorted(points)
        assert ordered, "a ring without points owns nothing"
        self.hashes: Sequence[int] = [point for point, _ in ordered]
        self.owners: Sequence[int] = [owner for _, owner in ordered]
        bits = min((len(ordered) * CELLS_PER_POINT).bit_length(), MOST_CELL_BITS)
        self._shift = HASH_BITS - bits
        self._cells = self._cut(2**bits)

    def owner(self, drawn: int) -> int:
        """Whose hash it is."""
        return self.owners[bisect_left(self.hashes, drawn) % len(self.hashes)]

    def finder(self, hashed: Hash64) -> Callable[[bytes], int]:
        """The owner of a key, for who asks for many."""
        cells, shift = self._cells, self._shift
        # One more point beyond every hash: the first one's owner, met again.
        hashes, owners = [*self.hashes, 2**HASH_BITS], [*self.owners, self.owners[0]]

        def find(key: bytes) -> int:
            drawn = hashed(key)
            cell = cells[drawn >> shift]
            if cell >= 0:
                return cell
            point = ~cell
            while hashes[point] < drawn:
                point += 1
            return owners[point]

        return find

    def shares(self) -> dict[int, float]:
        """Each owner's part of the circle; they add up to 1."""
        arcs: dict[int, int] = dict.fromkeys(sorted(set(self.owners)), 0)
        before = self.hashes[-1] - 2**HASH_BITS
        for point, owner in zip(self.hashes, self.owners, strict=True):
            arcs[owner] += point - before
            before = point
        return {owner: arc / 2**HASH_BITS for owner, arc in arcs.items()}

    def _cut(self, count: int) -> "array[int]":
        """Of each cell its owner, or the complement of its first point's number: then one looks on from there."""
        cells = array("i")
        for number, (point, owner) in enumerate(zip(self.hashes, self.owners, strict=True)):
            free = (point >> self._shift) - len(cells)
            if free >= 0:
                cells.extend(repeat(owner, free))
                cells.append(~number)
        cells.extend(repeat(self.owners[0], count - len(cells)))
        return cells


def virtual_points(names: Iterable[bytes], points: Sequence[int], hashed: Hash64) -> Iterable[tuple[int, int]]:
    """So many points for each name, by the hashes of ``NAME_0``, ``NAME_1`` and so on; owners are positions."""
    for owner, (name, count) in enumerate(zip(names, points, strict=True)):
        for number in range(count):
            yield hashed(b"%b_%d" % (name, number)), owner
